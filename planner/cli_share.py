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
from planner.topology.search import check_seed
from planner.topology.sharing import Cluster
from planner.topology.strategy import STARTS, start
from planner.topology.sweep import STUDY_DEVICE
from planner.topology.taskgraph import TaskGraph
from planner.topology.topology_file import write_json
from planner.units import parse_rate_bps

SERVERS_MAX = 1024
DRAWS_MAX = 1000


def share_command(
    model: Annotated[
        list[str] | None,
        typer.Option(help=f"Of the jobs in turn; may be repeated: {', '.join(KNOWN)}."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="How many, where --load does not say.")] = 8,
    servers: Annotated[int, typer.Option(help="Of each job.")] = 16,
    cluster: Annotated[
        int | None, typer.Option(help="Servers in all; default: as many as the jobs need.")
    ] = None,
    load: Annotated[
        list[int] | None,
        typer.Option(help="Percent of the cluster that has jobs; may be repeated."),
    ] = None,
    draws: Annotated[int, typer.Option(help="How often places and start times are drawn.")] = 1,
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
    counts = _counts(jobs, servers, cluster, load)
    if not 1 <= draws <= DRAWS_MAX:
        raise PlanError(f"--draws {draws}: allowed are 1 to {DRAWS_MAX}")
    check_seed(seed)
    names = model or ["dlrm", "bert", "candle", "vgg16"]
    graphs = {
        name: _graph(name, servers, degree, bandwidth, devices, flops, strategy) for name in names
    }
    shared = Cluster(cluster, degree, parse_rate_bps(bandwidth))
    seeds = range(seed, seed + draws)
    loads = []
    table = Table("jobs", "network", "average", "99th percentile", "to alone", box=SIMPLE)
    for count in counts:
        chosen = [names[i % len(names)] for i in range(count)]
        found = shared.share([graphs[name] for name in chosen], seeds)
        loads.append({"jobs": chosen, "fabrics": found})
        for name, each in found.items():
            table.add_row(
                str(count),
                name,
                f"{each['average_ms']:.1f} ms",
                f"{each['p99_ms']:.1f} ms",
                f"{each['slowdown']:.2f}×",
            )
    Console().print(table)
    if json_path is not None:
        written = {"schema": 1, "cluster": cluster, "draws": draws, "loads": loads}
        write_json(json_path, {**written, **loads[-1]})


def _counts(jobs: int, servers: int, cluster: int | None, load: list[int] | None) -> list[int]:
    """How many jobs there are, for each load."""
    if load and cluster is None:
        raise PlanError("--load is a share of --cluster: say how many servers that has")
    if any(not 0 < each <= 100 for each in load or ()):
        raise PlanError(f"--load {load}: allowed are 1 to 100 percent")
    counts = [max(1, (cluster or 0) * each // (100 * max(servers, 1))) for each in load or ()]
    counts = counts or [jobs]
    most = max(counts) * servers
    if min(counts) < 1 or servers < 1 or max(most, cluster or 0) > SERVERS_MAX:
        raise PlanError(
            f"{max(counts)} jobs of {servers} servers: allowed are 1 to {SERVERS_MAX} servers "
            "together"
        )
    return counts


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
