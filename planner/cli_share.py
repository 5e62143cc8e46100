"""`libra plan share`: several jobs on one cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from controller.outputs import check_file
from planner.cli_given import described
from planner.errors import PlanError
from planner.models import KNOWN
from planner.topology.iteration import iteration_graph
from planner.topology.operators import workload_of
from planner.topology.sharing import share
from planner.topology.strategy import STARTS, start
from planner.topology.sweep import STUDY_DEVICE
from planner.topology.taskgraph import TaskGraph
from planner.topology.topology_file import write_json
from planner.units import parse_rate_bps

SERVERS_MAX = 1024


def share_command(
    model: Annotated[
        list[str] | None,
        typer.Option(help=f"Of the jobs in turn; may be repeated: {', '.join(KNOWN)}."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="How many.")] = 8,
    servers: Annotated[int, typer.Option(help="Of each job.")] = 16,
    degree: Annotated[int, typer.Option(help="Interfaces of a server.")] = 4,
    bandwidth: Annotated[str, typer.Option(help="Of each interface, each way.")] = "100G",
    devices: Annotated[int, typer.Option(help="Of a server.")] = 4,
    flops: Annotated[
        float, typer.Option(help="Operations a second that a device reaches.")
    ] = STUDY_DEVICE.flops_per_s,
    strategy: Annotated[str, typer.Option(help=f"Of all: {', '.join(STARTS)}.")] = "embeddings",
    seed: Annotated[int, typer.Option(help="Of places and start times.")] = 1,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures here.")
    ] = None,
) -> None:
    """Simulate an iteration of several jobs on one cluster: average and tail by network."""
    check_file("--json", json_path)
    if jobs < 1 or servers < 1 or jobs * servers > SERVERS_MAX:
        raise PlanError(
            f"{jobs} jobs of {servers} servers: allowed are 1 to {SERVERS_MAX} servers together"
        )
    names = model or ["dlrm", "bert", "candle", "vgg16"]
    graphs = {
        name: _graph(name, servers, degree, bandwidth, devices, flops, strategy) for name in names
    }
    chosen = [names[i % len(names)] for i in range(jobs)]
    found = share([graphs[name] for name in chosen], degree, parse_rate_bps(bandwidth), seed)
    table = Table("network", "average", "99th percentile", box=SIMPLE)
    for name, each in found.items():
        table.add_row(name, f"{each['average_ms']:.1f} ms", f"{each['p99_ms']:.1f} ms")
    Console().print(table)
    if json_path is not None:
        write_json(json_path, {"schema": 1, "jobs": chosen, "fabrics": found})


def _graph(
    name: str,
    servers: int,
    degree: int,
    bandwidth: str,
    devices: int,
    flops: float,
    strategy: str,
) -> TaskGraph:
    job = described(None, name, servers, degree, bandwidth, devices, None, flops)
    assert job is not None  # noqa: S101  a model was given
    workload = workload_of(job)
    return iteration_graph(workload, start(strategy, workload))
