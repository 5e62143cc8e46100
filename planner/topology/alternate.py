"""Alternating optimisation: strategy on a fixed topology, topology for its traffic, and again.

It ends when a round gains less than `GAIN`, or after so many rounds (TopoOpt, section 4.1). With
a state file it goes on where it was stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from host_stack.jsonfile import read_json_object
from mininet_topos.json_node import JsonNode
from planner.errors import PlanError
from planner.topology.direct import PATHS, PATHS_MAX, Direct
from planner.topology.estimate import Estimator
from planner.topology.fabrics import Fabric
from planner.topology.finder import FinderOptions, find_topology
from planner.topology.fluid import prepare
from planner.topology.iteration import iteration_graph
from planner.topology.operators import Workload
from planner.topology.search import Cost, Search, SearchOptions
from planner.topology.strategy import STARTS, Strategy
from planner.topology.strategy import as_fields as strategy_fields
from planner.topology.strategy import from_fields as strategy_from
from planner.topology.topology import Topology
from planner.topology.topology_file import as_fields as topology_fields
from planner.topology.topology_file import from_fields as read_topology
from planner.topology.topology_file import write_json

GAIN = 0.001
"""What a round has to gain, as a share of the iteration, for another one."""
SIMULATED_SERVERS = 32
"""Up to so many servers a search simulates every proposal; above, it estimates them."""
COARSE = 0.002
SCHEMA = 1
JUDGES = ("simulate", "estimate")

Show = Callable[[str, int, float], None]
"""Told what goes on, the steps made of the search's budget and the best time, ms."""


@dataclass(frozen=True)
class PlanOptions:
    """What a plan may be made of.

    Attributes:
        finder: how topologies are made.
        search: of strategies, in each round.
        rounds: at most.
        starts: names of the strategies of which the best is the first.
        judge: 'simulate' or 'estimate', how a search times proposals; None by size.
        paths: that share a transfer.

    """

    finder: FinderOptions
    search: SearchOptions = field(default_factory=SearchOptions)
    rounds: int = 3
    starts: tuple[str, ...] = ("data-parallel", "embeddings")
    judge: str | None = None
    paths: int = PATHS

    def __post_init__(self) -> None:
        if self.judge is not None and self.judge not in JUDGES:
            raise PlanError(f"unknown judge {self.judge!r}; known are {', '.join(JUDGES)}")
        unknown = [name for name in self.starts if name not in STARTS]
        if unknown or not self.starts:
            raise PlanError(f"unknown strategies {unknown}; known are {', '.join(STARTS)}")
        if not 0 <= self.rounds <= 1000 or not 1 <= self.paths <= PATHS_MAX:
            raise PlanError(
                f"{self.rounds} rounds over {self.paths} paths: allowed are 0 to 1000 and 1 to "
                f"{PATHS_MAX}"
            )


@dataclass(frozen=True)
class Plan:
    """A topology and the strategy that goes with it.

    Attributes:
        topology, strategy: what was chosen.
        iteration_ms: simulated.
        history_ms: of the best plan after each round, the start first.

    """

    topology: Topology
    strategy: Strategy
    iteration_ms: float
    history_ms: tuple[float, ...]


