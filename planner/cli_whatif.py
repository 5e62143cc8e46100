"""`libra plan whatif`: what the network costs an iteration, and what would make it less."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from controller.outputs import check_file, check_folder
from planner.adding import V100_ADDS, AddTable
from planner.collectives import SCHEMES, Scheme
from planner.description import ASSUMED_DEVICE, JobDescription
from planner.errors import PlanError
from planner.fusion import SIZE_BYTES, WAIT_S, Fusion
from planner.hot_cold import HotCold
from planner.measuring import FLOWS, PLACES, measure
from planner.models import KNOWN, MAX_BATCH, make_model
from planner.plots import draw_answer, draw_sweep
from planner.profile import Profile, model_profile
from planner.profile_log import read_log
from planner.question import TARGET, Answer, Question, as_fields, ask, in_words, job_fields
from planner.reach import check_target
from planner.simulation import Job
from planner.sweeping import Sweep, axis, sweep
from planner.transport import Transport
from planner.units import above_0, milliseconds, parse_rate_bps, rate_text

_SHOWN = 24
"""Rows of a sweep's table; of more, some that are spread evenly."""


@dataclass(frozen=True)
class Axes:
    """What is asked about: every combination."""

    rates_bps: list[float]
    workers: list[int]
    ratios: list[float]
    utilizations: list[float]

    @property
    def is_point(self) -> bool:
        """Whether there is one combination only."""
        sizes = (len(self.rates_bps), len(self.workers), len(self.ratios), len(self.utilizations))
        return max(sizes) == 1


