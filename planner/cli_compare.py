"""`libra plan compare`: models on direct links and on other networks, by rate and cost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from controller.outputs import check_file, check_folder
from planner.description import Device
from planner.errors import PlanError
from planner.models import make_model
from planner.prices import Prices
from planner.topology.cost import assumptions
from planner.topology.sweep import (
    BASELINES,
    STUDY_BATCHES,
    STUDY_DEGREES,
    STUDY_DEVICE,
    STUDY_DEVICES,
    STUDY_RATES_BPS,
    STUDY_SERVERS,
    SweepOptions,
    headline,
    sweep,
)
from planner.topology.sweep_plots import draw_costs, draw_times
from planner.topology.topology_file import write_json
from planner.units import parse_rate_bps, rate_text

PROCESSES_MAX = 64
MIN_WIDTH = 112
"""Columns of the table, wherever it goes: figures that are cut off mislead."""


def compare(
    model: Annotated[
        list[str] | None,
        typer.Option(help=f"May be repeated; default: {', '.join(STUDY_BATCHES)}."),
    ] = None,
    degree: Annotated[
        list[int] | None, typer.Option(help="Interfaces of a server; default: 4 and 8.")
    ] = None,
    bandwidth: Annotated[
        list[str] | None,
        typer.Option(help="Of each interface; default: 10G, 25G, 40G, 100G, 200G."),
    ] = None,
    servers: Annotated[int, typer.Option(help="In the cluster.")] = STUDY_SERVERS,
    devices: Annotated[int, typer.Option(help="Of a server.")] = STUDY_DEVICES,
    fabric: Annotated[
        list[str] | None,
        typer.Option(help=f"Beside direct links; may be repeated: {', '.join(BASELINES)}."),
    ] = None,
    budget: Annotated[int, typer.Option(help="Strategies tried in each search.")] = 60,
    flops: Annotated[
        float, typer.Option(help="Operations a second that a device reaches.")
    ] = STUDY_DEVICE.flops_per_s,
    seed: Annotated[int, typer.Option(help="Of searches and random networks.")] = 1,
    prices: Annotated[
        Path | None, typer.Option(help="A list of prices (docs/plan-topology.md).")
    ] = None,
    processes: Annotated[int, typer.Option(help="That share the work.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Draw plots into this folder.")] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures here.")
    ] = None,
) -> None:
    """Compare direct links with other networks: the comparison of the TopoOpt study.

    Without options: six models, degrees 4 and 8, five rates, 128 servers of 4 devices.
    """
    check_file("--json", json_path)
    check_folder("--out", out)
    options = _options(model, degree, bandwidth, servers, devices, fabric, budget, flops, seed)
    if not 1 <= processes <= PROCESSES_MAX:
        raise PlanError(f"--processes {processes}: allowed are 1 to {PROCESSES_MAX}")
    listed = Prices.load(prices)
    options = SweepOptions(**{**vars(options), "prices": listed})
    console = Console()
    began = time.monotonic()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        bar = progress.add_task("comparisons", total=len(options.cells()))
        rows = sweep(options, processes, lambda row: progress.advance(bar))
    found = {
        "schema": 1,
        "servers": options.servers,
        "devices_per_server": options.devices,
        "device": vars(options.device),
        "batches": options.models,
        "budget": options.budget,
        "seed": options.seed,
        "took_s": time.monotonic() - began,
        "processor_s": sum(row["processor_s"] for row in rows),
        "assumptions": assumptions(listed),
        "headline": headline(rows),
        "rows": rows,
    }
    _show(found, console)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw_times(rows, out / "times.png")
        draw_costs(rows, out / "costs.png")
        console.print(f"plots: {out}", markup=False, highlight=False, soft_wrap=True)
    if json_path is not None:
        write_json(json_path, found)


def _options(
    model: list[str] | None,
    degree: list[int] | None,
    bandwidth: list[str] | None,
    servers: int,
    devices: int,
    fabric: list[str] | None,
    budget: int,
    flops: float,
    seed: int,
) -> SweepOptions:
    unknown = [name for name in fabric or () if name not in BASELINES]
    if unknown:
        raise PlanError(f"unknown fabric {unknown[0]!r}; known are {', '.join(BASELINES)}")
    models = {name: STUDY_BATCHES.get(name, make_model(name).batch) for name in model or ()}
    return SweepOptions(
        models=models or dict(STUDY_BATCHES),
        degrees=degree or STUDY_DEGREES,
        rates_bps=[parse_rate_bps(each) for each in bandwidth or ()] or STUDY_RATES_BPS,
        servers=servers,
        devices=devices,
        fabrics=fabric or BASELINES,
        budget=budget,
        seed=seed,
        device=STUDY_DEVICE if flops == STUDY_DEVICE.flops_per_s else Device(flops, "--flops"),
    )


def _show(found: dict[str, Any], console: Console) -> None:
    rows = found["rows"]
    fabrics = list(rows[0]["iteration_ms"])
    table = Table("ms", "links", *fabrics, "gain", box=SIMPLE, min_width=MIN_WIDTH)
    for row in rows:
        times = (f"{row['iteration_ms'][name]:.1f}" for name in fabrics)
        gain = "" if row["speedup"] is None else f"{row['speedup']:.2f}×"
        links = f"{row['degree']} × {rate_text(row['rate_bps'])}"
        table.add_row(row["model"], links, *times, gain)
    console.print(table, width=max(console.width, MIN_WIDTH))
    for line in found["assumptions"]:
        console.print(f"assumed: {line}", markup=False, highlight=False)
    console.print(
        f"{len(rows)} comparisons in {found['took_s']:.0f} s, {found['processor_s']:.0f} s of "
        "processor time",
        highlight=False,
    )
    head = found["headline"]
    if head["speedup_max"] is not None:
        best = head["speedup_max_of"]
        console.print(
            f"gain over the fat-tree of equal cost: up to {head['speedup_max']:.2f}× "
            f"({best['model']}, {best['degree']} × {rate_text(best['rate_bps'])}), "
            f"{head['speedup_mean']:.2f}× on average; the study: up to "
            f"{head['study_speedup_max']}×. These prices allow {head['largest_possible']:.2f}× "
            "at most, the ratio of the rates",
            highlight=False,
        )
    console.print(
        f"a switch as fast as the direct links costs {head['ideal_cost_ratio_mean']:.2f} times "
        "as much on average; the study: 3.2",
        highlight=False,
    )
