"""`libra plan from-run`: a run's time per round, predicted beside measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from controller.outputs import check_file, check_folder
from mininet_topos import formats
from planner.from_run import ModePrediction, as_fields, in_words, load_run, predict_run
from planner.plots import draw_rounds
from planner.round_model import LinkRates
from planner.sweeping import axis
from planner.units import parse_rate_bps, rate_text


def from_run(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or its run.json.")] = Path(
        "out/latest"
    ),
    bandwidth: Annotated[
        str | None,
        typer.Option(help="Also predict for links of these rates: 5M,50M or 1M:100M:5."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Draw a plot into this folder.")] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures here.")
    ] = None,
) -> None:
    """Predict the time of a round from a run's bytes, the work of its processes and its links.

    Prints the prediction beside the measurement, and what it would be if no process waited for a
    processor. The difference is what is neither link nor known work.
    """
    check_file("--json", json_path)
    check_folder("--out", out)
    rates = [] if bandwidth is None else axis(bandwidth, "--bandwidth", parse_rate_bps)
    record = load_run(run)
    predictions = predict_run(record, rates)
    console = Console()
    _show(predictions, console)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw_rounds(predictions, out / "rounds.png")
        console.print(f"plot: {out / 'rounds.png'}", markup=False, highlight=False, soft_wrap=True)
    if json_path is not None:
        found = {
            "schema": 1,
            "run": str(run),
            "workers": record.setup.workers,
            **as_fields(predictions),
        }
        json_path.write_text(json.dumps(found, indent=2) + "\n")


def _show(predictions: Sequence[ModePrediction], console: Console) -> None:
    table = Table(box=SIMPLE, pad_edge=False)
    for column in ("mode", "link", "measured", "predicted", "difference", "none waits"):
        table.add_column(column, no_wrap=True)
    for each in predictions:
        label = formats.mode_label(each.name)
        for time in (each.here, *each.elsewhere):
            is_here = time is each.here
            most = "" if is_here or not each.is_at_most(time) else "≤ "
            table.add_row(
                label if is_here else "",
                _rates_text(time.rates),
                formats.seconds(each.measured_s) if is_here else "",
                f"{most}{formats.seconds(time.round_s)}",
                f"{each.error:+.1%}" if is_here else "",
                f"{most}{formats.seconds(time.free_s)}",
            )
    console.print(table)
    for each in predictions:
        console.print(in_words(each), markup=False, highlight=False, soft_wrap=True)
    if any(each.is_at_most(time) for each in predictions for time in each.elsewhere):
        console.print(
            "On links faster than the run's a round takes at most as long as said: processes that "
            "wait less for links also do less. Run it on such links to know.",
            highlight=False,
            soft_wrap=True,
        )
    speedup = as_fields(predictions)["speedup"]
    if speedup is not None:
        others = "".join(
            f"; {other['predicted']:.2f}× at {rate_text(other['link_mbps'] * 1e6)}"
            for other in speedup["other_links"]
            if other["predicted"] is not None
        )
        console.print(
            f"speed-up of Libra over server-only: predicted {speedup['predicted']:.2f}×, measured "
            f"{speedup['measured']:.2f}×{others}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _rates_text(rates: LinkRates) -> str:
    """Of links, for people; the slowest worker's only if it is another one."""
    server, worker = rate_text(rates.server_bps), rate_text(rates.worker_bps)
    return server if server == worker else f"{server}, slowest {worker}"