def whatif(
    job: Annotated[Path | None, typer.Option(help="A job description (docs/plan.md).")] = None,
    profile: Annotated[
        Path | None, typer.Option(help="A log of gradient-ready events, measured.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help=f"A layer table: {', '.join(KNOWN)}; options as NAME:OPTION=NUMBER,…."),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(help="Of each link, each way: 10G; several as 1G,10G or 1G:100G:50."),
    ] = None,
    workers: Annotated[
        str | None, typer.Option(help="How many; several as 8,64 or 2:64:6.")
    ] = None,
    compression: Annotated[
        str, typer.Option(help="Ratio, 1 for none; several as for --bandwidth.")
    ] = "1",
    utilization: Annotated[
        str | None,
        typer.Option(help="Share of the rate that the transport reaches; several likewise."),
    ] = None,
    scheme: Annotated[
        str, typer.Option(help=f"How gradients are summed: {', '.join(SCHEMES)}.")
    ] = "ring",
    servers: Annotated[
        int | None, typer.Option(help="Parameter servers, for schemes that have some.")
    ] = None,
    coverage: Annotated[
        float, typer.Option(help="Share of gradients that are hot, for scheme libra.")
    ] = 0.0,
    distinct: Annotated[
        float,
        typer.Option(help="Hot keys of all workers as a multiple of one worker's, for libra."),
    ] = 1.0,
    iteration_ms: Annotated[
        float | None, typer.Option(help="Time of an iteration on one device.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Examples per device, for --model.")] = None,
    flops: Annotated[
        float | None, typer.Option(help="Operations a second that a device reaches, for --model.")
    ] = None,
    additions: Annotated[
        Path | None, typer.Option(help="Measured additions: lines of bytes,seconds.")
    ] = None,
    fusion_ms: Annotated[
        float, typer.Option(help="Gradients are sent after this time at the latest…")
    ] = WAIT_S * 1e3,
    fusion_mib: Annotated[
        float, typer.Option(help="… or when so many MiB have gathered.")
    ] = SIZE_BYTES / (1 << 20),
    no_overlap: Annotated[
        bool, typer.Option("--no-overlap", help="All messages leave after the backward pass.")
    ] = False,
    compression_ns: Annotated[
        float, typer.Option(help="Compressing and decompressing, in ns per byte of gradients.")
    ] = 0.0,
    latency_us: Annotated[float | None, typer.Option(help="From one host to another.")] = None,
    per_host: Annotated[int | None, typer.Option(help="Workers that share a host's link.")] = None,
    target: Annotated[float, typer.Option(help="Scaling factor that would do.")] = TARGET,
    measured: Annotated[
        bool,
        typer.Option("--measure", help="Measure what the transport reaches, and use that."),
    ] = False,
    measure_on: Annotated[
        str | None,
        typer.Option(
            help="; ".join(f"{name}: {text}" for name, text in PLACES.items())
            + f"; default: {next(iter(PLACES))}."
        ),
    ] = None,
    flows: Annotated[
        int | None,
        typer.Option(help=f"For --measure: one flow is compared with these; default: {FLOWS}."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Draw plots into this folder.")] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures here.")
    ] = None,
) -> None:
    """Say what the network costs an iteration, and what compression, links or Libra would change.

    Give a --job, a --profile or a --model. With several values of --bandwidth, --workers,
    --compression or --utilization, all combinations are computed.
    """
    check_file("--json", json_path)
    check_folder("--out", out)
    described = JobDescription.load(job) if job else None
    axes = Axes(
        axis(_given("--bandwidth", bandwidth), "--bandwidth", parse_rate_bps)
        if bandwidth or not described
        else [described.links.rate_bps],
        _counts(_given("--workers", workers))
        if workers or not described
        else [described.cluster.workers],
        axis(compression, "--compression", _number("--compression")),
        axis(utilization or "1", "--utilization", _number("--utilization")),
    )
    check_target(target)
    _check_measuring(measured, measure_on, flows, utilization)
    asked = Job(
        profile=_profile(described, profile, model, iteration_ms, batch, flops),
        fusion=Fusion(fusion_ms / 1e3, fusion_mib * (1 << 20)),
        scheme=Scheme(
            scheme,
            _first_of(servers, described.parameter_servers if described else 1),
            AddTable.load(additions) if additions else V100_ADDS,
            HotCold(coverage, distinct),
            compression_ns / 1e9,
        ),
        transport=Transport.constant(axes.utilizations[0]),
        overlap=not no_overlap,
    )
    if described is not None:
        asked = _on_links(asked, described, utilization is not None)
    if latency_us is not None:
        asked = replace(asked, latency_s=latency_us / 1e6)
    if per_host is not None:
        asked = replace(asked, per_host=per_host)
    console = Console()
    found: dict[str, Any] = {"schema": 1, "measured": None}
    if measured:
        place = next(iter(PLACES)) if measure_on is None else measure_on
        flow = measure(place, axes.rates_bps, _first_of(flows, FLOWS), _printer(console))
        asked = replace(asked, transport=flow.transport)
        found["measured"] = flow.as_fields()
    if axes.is_point:
        found |= _answer(asked, axes, target, out, console)
    else:
        found |= _sweep(asked, axes, target, out, console, curve=measured or _has_curve(described))
    if json_path is not None:
        json_path.write_text(json.dumps(found, indent=2) + "\n")


def _answer(
    asked: Job, axes: Axes, target: float, out: Path | None, console: Console
) -> dict[str, Any]:
    answer = ask(Question(asked, axes.rates_bps[0], axes.workers[0], axes.ratios[0], target))
    _show_answer(answer, console)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw_answer(answer, out / "whatif.png")
        _printer(console)(f"plot: {out / 'whatif.png'}")
    return as_fields(answer)


def _sweep(
    asked: Job, axes: Axes, target: float, out: Path | None, console: Console, *, curve: bool
) -> dict[str, Any]:
    shares = [] if curve else axes.utilizations
    swept = sweep(asked, axes.rates_bps, axes.workers, axes.ratios, shares)
    reached = int((swept.scaling_factor >= target).sum())
    _show_profile(asked, console)
    _show_sweep(swept, console)
    _printer(console)(f"{target:g} is reached at {reached:,} of {len(swept):,} points.")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw_sweep(swept, target, out / "sweep.png")
        _printer(console)(f"plot: {out / 'sweep.png'}")
    return {
        **job_fields(asked),
        "target": target,
        "reached": reached,
        "points": swept.as_fields(),
    }


def _check_measuring(
    measured: bool, measure_on: str | None, flows: int | None, utilization: str | None
) -> None:
    if measured and utilization is not None:
        raise PlanError("--measure finds the utilisation: leave out --utilization")
    if not measured and (measure_on is not None or flows is not None):
        raise PlanError("--measure-on and --flows say how to --measure: give that too")


def _has_curve(described: JobDescription | None) -> bool:
    return described is not None and bool(described.links.goodput_bps)


def _profile(
    described: JobDescription | None,
    log: Path | None,
    model: str | None,
    iteration_ms: float | None,
    batch: int | None,
    flops: float | None,
) -> Profile:
    """The profile that the options name, of the description unless something else is given."""
    if (log is not None) + (model is not None) + (described is not None) != 1:
        raise PlanError("give one of --job, --profile and --model")
    if iteration_ms is not None:
        above_0("--iteration-ms", iteration_ms)
    iteration_s = None if iteration_ms is None else iteration_ms / 1e3
    for_layers = batch is not None or flops is not None
    if described is not None:
        log, iteration_s = described.profile, iteration_s or described.iteration_s
        if flops is None and described.device is not ASSUMED_DEVICE:
            flops = described.device.flops_per_s
    if log is not None:
        if for_layers:
            raise PlanError(
                "--batch and --flops are for layer tables: the times and sizes of a profile are "
                "measured"
            )
        read = read_log(log)
        return read if iteration_s is None else read.with_iteration(iteration_s)
    layers = described.model if described else make_model(str(model))
    batch = _first_of(batch, described.batch if described else layers.batch)
    if not 1 <= batch <= MAX_BATCH:
        raise PlanError(f"--batch {batch}: allowed are 1 to {MAX_BATCH:,}")
    return model_profile(layers, batch, flops, iteration_s)


def _first_of(option: int | None, otherwise: int) -> int:
    return otherwise if option is None else option


def _on_links(asked: Job, described: JobDescription, utilization_given: bool) -> Job:
    """The job on the links of its description."""
    links = described.links
    asked = replace(
        asked,
        latency_s=links.latency_s,
        per_host=described.cluster.devices_per_server,
        slowest_bps=min(links.servers_bps.values(), default=asked.slowest_bps),
    )
    if links.goodput_bps and not utilization_given:
        curve = Transport.measured(links.goodput_bps, "measured, in the job description")
        asked = replace(asked, transport=curve)
    return asked


def _given(name: str, value: str | None) -> str:
    if value is None:
        raise PlanError(f"{name} is missing; only a --job has one of its own")
    return value


def _counts(text: str) -> list[int]:
    """Numbers of workers; those within a range are rounded, and each comes once."""

    def parse(one: str) -> float:
        value = _number("--workers")(one)
        if value != int(value):
            raise PlanError(f"--workers {one!r}: need a whole number")
        return value

    return sorted({round(value) for value in axis(text, "--workers", parse)})


def _number(name: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError as error:
            raise PlanError(f"{name} {text!r} is no number") from error
        return above_0(f"{name} {text!r}", value)

    return parse


def _show_profile(job: Job, console: Console) -> None:
    iteration = job.profile.iteration
    _printer(console)(
        f"{job.profile.name}: {job.profile.total_bytes / 1e6:,.1f} MB of gradients in "
        f"{len(job.messages()):,} messages, backward pass {milliseconds(job.profile.backward_s)}, "
        f"iteration {milliseconds(iteration.seconds)} ({iteration.source})"
    )


def _show_answer(answer: Answer, console: Console) -> None:
    job, say = answer.question.job, _printer(console)
    _show_profile(job, console)
    table = Table("scheme", "scaling factor", box=SIMPLE, pad_edge=False)
    for name, factor in answer.schemes.items():
        hot = f" ({job.scheme.hot_cold.coverage:.0%} hot)" if name == "libra" else ""
        table.add_row(name + hot, f"{factor:.4f}")
    console.print(table)
    for line in in_words(answer):
        say(line)


def _show_sweep(swept: Sweep, console: Console) -> None:
    columns = ("link rate", "workers", "utilisation", "compression", "scaling factor", "overhead")
    table = Table(*columns, box=SIMPLE, pad_edge=False)
    step = max(1, len(swept) // _SHOWN)
    for i in range(0, len(swept), step):
        table.add_row(
            rate_text(float(swept.rate_bps[i])),
            f"{swept.workers[i]}",
            f"{swept.utilization[i]:.3g}",
            f"{swept.ratio[i]:.3g}",
            f"{swept.scaling_factor[i]:.4f}",
            milliseconds(float(swept.overhead_s[i])),
        )
    console.print(table)
    if step > 1:
        _printer(console)(f"every {step}th of {len(swept):,} points; --json writes all of them")


def _printer(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)