class Timings:
    """Simulated iterations of one workload; each is simulated once.

    Flows that end within `COARSE` of the least that the iteration can take end together.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._took_ms: dict[tuple[Fabric, Strategy], float] = {}

    def __call__(self, fabric: Fabric, strategy: Strategy) -> float:
        """Milliseconds of an iteration."""
        key = (fabric, strategy)
        if key not in self._took_ms:
            run = prepare(iteration_graph(self.workload, strategy), fabric)
            self._took_ms[key] = run.to_end(COARSE * run.least_ms).iteration_ms
        return self._took_ms[key]


def judge_of(name: str | None, timings: Timings, fabric: Fabric) -> Cost:
    """How a search times proposals on a fabric."""
    simulated = timings.workload.servers <= SIMULATED_SERVERS
    if name == "simulate" or (name is None and simulated):
        return partial(timings, fabric)
    return Estimator(timings.workload, fabric)


@dataclass(frozen=True)
class Candidate:
    """A strategy on a topology, with its time."""

    strategy: Strategy
    topology: Topology
    took_ms: float


class Alternation:
    """The optimisation of one workload on links of one rate.

    Args:
        workload: what is trained.
        rate_bps: of every interface.
        options: of topologies and searches.
        state: a file to go on from if it exists, and to keep up to date; None for none.
        show: told how it goes.

    Raises:
        PlanError: the state file is of another workload or other options, or not a state.

    """

    def __init__(
        self,
        workload: Workload,
        rate_bps: float,
        options: PlanOptions,
        *,
        state: Path | None = None,
        show: Show = lambda what, steps, best_ms: None,
    ) -> None:
        self._workload = workload
        self._rate_bps = rate_bps
        self._options = options
        self._state = state
        self._show = show
        self._history: list[float] = []
        self._search: Search | None = None
        self._timings = Timings(workload)
        self._fabrics: dict[Topology, Direct] = {}

    def run(self) -> Plan:
        """Optimise to the end; raises PlanError when no strategy to start from fits."""
        best = self._begin()
        while len(self._history) <= self._options.rounds:
            best = self._round(best)
            self._search = None
            before, after = self._history[-2:]
            if after > before * (1 - GAIN):
                break
        return Plan(best.topology, best.strategy, best.took_ms, tuple(self._history))

    def _round(self, best: Candidate) -> Candidate:
        """Search on the best topology so far, then fit a topology to what was found."""
        number = len(self._history)
        fabric = self._fabric(best.topology)
        if self._search is None:
            options = replace(self._options.search, seed=self._options.search.seed + number - 1)
            self._search = Search(self._workload, options, best.strategy)
        search = self._search

        def watch(steps: int, best_ms: float) -> None:
            self._show(f"round {number}", steps, min(best.took_ms, best_ms))
            self._save(best)

        found = search.run(judge_of(self._options.judge, self._timings, fabric), watch)
        stayed = Candidate(found, best.topology, self._timings(fabric, found))
        best = min(best, stayed, self._fit(found), key=lambda each: each.took_ms)
        self._history.append(best.took_ms)
        return best

    def _fit(self, strategy: Strategy) -> Candidate:
        """The strategy on the topology that its own traffic asks for."""
        demand = iteration_graph(self._workload, strategy).demand
        topology = find_topology(demand, self._options.finder)
        took_ms = self._timings(self._fabric(topology), strategy)
        return Candidate(strategy, topology, took_ms)

    def _fabric(self, topology: Topology) -> Direct:
        if topology not in self._fabrics:
            made = Direct(topology, self._rate_bps, paths=self._options.paths)
            self._fabrics[topology] = made
        return self._fabrics[topology]

    def _begin(self) -> Candidate:
        """Where the state file left off, or the best strategy to start from."""
        if self._state is not None and self._state.exists():
            return self._resume(self._state)
        candidates = [self._fit(strategy) for strategy in fitting(self._workload, self._options)]
        best = min(candidates, key=lambda each: each.took_ms)
        self._history = [best.took_ms]
        return best

    def _fingerprint(self) -> str:
        asked = [asdict(self._workload), self._rate_bps, asdict(self._options)]
        return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def _save(self, best: Candidate) -> None:
        if self._state is None or self._search is None:
            return
        document = {
            "schema": SCHEMA,
            "of": self._fingerprint(),
            "history_ms": self._history,
            "best": {
                "strategy": strategy_fields(best.strategy, self._workload),
                "topology": topology_fields(best.topology),
                "took_ms": best.took_ms,
            },
            "search": self._search.as_fields(),
        }
        write_json(self._state, document)

    def _resume(self, path: Path) -> Candidate:
        node = JsonNode("state", read_json_object(path, "state of a search"), PlanError)
        if node.get("schema").integer() != SCHEMA or node.get("of").sha256() != self._fingerprint():
            raise PlanError(
                f"{path} is of another job or of other options: give the same ones, or another file"
            )
        self._history = node.get("history_ms").numbers()
        if not self._history:
            raise node.get("history_ms").mismatch("the time of the start, at least")
        best = node.get("best")
        topology = read_topology(best.get("topology"))
        strategy = strategy_from(best.get("strategy"), self._workload)
        number = len(self._history)
        options = replace(self._options.search, seed=self._options.search.seed + number - 1)
        self._search = Search(self._workload, options, strategy)
        self._search.resume(node.get("search"))
        return Candidate(strategy, topology, best.get("took_ms").number())


def fitting(workload: Workload, options: PlanOptions) -> list[Strategy]:
    """The strategies to start from whose parameters fit into servers.

    Raises PlanError when there is none.
    """
    limit = options.search.memory_bytes
    found = [STARTS[name](workload) for name in options.starts]
    fit = [each for each in found if each.memory_bytes(workload).max() <= limit]
    if not fit:
        raise PlanError(
            f"{workload.name}: with none of {', '.join(options.starts)} do the parameters fit "
            f"into {limit / 1e9:g} GB a server; raise the memory, or start from another strategy"
        )
    return fit
