"""`libra run --topo`: the traffic of a planned topology, measured beside simulated."""

from __future__ import annotations

import json
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from mininet_topos.direct_run import DirectOptions, run_direct


def run_topology(options: DirectOptions, json_path: Path | None) -> None:
    """Run the traffic, print measured and simulated times, and write run.json there too."""
    console = Console()
    summary, folder = run_direct(
        options, lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)
    )
    if json_path is not None:
        json_path.write_text(json.dumps(summary, indent=2) + "\n")
    table = Table("traffic", "bytes", "measured", "simulated", "ratio", box=SIMPLE)
    for each in summary["allreduces"]:
        name = f"AllReduce of {each['members']} over {each['rings']} rings"
        _row(table, name, each)
    if summary["transfers"]["count"]:
        _row(table, f"{summary['transfers']['count']} transfers", summary["transfers"])
    console.print(table)
    if waits := summary["transfers"]["queueing_s"]:
        console.print(
            f"beyond what is simulated, transfers may wait {waits:.2f} s in queues",
            highlight=False,
        )
    console.print(
        f"TCP sent {summary['segments_sent_again']:,} of {summary['segments']:,} segments again; "
        f"{summary['window_bytes'] / 1e3:.0f} kB under way on a connection",
        highlight=False,
    )
    console.print(f"run: {folder / 'run.json'}", markup=False, highlight=False, soft_wrap=True)


def _row(table: Table, name: str, each: dict[str, float]) -> None:
    table.add_row(
        name,
        f"{each['size_bytes'] / 1e6:.2f} MB",
        f"{each['measured_s']:.2f} s",
        f"{each['simulated_s']:.2f} s",
        f"{each['measured_s'] / each['simulated_s']:.3f}",
    )
