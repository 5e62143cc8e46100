"""The study's comparison: models on networks of many degrees and rates, and what each costs.

For every model, degree d and rate B a strategy is searched for direct links, together with the
topology, and another one for switched networks, which are simulated with the better of both;
the other networks get the strategy of direct links.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

from planner.description import Cluster, Device, JobDescription, Links
from planner.models import make_model
from planner.prices import Prices
from planner.topology.alternate import Alternation, PlanOptions, Timings, fitting, judge_of
from planner.topology.baselines import Setting, make_fabric
from planner.topology.cost import COSTS, equal_cost_bps
from planner.topology.fabrics import Fabric, Switched
from planner.topology.finder import Demand, FinderOptions
from planner.topology.iteration import iteration_graph
from planner.topology.operators import Workload, workload_of
from planner.topology.search import Search, SearchOptions
from planner.topology.strategy import Strategy

STUDY_BATCHES = {
    "dlrm": 128,
    "candle": 256,
    "bert": 16,
    "ncf": 128,
    "resnet50": 128,
    "vgg16": 64,
}
"""The six models of the study and the examples that each device trains on in an iteration."""
STUDY_DEVICE = Device(
    60e12,
    "VGG-16 with 64 images: 31 G operations forward and twice that backward, in 100.5 ms of "
    "computing in the study's published task graph",
)
STUDY_SERVERS, STUDY_DEVICES = 128, 4
STUDY_DEGREES = (4, 8)
STUDY_RATES_BPS = (10e9, 25e9, 40e9, 100e9, 200e9)
BASELINES = ("ideal", "fat-tree", "oversubscribed", "expander", "ocs", "sip-ml")
_SWITCHED = ("ideal", "fat-tree", "oversubscribed")
STUDY_SPEEDUP = 3.4


@dataclass(frozen=True)
class Cell:
    """One comparison."""

    model: str
    degree: int
    rate_bps: float


@dataclass(frozen=True)
class SweepOptions:
    """What is compared.

    Attributes:
        models: names, with the batch of each device.
        degrees, rates_bps: of interfaces.
        servers, devices: n, and devices of each.
        fabrics: beside `topoopt`.
        budget: of every search.
        seed: of searches and random networks.
        device: what computes.
        prices: of parts.

    """

    models: dict[str, int] = field(default_factory=lambda: dict(STUDY_BATCHES))
    degrees: Sequence[int] = STUDY_DEGREES
    rates_bps: Sequence[float] = STUDY_RATES_BPS
    servers: int = STUDY_SERVERS
    devices: int = STUDY_DEVICES
    fabrics: Sequence[str] = BASELINES
    budget: int = 200
    seed: int = 1
    device: Device = STUDY_DEVICE
    prices: Prices = field(default_factory=Prices.load)

    def cells(self) -> list[Cell]:
        """All comparisons; the slow models first, so that processes end together."""
        heavy = sorted(self.models, key=lambda name: name.split(":")[0] not in {"dlrm", "ncf"})
        return [Cell(*each) for each in product(heavy, self.degrees, self.rates_bps)]

    def workload(self, cell: Cell) -> Workload:
        """The operators of a cell's job."""
        model = make_model(cell.model)
        cluster = Cluster(self.servers, self.devices, cell.degree)
        batch = self.models[cell.model]
        links = Links(cell.rate_bps)
        return workload_of(JobDescription(cell.model, model, batch, cluster, links, self.device))


def compare(cell: Cell, options: SweepOptions) -> dict[str, Any]:
    """One comparison, for a JSON file: times by network, ms, and costs, US$ a server."""
    began = time.process_time()
    workload = options.workload(cell)
    search = SearchOptions(options.budget, options.seed)
    plan_options = PlanOptions(FinderOptions(cell.degree), search, rounds=1)
    plan = Alternation(workload, cell.rate_bps, plan_options).run()
    timings = Timings(workload)
    ideal = Switched(workload.servers, cell.degree * cell.rate_bps)
    switched = searched(timings, ideal, plan_options)
    demand = iteration_graph(workload, plan.strategy).demand
    took = {"topoopt": plan.iteration_ms}
    for name in options.fabrics:
        strategies = {switched, plan.strategy} if name in _SWITCHED else {plan.strategy}
        fabric = ideal if name == "ideal" else _fabric(name, cell, options, demand)
        took[name] = min(timings(fabric, strategy) for strategy in strategies)
    prices = options.prices
    costs = {name: COSTS[name](prices, cell.degree, cell.rate_bps) for name in COSTS}
    costs["fat-tree"] = costs["topoopt"]
    return {
        "model": cell.model,
        "degree": cell.degree,
        "rate_bps": cell.rate_bps,
        "compute_ms": workload.compute_ms,
        "iteration_ms": took,
        "usd_per_server": {name: costs[name] for name in took},
        "ideal_cost_ratio": costs["ideal"] / costs["topoopt"],
        "fat_tree_bps": equal_cost_bps(prices, costs["topoopt"]),
        "speedup": took["fat-tree"] / took["topoopt"] if "fat-tree" in took else None,
        "interfaces_of_rings": sum(group.interfaces for group in plan.topology.groups[:1]),
        "matched_links": len(plan.topology.pairs),
        "apart": sum(len(each) < workload.servers for each in plan.strategy.placements),
        "operators": len(workload.operators),
        "processor_s": time.process_time() - began,
    }


def searched(timings: Timings, fabric: Fabric, options: PlanOptions) -> Strategy:
    """The best strategy that a search finds on a network that stays as it is."""
    on_fabric = partial(timings, fabric)
    begun = min(fitting(timings.workload, options), key=on_fabric)
    search = Search(timings.workload, options.search, begun)
    return min((begun, search.run(judge_of(None, timings, fabric))), key=on_fabric)


def _fabric(name: str, cell: Cell, options: SweepOptions, demand: Demand) -> Fabric:
    setting = Setting(demand, cell.degree, cell.rate_bps, options.seed, prices=options.prices)
    return make_fabric(name, setting)


def sweep(
    options: SweepOptions, processes: int, done: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """All comparisons, over several processes; each is handed to `done` as it ends."""
    cells = options.cells()
    found = []
    for row in _rows(cells, options, processes):
        done(row)
        found.append(row)
    order = {cell: i for i, cell in enumerate(cells)}
    return sorted(found, key=lambda row: order[Cell(row["model"], row["degree"], row["rate_bps"])])


def _rows(cells: Sequence[Cell], options: SweepOptions, processes: int) -> Iterator[dict[str, Any]]:
    if processes == 1:
        yield from (compare(cell, options) for cell in cells)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(compare, cells, [options] * len(cells))


def headline(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best and the mean speed-up over the fat-tree of equal cost, and the ideal's price."""
    speedups = [row["speedup"] for row in rows if row["speedup"] is not None]
    best = max(rows, key=lambda row: row["speedup"] or 0.0)
    ratios = [row["ideal_cost_ratio"] for row in rows]
    return {
        "speedup_max": max(speedups, default=None),
        "speedup_max_of": {name: best[name] for name in ("model", "degree", "rate_bps")},
        "speedup_mean": sum(speedups) / len(speedups) if speedups else None,
        "study_speedup_max": STUDY_SPEEDUP,
        "ideal_cost_ratio_mean": sum(ratios) / len(ratios),
        "largest_possible": max(
            row["degree"] * row["rate_bps"] / row["fat_tree_bps"] for row in rows
        ),
    }
