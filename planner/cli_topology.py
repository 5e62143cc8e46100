"""`libra plan topology`: the topology for a job, and the strategy that goes with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from controller.outputs import check_file, check_folder
from planner.cli_given import DEGREE, DEVICES, described
from planner.errors import PlanError
from planner.models import KNOWN
from planner.topology.alternate import JUDGES, Alternation, Plan, PlanOptions, Show
from planner.topology.direct import PATHS
from planner.topology.finder import Demand, FinderOptions, find_topology
from planner.topology.iteration import iteration_graph
from planner.topology.matching import DISCOUNTS
from planner.topology.operators import Workload, workload_of
from planner.topology.plan_file import PlanFile
from planner.topology.plots import draw_topology, draw_traffic
from planner.topology.search import MEMORY_BYTES, SearchOptions
from planner.topology.strategy import STARTS, as_fields
from planner.topology.taskgraph import read_task_graph
from planner.topology.topology import Topology
from planner.topology.topology_file import as_fields as topology_fields
from planner.topology.topology_file import write_json
from planner.units import parse_rate_bps, rate_text

RINGS = ("both-ways", "one-way")


@dataclass(frozen=True)
class Found:
    """A topology with the traffic that it is for, and the plan behind it, if there is one."""

    name: str
    topology: Topology
    demand: Demand
    rate_bps: float
    workload: Workload | None = None
    plan: Plan | None = None


def topology(
    job: Annotated[Path | None, typer.Option(help="A job description (docs/plan.md).")] = None,
    model: Annotated[
        str | None,
        typer.Option(help=f"A layer table: {', '.join(KNOWN)}; options as NAME:OPTION=NUMBER,…."),
    ] = None,
    taskgraph: Annotated[
        Path | None, typer.Option(help="The tasks of an iteration, whose traffic is taken as is.")
    ] = None,
    servers: Annotated[
        int | None, typer.Option(help="Servers; alone: data parallelism among all of them.")
    ] = None,
    degree: Annotated[
        int | None, typer.Option(help=f"Interfaces of a server; default: the job's, or {DEGREE}.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Of each interface, each way; default: the job's, or 100G.")
    ] = None,
    devices: Annotated[
        int | None, typer.Option(help=f"Devices of a server; default: the job's, or {DEVICES}.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Examples per device; default: the job's, or the model's.")
    ] = None,
    flops: Annotated[
        float | None, typer.Option(help="Operations a second that a device reaches.")
    ] = None,
    rings: Annotated[
        str, typer.Option(help="both-ways: each ring with its mirror; one-way: without.")
    ] = RINGS[0],
    mode: Annotated[
        str,
        typer.Option(help=f"Whose discount of matched demand: {', '.join(DISCOUNTS)}."),
    ] = "artifact",
    prime_only: Annotated[
        bool, typer.Option("--prime-only", help="Take only primes as steps of rings.")
    ] = False,
    start: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Strategies to start from, the fastest of those given: {', '.join(STARTS)}."
        ),
    ] = None,
    budget: Annotated[int, typer.Option(help="Strategies tried in a round.")] = 500,
    rounds: Annotated[int, typer.Option(help="Of strategy and topology in turn, at most.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the search.")] = 1,
    judge: Annotated[
        str | None,
        typer.Option(
            help=f"How tried strategies are timed: {', '.join(JUDGES)}; default: by size."
        ),
    ] = None,
    memory_gb: Annotated[
        float, typer.Option(help="Parameters that a server may hold, GB.")
    ] = MEMORY_BYTES / 1e9,
    paths: Annotated[int, typer.Option(help="Shortest paths that share a transfer.")] = PATHS,
    state: Annotated[
        Path | None, typer.Option(help="Keep the search here, and go on from it if it is there.")
    ] = None,
    emit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the topology for libra run --topo.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Draw plots into this folder.")] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures here.")
    ] = None,
) -> None:
    """Choose rings, further links and the parallelisation of a job together (TopoOpt).

    Give a --job or a --model to search strategies too, a --taskgraph to take its traffic as it
    is, or --servers alone for data parallelism.
    """
    check_file("--json", json_path)
    check_file("--emit", emit)
    check_file("--state", state)
    check_folder("--out", out)
    if rings not in RINGS:
        raise PlanError(f"unknown rings {rings!r}; known are {', '.join(RINGS)}")
    console = Console()
    given = described(job, model, servers, degree, bandwidth, devices, batch, flops)
    if given is not None:
        degree = given.cluster.degree
    finder = FinderOptions(
        DEGREE if degree is None else degree, rings == RINGS[0], mode, prime_only or None
    )
    if given is not None:
        if taskgraph is not None:
            raise PlanError("--taskgraph beside --job or --model: give one of them")
        search = SearchOptions(budget, seed, memory_bytes=memory_gb * 1e9)
        options = PlanOptions(
            finder, search, rounds, tuple(start or PlanOptions.starts), judge, paths
        )
        found = _planned(workload_of(given), given.links.rate_bps, options, state, console)
    else:
        demand = _demand(taskgraph, servers)
        name = "data parallelism" if taskgraph is None else _name_of(taskgraph)
        rate_bps = parse_rate_bps(bandwidth or "100G")
        found = Found(name, find_topology(demand, finder), demand, rate_bps)
    _show(found, console)
    if emit is not None:
        PlanFile(found.name, found.topology, found.rate_bps, found.demand, paths).write(emit)
        console.print(f"topology: {emit}", markup=False, highlight=False, soft_wrap=True)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw_topology(found.topology, out / "topology.png")
        draw_traffic(found.demand, found.topology, out / "traffic.png")
        console.print(f"plots: {out}", markup=False, highlight=False, soft_wrap=True)
    if json_path is not None:
        write_json(json_path, _fields(found))


def _name_of(taskgraph: Path) -> str:
    """What the topology for a task graph is called."""
    return taskgraph.name if taskgraph.name.isprintable() else "a task graph"


def _demand(taskgraph: Path | None, servers: int | None) -> Demand:
    if taskgraph is not None:
        return read_task_graph(taskgraph).demand
    if servers is None:
        raise PlanError("nothing to plan for: give --job, --model, --taskgraph or --servers")
    return Demand.allreduce_only(servers)


def _planned(
    workload: Workload, rate_bps: float, options: PlanOptions, state: Path | None, console: Console
) -> Found:
    with _progress(console, options) as show:
        plan = Alternation(workload, rate_bps, options, state=state, show=show).run()
    demand = iteration_graph(workload, plan.strategy).demand
    return Found(workload.name, plan.topology, demand, rate_bps, workload, plan)


@contextmanager
def _progress(console: Console, options: PlanOptions) -> Iterator[Show]:
    """A bar for each round of the search."""
    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[best]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bars: dict[str, Any] = {}

        def show(what: str, steps: int, best_ms: float) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=options.search.budget, best="")
            progress.update(bars[what], completed=steps, best=f"{best_ms:.2f} ms")

        yield show


def _show(found: Found, console: Console) -> None:
    made = found.topology
    distances = made.distances()
    table = Table("rings of", "steps", box=SIMPLE)
    for group in made.groups:
        both = [f"±{step}" for step in group.strides.both_ways]
        table.add_row(
            f"{len(group.members)} servers",
            ", ".join([*both, *(f"+{step}" for step in group.strides.one_way)]),
        )
    console.print(table)
    console.print(
        f"{found.name}: {made.servers} servers with {made.degree} × {rate_text(found.rate_bps)}, "
        f"{len(made.cables)} links, {len(made.pairs)} of them matched to transfers; diameter "
        f"{distances.diameter}, {distances.mean_hops:.3f} hops on average",
        markup=False,
        highlight=False,
    )
    if found.plan is not None and found.workload is not None:
        kinds = Counter(len(each) for each in found.plan.strategy.placements)
        placed = ", ".join(f"{count} on {size}" for size, count in sorted(kinds.items()))
        console.print(
            f"iteration {found.plan.iteration_ms:.2f} ms, of it {found.workload.compute_ms:.2f} ms "
            f"of computing; operators by servers: {placed}; after each round "
            + ", ".join(f"{each:.2f}" for each in found.plan.history_ms)
            + " ms",
            highlight=False,
        )


def _fields(found: Found) -> dict[str, Any]:
    """All figures, for programs (docs/plan-topology.md)."""
    made = found.topology
    distances = made.distances()
    fields = {
        "schema": 1,
        "name": found.name,
        "servers": made.servers,
        "degree": made.degree,
        "rate_bps": found.rate_bps,
        "strides": list(dict.fromkeys(s for g in made.groups for s in g.strides.chosen)),
        "diameter": distances.diameter,
        "mean_hops": distances.mean_hops,
        "links": [list(cable) for cable in made.cables],
        "topology": topology_fields(made),
    }
    if found.plan is not None and found.workload is not None:
        fields |= {
            "iteration_ms": found.plan.iteration_ms,
            "compute_ms": found.workload.compute_ms,
            "history_ms": list(found.plan.history_ms),
            "strategy": as_fields(found.plan.strategy, found.workload),
        }
    return fields
