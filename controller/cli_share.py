"""`libra place --job`: which rows of one switch each of several jobs has."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from controller.placing.blocks import blocks_of
from host_stack.layout import Layout
from host_stack.placement import Placement

SCHEMA = 1


def share(files: list[Path], layout: Layout, json_path: Path | None) -> None:
    """Show the block of each placement, and write it to `json_path`.

    Raises `LayoutMismatch` for a placement of another layout, `BadInput` if they do not fit.
    """
    placements = [Placement.load(path) for path in files]
    for path, placement in zip(files, placements, strict=True):
        layout.require(placement.layout, str(path))
    blocks = blocks_of([placement.used_rows for placement in placements], layout)
    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("placement", overflow="fold")
    for title in ("keys", "rows in use", "first row", "rows"):
        table.add_column(title, justify="right", no_wrap=True)
    jobs = []
    for path, placement, block in zip(files, placements, blocks, strict=True):
        numbers = (len(placement), placement.used_rows, block.row_base, block.rows)
        table.add_row(str(path), *(f"{number:,}" for number in numbers))
        jobs.append({"placement": str(path), "keys": len(placement), **asdict(block)})
    Console().print(table)
    if json_path is not None:
        json_path.write_text(json.dumps({"schema": SCHEMA, "jobs": jobs}, indent=2) + "\n")
