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

from mininet_topos import formats
from planner.errors import PlanError
from planner.from_run import ModePrediction, as_fields, in_words, load_run, predict_run
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
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures here.")
    ] = None,
) -> None:
    """Predict the time of a round from a run's bytes, its computation and the rate of its links.

    Prints the prediction beside the measurement. The difference is what is neither link nor
    known computation.
    """
    if json_path is not None and (json_path.is_dir() or not json_path.parent.is_dir()):
        raise PlanError(f"--json {json_path}: it must be a file in a folder that exists")
    rates = axis(bandwidth, "--bandwidth", parse_rate_bps) if bandwidth else []
    record = load_run(run)
    predictions = predict_run(record, rates)
    console = Console()
    _show(predictions, console)
    if json_path is not None:
        found = {"run": str(run), "workers": record.setup.workers, **as_fields(predictions)}
        json_path.write_text(json.dumps(found, indent=2) + "\n")


def _show(predictions: Sequence[ModePrediction], console: Console) -> None:
    table = Table(box=SIMPLE, pad_edge=False)
    for column in ("mode", "link", "measured", "predicted", "difference", "from … to"):
        table.add_column(column, no_wrap=True)
    for each in predictions:
        label = formats.mode_label(each.name)
        for time in (each.here, *each.elsewhere):
            is_here = time is each.here
            table.add_row(
                label if is_here else "",
                rate_text(time.rate_bps),
                formats.seconds(each.measured_s) if is_here else "",
                formats.seconds(time.round_s),
                f"{each.error:+.1%}" if is_here else "",
                f"{formats.seconds(time.low_s)} … {formats.seconds(time.high_s)}",
            )
    console.print(table)
    for each in predictions:
        console.print(in_words(each), markup=False, highlight=False, soft_wrap=True)
    speedup = as_fields(predictions)["speedup"]
    if speedup is not None:
        others = "".join(
            f"; {other['predicted']:.2f}× at {rate_text(other['link_mbps'] * 1e6)}"
            for other in speedup["other_links"]
        )
        console.print(
            f"speed-up of Libra over server-only: predicted {speedup['predicted']:.2f}×, measured "
            f"{speedup['measured']:.2f}×{others}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
