"""The command line `libra`."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.cli import app as bench_app
from controller.cli_controller import controller, token
from controller.cli_direct import run_topology
from controller.cli_doctor import completion, doctor
from controller.cli_identify import identify
from controller.cli_job import app as job_app
from controller.cli_job import key, push
from controller.cli_operate import dump, events, probe, stats, switches
from controller.cli_place import place_keys
from controller.cli_status import status
from controller.outputs import check_file
from controller.placing.methods import METHODS
from controller.targets import EMULATED
from host_stack import logs
from host_stack.errors import LibraError
from host_stack.progress import BSP, FORMS
from mininet_topos.direct_run import DirectOptions
from mininet_topos.faults import FaultPlan
from mininet_topos.options import MODES, RunOptions, parse_link_rate
from mininet_topos.outcome import audit_lines, fault_lines, scale_lines
from mininet_topos.runner import run as run_experiment
from planner.cli import app as plan_app
from workloads.datasets import KNOWN
from workloads.models import KNOWN as MODELS
from workloads.models import default_model
from workloads.optimizers import OPTIMIZERS
from workloads.training import FRAMEWORKS

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    help="In-network aggregation of the hot parameters of sparse models.",
)
DEFAULTS = RunOptions()
_FULL = (errno.ENOSPC, errno.EDQUOT)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"libra {metadata.version('libra-ina')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    """In-network aggregation of the hot parameters of sparse models."""


app.command()(controller)
app.command()(token)
app.command()(doctor)
app.command()(identify)
app.command()(status)
app.add_typer(job_app, name="job")
for command in (key, push, switches, stats, events, probe, dump):
    app.command()(command)
app.command()(completion)
app.add_typer(bench_app, name="bench")
app.add_typer(plan_app, name="plan")
app.command("place")(place_keys)


@app.command()
def run(
    dataset: Annotated[str, typer.Option(help=f"One of {', '.join(KNOWN)}.")] = DEFAULTS.dataset,
    model: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(MODELS)}, with options as NAME:OPTION=NUMBER,…; default: fm for "
            "ratings, lr for 0 and 1."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Worker hosts.")] = DEFAULTS.workers,
    servers: Annotated[
        int,
        typer.Option(
            help="Server hosts, each with a range of the keys. With more than one, --consistency "
            "is bsp, and killing a server needs --checkpoint-every 1."
        ),
    ] = DEFAULTS.servers,
    rounds: Annotated[int, typer.Option(help="Steps of each worker.")] = DEFAULTS.rounds,
    batch: Annotated[int, typer.Option(help="Examples per worker and round.")] = DEFAULTS.batch,
    optimizer: Annotated[
        str,
        typer.Option(help=f"Of the server: {', '.join(OPTIMIZERS)}; options as for --model."),
    ] = DEFAULTS.optimizer,
    learning_rate: Annotated[
        float, typer.Option(help="Of the optimiser.")
    ] = DEFAULTS.learning_rate,
    mode: Annotated[
        list[str] | None,
        typer.Option(help=f"May be repeated; default: all of {', '.join(MODES)}."),
    ] = None,
    target: Annotated[
        str,
        typer.Option(help="; ".join(f"{t.name}: {t.description}" for t in EMULATED.values()) + "."),
    ] = DEFAULTS.target,
    lanes: Annotated[
        int, typer.Option(help="Lanes of the switch program: 16, 32 or 64.")
    ] = DEFAULTS.lanes,
    link_mbps: Annotated[
        float, typer.Option(help="Rate of every link, each way, in Mbit/s.")
    ] = DEFAULTS.link_mbps,
    link_rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MBPS",
            help="Another rate for the link of server or worker1, worker2, …; may be repeated.",
        ),
    ] = None,
    topology: Annotated[
        str,
        typer.Option(
            help="star: one switch; leaf-spine: a rack of hosts below each leaf, which sums for it."
        ),
    ] = DEFAULTS.topology,
    leaves: Annotated[int, typer.Option(help="Leaf switches of a leaf-spine.")] = DEFAULTS.leaves,
    spines: Annotated[int, typer.Option(help="Spine switches of one.")] = DEFAULTS.spines,
    hot: Annotated[
        int | None,
        typer.Option(help="Hot keys on the switch; default: what saves most bytes."),
    ] = None,
    placement: Annotated[
        str, typer.Option(help=f"How they are placed: {', '.join(METHODS)}.")
    ] = DEFAULTS.placement,
    fraction_bits: Annotated[
        int | None,
        typer.Option("--fraction-bits", "-F", help="Scale F; default: from sampled gradients."),
    ] = None,
    sample: Annotated[
        float, typer.Option(help="Share of the training data that identifies hot keys.")
    ] = DEFAULTS.sample,
    seed: Annotated[int, typer.Option(help="Seed of data, model and batches.")] = DEFAULTS.seed,
    transport: Annotated[
        str, typer.Option(help="batch: the fast path; scapy: slow, one packet at a time.")
    ] = DEFAULTS.transport,
    evaluate_every: Annotated[
        int, typer.Option(help="Rounds between measurements of quality.")
    ] = DEFAULTS.evaluate_every,
    checkpoint_every: Annotated[
        int, typer.Option(help="Rounds between checkpoints of the server; 0 for none.")
    ] = DEFAULTS.checkpoint_every,
    fault: Annotated[
        str | None,
        typer.Option(
            help="What goes wrong, for example loss=0.05,kill=switch@r10,cut=w0@r4+2s; see "
            "docs/faults.md. Mode server-only stays without faults unless it is alone."
        ),
    ] = None,
    consistency: Annotated[
        str,
        typer.Option(
            help=f"How workers keep in step: {FORMS}. But for bsp, models differ from run to run."
        ),
    ] = DEFAULTS.consistency,
    audit: Annotated[
        bool, typer.Option("--audit", help="Check that what was pushed is what was applied.")
    ] = False,
    change_hot_set: Annotated[
        int | None,
        typer.Option(
            metavar="ROUND",
            help="Let other keys become hot as a round begins: the hottest quarter makes room.",
        ),
    ] = None,
    backup_path: Annotated[
        bool,
        typer.Option(
            "--backup-path",
            help="Give hosts a second path, which they take while the switch is down.",
        ),
    ] = False,
    framework: Annotated[
        str,
        typer.Option(
            help=f"What workers compute with: {', '.join(FRAMEWORKS)}. torch: model dlrm, its "
            "dense part by all-reduce; see docs/pytorch.md."
        ),
    ] = DEFAULTS.framework,
    log_format: Annotated[
        str,
        typer.Option(help=f"Of the logs below OUT/…/logs: {', '.join(logs.FORMATS)}."),
    ] = DEFAULTS.log_format,
    topo: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Run the traffic of a planned topology instead (libra plan topology --emit); "
            "--link-mbps, --seed, --out and --json hold.",
        ),
    ] = None,
    topo_seconds: Annotated[
        float, typer.Option(help="With --topo: how long the traffic should take, simulated.")
    ] = DirectOptions.seconds,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = DEFAULTS.out,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Also write run.json to this file.")
    ] = None,
) -> None:
    """Train a sparse model in a Mininet emulation, with and without the switch, and report.

    Ends with run.json, plots and report.html in OUT/<time>; OUT/latest points there.
    """
    check_file("--json", json_path)
    if topo is not None:
        run_topology(DirectOptions(topo, link_mbps, topo_seconds, seed, out), json_path)
        return
    options = RunOptions(
        dataset=dataset,
        model=model or default_model(dataset),
        workers=workers,
        servers=servers,
        rounds=rounds,
        batch=batch,
        optimizer=optimizer,
        learning_rate=learning_rate,
        modes=tuple(dict.fromkeys(mode)) if mode else DEFAULTS.modes,
        target=target,
        link_mbps=link_mbps,
        link_rates=dict(map(parse_link_rate, link_rate or ())),
        lanes=lanes,
        topology=topology,
        leaves=leaves,
        spines=spines,
        hot=hot,
        placement=placement,
        fraction_bits=fraction_bits,
        sample=sample,
        seed=seed,
        transport=transport,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        faults=FaultPlan.parse(fault or ""),
        consistency=consistency,
        audit=audit,
        backup_path=backup_path,
        change_hot_set=change_hot_set,
        framework=framework,
        log_format=log_format,
        out=out,
    )
    console = Console()
    summary, folder = run_experiment(options, _plain(console))
    if json_path is not None:
        json_path.write_text(json.dumps(summary, indent=2) + "\n")
    show_summary(console, summary, folder)
    hashes = {entry["model_sha256"] for entry in summary["modes"].values()}
    if options.consistency == str(BSP) and len(hashes) > 1:
        raise LibraError("the models of the modes differ: this is a defect, please report it")
    if summary["audit"] is not None and not summary["audit"]["conserved"]:
        raise LibraError(
            "what was applied is not what was pushed: this is a defect, please report it"
        )


def _plain(console: Console) -> Callable[[str], None]:
    """Print lines as they are: paths are neither broken nor taken for markup."""
    return lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)


def show_summary(console: Console, summary: dict[str, Any], folder: Path) -> None:
    """Print the table and the headline of a finished run."""
    table = Table("mode", "s per round", "server in", "server out", "quality", "model SHA-256")
    for name, mode in summary["modes"].items():
        server = mode["bytes"][mode["busiest_server"]]
        metrics = mode["quality"]["metrics"]
        table.add_row(
            name,
            f"{mode['round_s_median']:.3f}",
            f"{server['from_switch'] / 1e6:.2f} MB",
            f"{server['to_switch'] / 1e6:.2f} MB",
            ", ".join(f"{metric} {values[-1]:.4f}" for metric, values in metrics.items()),
            mode["model_sha256"][:16],
        )
    console.print(table)
    if summary["speedup"] is not None:
        console.print(
            f"speed-up {summary['speedup']:.2f}× over server-only; link bytes allow "
            f"{summary['bound']:.2f}×"
        )
    for line in (*fault_lines(summary), *audit_lines(summary), *scale_lines(summary)):
        _plain(console)(line)
    libra = summary["modes"].get("libra")
    if libra is not None and summary["hot_keys"] and not libra["switch_answers"]:
        _plain(console)("warning: the switch did not answer every host, see run.json")
    _plain(console)(f"report: {folder / 'report.html'}")


def main() -> None:
    """Run the command line; an expected error is one line and an exit code."""
    try:
        app()
    except LibraError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except OSError as error:
        # A full disk, a folder that may not be written, …
        where = f": {error.filename}" if error.filename else ""
        advice = "; make room there and try again" if error.errno in _FULL else ""
        sys.stderr.write(f"error: {error.strerror or error}{where}{advice}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
