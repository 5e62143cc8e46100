"""`libra place`: which cell each hot key gets, and how the methods compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from controller.artifacts import program_layout
from controller.byte_model import hot_set_size
from controller.cli_share import share
from controller.key_counts import KeyCounts
from controller.outputs import check_file, check_folder, check_new_file
from controller.placing import compare as comparing
from controller.placing.blocks import on_switch
from controller.placing.compare import Trace
from controller.placing.documents import training_documents
from controller.placing.methods import BEST, METHODS, Data, check_method, place
from controller.placing.plots import draw_methods, draw_sizes
from host_stack.errors import BadInput
from host_stack.layout import MAX_WORKERS, Layout
from host_stack.placement import Keys, Placement, require_fit
from workloads import options as opt
from workloads.datasets import KNOWN
from workloads.models import default_model
from workloads.trace import KeyTrace
from workloads.workload import MAX_SEED, Workload

SCHEMA = 1
MAX_ROUNDS = 100
MAX_BATCH = 2**31 - 1


ON_DATA = frozenset(("model", "batch", "sample"))
GOES_WITH = {
    "job": frozenset(("program", "json_path")),
    "compare": ON_DATA
    | {"dataset", "hot", "workers", "program", "lanes", "rounds", "seed", "out", "json_path"},
    "hot_file": frozenset(
        ("trace", "method", "hot", "workers", "program", "rows", "seed", "out", "json_path")
    ),
    "dataset": ON_DATA
    | {"method", "hot", "workers", "program", "rows", "seed", "out", "json_path"},
}
"""The options that go with each of those that say what to do, the first of which decides."""


def place_keys(
    context: typer.Context,
    dataset: Annotated[
        str | None, typer.Option(help=f"Data whose keys to place: {', '.join(KNOWN)}.")
    ] = None,
    hot_file: Annotated[
        Path | None, typer.Option(help="A hot set that `libra identify` wrote, to place.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="With --hot-file: a trace of keys, to see which meet.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(METHODS)}; default: {BEST}.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Measure all methods on held-out data.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="Default: fm for ratings, lr for 0 and 1.")
    ] = None,
    hot: Annotated[
        int | None, typer.Option(help="Size of the hot set; default: what saves most bytes.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Examples per push.")] = 64,
    workers: Annotated[int, typer.Option(help="Worker hosts: pushes per round.")] = 8,
    sample: Annotated[
        float, typer.Option(help="Share of the training data that the hot set comes from.")
    ] = 1.0,
    program: Annotated[
        str, typer.Option(help="What the switch runs, as its inventory names it: lanes and rows.")
    ] = "libra",
    lanes: Annotated[
        int | None, typer.Option(help="For --compare: other lanes than the compiled program has.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="Rows of the switch that the job may have; default: all of them."),
    ] = None,
    job: Annotated[
        list[Path] | None,
        typer.Option(help="A job's placement, to share a switch with others; repeated."),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Held-out rounds of --compare.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the split, the sample and the pushes.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="The placement's file; with --compare the folder of its results."),
    ] = None,
    json_path: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the results here, for programs."),
    ] = None,
) -> None:
    """Place a hot set on the switch's lanes and rows, or compare all methods of doing so.

    Writes OUT (placement.npz unless given), or with --compare compare.json, methods.png and
    sizes.png into the folder OUT (out/place unless given). With --job, once for each of several
    jobs, tells which rows of one switch each may have.
    """
    layout = program_layout(program)
    check_file("--json", json_path)
    _check_together(context)
    if job:
        share(job, layout, json_path)
        return
    if method is not None:
        check_method(method)
    if hot is not None and hot < 0:
        raise BadInput(f"--hot {hot}: it must be 0 or more")
    _check_pushes(workers, batch, seed)
    if compare:
        if dataset is None:
            raise BadInput("--compare needs a --dataset, whose held-out part the methods meet")
        if not 0 < rounds <= MAX_ROUNDS:
            raise BadInput(f"--rounds {rounds}: allowed are 1 to {MAX_ROUNDS}")
        if lanes is not None:
            layout = Layout(lanes, layout.rows, layout.window, layout.program)
        folder = out or Path("out/place")
        check_folder("--out", folder)
        workload = _open(dataset, model, seed, workers, batch)
        _compare(workload, layout, hot, sample, rounds, seed, folder, json_path)
        return
    if dataset is None and hot_file is None:
        raise BadInput("give either --dataset or --hot-file")
    path = out or Path("placement.npz")
    check_new_file("--out", path)  # before files and data are read
    block = layout if rows is None else _block(rows, layout)
    require_fit(hot or 0, block)
    if hot_file is not None:
        counts = KeyCounts.load(hot_file)
        data = Data(_pushes(trace, counts), 1, workers, seed)
    else:
        workload = _open(str(dataset), model, seed, workers, batch)
        counts = KeyCounts.of(*workload.sample_counts(sample, seed))
        data = Data(training_documents(workload, seed), batch, workers, seed)
        hot = hot_set_size(counts.heat(batch), workers, block) if hot is None else hot
    ranked = counts.top(len(counts) if hot is None else hot).keys
    method = method or BEST
    placement = on_switch(place(method, ranked, block, data), layout)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        placement.save(file)
    _say(_placed(placement, method, path))
    if json_path is not None:
        _write(json_path, _placed_fields(placement, method, path))


def _placed_fields(placement: Placement, method: str, path: Path) -> dict[str, Any]:
    """What a program is told of a new placement."""
    return {
        "schema": SCHEMA,
        "placement": str(path),
        "method": method,
        "keys": len(placement),
        "lanes": placement.layout.lanes,
        "rows": placement.used_rows,
        "paired_rows": len(placement.pairs),
    }


def _write(path: Path, fields: dict[str, Any]) -> None:
    path.write_text(json.dumps(fields, indent=2) + "\n")


def _placed(placement: Placement, method: str, path: Path) -> str:
    """What a person is told of a new placement."""
    pairs = len(placement.pairs)
    text = (
        f"{len(placement):,} keys placed by method {method}: {placement.used_rows:,} rows of "
        f"{placement.layout.lanes} lanes, {pairs} of them with second cells; {path}"
    )
    if method == BEST and len(placement) and not pairs:
        text += "\nno row is left for second cells: a smaller --hot would leave some"
    return text


def _check_together(context: typer.Context) -> None:
    """Raise `BadInput` for the first option that was given and would be ignored."""
    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    given = [
        str(parameter.name)
        for parameter in context.command.params
        if _was_given(context, str(parameter.name))
    ]
    task = next((task for task in GOES_WITH if task in given), None)
    if task is None:
        return
    for name in given:
        if name != task and name not in GOES_WITH[task]:
            where = [flags[other] for other, names in GOES_WITH.items() if name in names]
            hint = f"; it goes with {' or '.join(where)}" if where else ""
            raise BadInput(f"{flags[name]} does not go with {flags[task]}{hint}")


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _block(rows: int, layout: Layout) -> Layout:
    """The layout as a job sees it that may have so many rows."""
    if not 0 < rows <= layout.rows or rows & (rows - 1):
        raise BadInput(f"--rows {rows}: allowed are powers of two up to {layout.rows}")
    return Layout(layout.lanes, rows, layout.window, layout.program)


def _check_pushes(workers: int, batch: int, seed: int) -> None:
    opt.integer("--workers", workers, 1, MAX_WORKERS)
    opt.integer("--batch", batch, 1, MAX_BATCH)
    opt.integer("--seed", seed, 0, MAX_SEED)


def _pushes(trace: Path | None, counts: KeyCounts) -> list[Keys]:
    """The pushes of a trace, if there is one; it must be of the model that `counts` are of."""
    if trace is None:
        return []
    recorded = KeyTrace.load(trace)
    if recorded.num_keys != counts.num_keys:
        raise BadInput(
            f"{trace} is of a model of {recorded.num_keys} keys, the hot set of one of "
            f"{counts.num_keys}"
        )
    return list(recorded)


def _open(dataset: str, model: str | None, seed: int, workers: int, batch: int) -> Workload:
    return Workload.open(
        dataset, model or default_model(dataset), seed=seed, workers=workers, batch_size=batch
    )


def _compare(
    workload: Workload,
    layout: Layout,
    hot: int | None,
    sample: float,
    rounds: int,
    seed: int,
    out: Path,
    json_path: Path | None,
) -> None:
    trace = Trace.of(workload, sample, rounds, seed, layout)
    sizes = comparing.curves(trace)
    if hot is None:
        hot = next(curve.best for curve in sizes if curve.lanes == layout.lanes)
    ranked = trace.counts.top(hot).keys
    results = comparing.compare(trace, ranked)
    described = workload.describe()
    names = ("dataset", "model", "num_keys", "train_examples", "test_examples")
    conditions = {
        **{name: described[name] for name in names},
        "batch": workload.schedule.batch_size,
        "hot": hot,
        "sample": sample,
        "seed": seed,
    }
    report = comparing.report(trace, results, sizes, conditions)
    out.mkdir(parents=True, exist_ok=True)
    for path in (out / "compare.json", json_path):
        if path is not None:
            _write(path, report)
    draw_methods(report, out / "methods.png")
    draw_sizes(report, out / "sizes.png")
    _show(report, out)


def _show(report: dict[str, Any], out: Path) -> None:
    columns = ("method", "packets", "conflicts", "rows", "hot bytes", "all bytes", "time")
    table = Table(*columns, box=SIMPLE, pad_edge=False)
    for name, entry in report["methods"].items():
        table.add_row(
            name,
            f"{entry['packets_ratio']:.4f}×",
            f"{entry['conflicts']:,.0f}",
            f"{entry['rows_touched']:,.0f}",
            f"{entry['hot_bytes']:,.0f}",
            f"{entry['server_bytes']:,.0f}",
            f"{entry['place_s']:.2f} s",
        )
    Console().print(table)
    best = " · ".join(
        f"{curve['lanes']} lanes: {curve['best']:,} keys, {curve['bound']:.2f}× fewer bytes"
        for curve in report["sizes"]
    )
    _say(
        f"{report['hot']:,} hot keys of {report['dataset']}, {report['workers']} workers, pushes "
        f"of {report['batch']} held-out examples, {report['rounds']} rounds, "
        f"{report['lanes']} lanes\n"
        "packets as a multiple of the ideal, conflicts a push, rows and bytes a round on the "
        f"server's link\nhow many keys the byte model places: {best}\nresults: {out}"
    )


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
