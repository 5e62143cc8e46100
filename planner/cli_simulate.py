"""`libra plan simulate`: what a training iteration takes on a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from controller.outputs import check_file
from planner.cli_given import DEVICES, described
from planner.description import JobDescription
from planner.errors import PlanError
from planner.models import KNOWN
from planner.topology.baselines import FABRICS, Setting, make_fabric
from planner.topology.direct import PATHS
from planner.topology.fluid import simulate
from planner.topology.iteration import iteration_graph
from planner.topology.operators import workload_of
from planner.topology.search import check_seed
from planner.topology.strategy import STARTS, start
from planner.topology.taskgraph import TaskGraph, read_task_graph
from planner.topology.topology_file import write_json
from planner.units import parse_rate_bps, rate_text


def simulate_command(
    taskgraph: Annotated[
        Path | None, typer.Option(help="The tasks of an iteration (docs/plan-topology.md).")
    ] = None,
    job: Annotated[Path | None, typer.Option(help="A job description (docs/plan.md).")] = None,
    model: Annotated[
        str | None,
        typer.Option(help=f"A layer table: {', '.join(KNOWN)}; options as NAME:OPTION=NUMBER,…."),
    ] = None,
    servers: Annotated[int | None, typer.Option(help="Servers; default: the job's.")] = None,
    devices: Annotated[
        int | None, typer.Option(help=f"Devices of a server; default: the job's, or {DEVICES}.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Examples per device; default: the job's, or the model's.")
    ] = None,
    flops: Annotated[
        float | None, typer.Option(help="Operations a second that a device reaches.")
    ] = None,
    strategy: Annotated[
        str, typer.Option(help=f"For --job and --model: {', '.join(STARTS)}.")
    ] = "data-parallel",
    fabric: Annotated[
        list[str] | None,
        typer.Option(help=f"May be repeated: {', '.join(FABRICS)}; default: ideal."),
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Of each interface, each way; default: the job's, or 100G.")
    ] = None,
    degree: Annotated[
        int | None, typer.Option(help="Interfaces of a server; default: the job's, or 1.")
    ] = None,
    paths: Annotated[int, typer.Option(help="Shortest paths that share a transfer.")] = PATHS,
    seed: Annotated[int, typer.Option(help="Of random networks.")] = 1,
    resolution_ms: Annotated[
        float, typer.Option(help="Flows that end within this time end together; 0: exact times.")
    ] = 0.0,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures here.")
    ] = None,
) -> None:
    """Simulate a training iteration as a fluid, on one or several networks.

    A switched network gives each server one link with the rate of all its interfaces.
    """
    check_file("--json", json_path)
    if not 0 <= resolution_ms < float("inf"):
        raise PlanError(f"--resolution-ms {resolution_ms}: allowed are numbers from 0")
    check_seed(seed)
    alone = 1 if degree is None else degree
    own = degree if job is not None else alone
    given = described(job, model, servers, own, bandwidth, devices, batch, flops)
    graph = _graph(taskgraph, given, strategy)
    setting = Setting(
        graph.demand,
        given.cluster.degree if given else alone,
        given.links.rate_bps if given else parse_rate_bps(bandwidth or "100G"),
        seed,
        paths,
        prices=given.prices if given else None,
    )
    found: dict[str, Any] = {}
    for name in dict.fromkeys(fabric or ["ideal"]):
        network = make_fabric(name, setting)
        outcome = simulate(graph, network, resolution_ms=resolution_ms)
        busiest = outcome.link_bytes / network.capacity
        found[name] = {
            "iteration_ms": outcome.iteration_ms,
            "busiest_link_ms": float(busiest.max(initial=0.0)),
            "links": len(network.capacity),
            "events": outcome.events,
        }
    _show(found, graph, setting)
    if json_path is not None:
        first = next(iter(found.values()))
        write_json(
            json_path,
            {
                "schema": 1,
                "iteration_ms": first["iteration_ms"],
                "compute_ms": graph.compute_ms(),
                "servers": graph.servers,
                "degree": setting.degree,
                "rate_bps": setting.rate_bps,
                "fabrics": found,
            },
        )


def _graph(taskgraph: Path | None, given: JobDescription | None, strategy: str) -> TaskGraph:
    if (taskgraph is None) == (given is None):
        raise PlanError("give one of --taskgraph, --job and --model")
    if taskgraph is not None:
        return read_task_graph(taskgraph)
    assert given is not None  # noqa: S101  one of them is
    workload = workload_of(given)
    return iteration_graph(workload, start(strategy, workload))


def _show(found: dict[str, Any], graph: TaskGraph, setting: Setting) -> None:
    table = Table("fabric", "iteration", "busiest link", box=SIMPLE)
    for name, each in found.items():
        table.add_row(
            name, f"{each['iteration_ms']:.2f} ms", f"{each['busiest_link_ms']:.2f} ms busy"
        )
    console = Console()
    console.print(table)
    console.print(
        f"{graph.servers} servers with {setting.degree} × {rate_text(setting.rate_bps)}; the "
        f"busiest device computes for {graph.compute_ms():.2f} ms",
        highlight=False,
    )
