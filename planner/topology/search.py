"""Search for a strategy on a fixed network, by Markov chain Monte Carlo as in FlexFlow.

A proposal places one operator anew, or spreads its placement to operators beside it. A faster
strategy is accepted; a slower one with probability exp(−alpha · Δms), so that the search leaves
local optima. Every hundredth of the budget it goes on from the best strategy that it has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, exp, inf
from typing import Any

import numpy as np

from mininet_topos.json_node import JsonNode
from planner.errors import PlanError
from planner.topology.operators import Workload
from planner.topology.strategy import Placement, Strategy, as_fields, from_fields

BUDGET_MAX = 10_000_000
SEED_MAX = 2**63 - 1
STATE_BITS = 128
"""Of the random generator, PCG64."""
MEMORY_BYTES = 128e9
"""Of a server: four devices of 32 GB, assumed."""

Cost = Callable[[Strategy], float]
Watch = Callable[[int, float], None]
"""Told the steps made and the best time, ms."""


def check_seed(seed: int) -> None:
    """Raise `PlanError` for a seed that random numbers cannot begin with."""
    if not 0 <= seed <= SEED_MAX:
        raise PlanError(f"seed {seed}: allowed are 0 to {SEED_MAX}")


@dataclass(frozen=True)
class SearchOptions:
    """How long and how a search goes on.

    Attributes:
        budget: proposals.
        seed: of the random choices.
        alpha_per_ms: how unlikely slower strategies are.
        memory_bytes: parameters that a server may hold.

    """

    budget: int = 500
    seed: int = 1
    alpha_per_ms: float = 0.05
    memory_bytes: float = MEMORY_BYTES

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not 0 <= self.budget <= BUDGET_MAX:
            raise PlanError(f"budget {self.budget}: allowed are 0 to {BUDGET_MAX} proposals")
        if not 0 <= self.alpha_per_ms < inf or not self.memory_bytes > 0:
            raise PlanError(
                f"alpha {self.alpha_per_ms} and memory {self.memory_bytes}: allowed are numbers "
                "from 0 and above 0"
            )


@dataclass
class Search:
    """A search in progress.

    Attributes:
        workload: what is placed.
        options: of the search.
        current, best: strategies, with their times in ms.
        steps, accepted: proposals made, and taken.

    """

    workload: Workload
    options: SearchOptions
    current: Strategy
    current_ms: float = inf
    best: Strategy = field(init=False)
    best_ms: float = inf
    steps: int = 0
    accepted: int = 0

    def __post_init__(self) -> None:
        self.current.check(self.workload)
        self.best = self.current
        self._random = np.random.default_rng(self.options.seed)
        consumers = self.workload.consumers()
        self._beside = [
            sorted({*operator.inputs, *after})
            for operator, after in zip(self.workload.operators, consumers, strict=True)
        ]

    def run(self, cost: Cost, watch: Watch = lambda steps, best_ms: None) -> Strategy:
        """Go on to the end of the budget; returns the best strategy."""
        if self.steps == 0:
            self.current_ms = self.best_ms = cost(self.current)
        every = ceil(self.options.budget / 100) or 1
        while self.steps < self.options.budget:
            self._step(cost)
            self.steps += 1
            if self.steps % every == 0:
                self.current, self.current_ms = self.best, self.best_ms
                watch(self.steps, self.best_ms)
        return self.best

    def _step(self, cost: Cost) -> None:
        proposal = self._propose()
        if proposal == self.current or not self._fits(proposal):
            return
        took = cost(proposal)
        worse = took - self.current_ms
        if worse > 0 and self._random.random() >= exp(-self.options.alpha_per_ms * worse):
            return
        self.accepted += 1
        self.current, self.current_ms = proposal, took
        if took < self.best_ms:
            self.best, self.best_ms = proposal, took

    def _fits(self, strategy: Strategy) -> bool:
        return bool(strategy.memory_bytes(self.workload).max() <= self.options.memory_bytes)

    def _propose(self) -> Strategy:
        operator = int(self._random.integers(len(self.current.placements)))
        if self._random.random() < 0.5:
            return self.current.with_placement([operator], self._placement(operator))
        spread = {operator}
        for _ in range(int(self._random.integers(1, 8))):
            beside = self._beside[int(self._random.choice(sorted(spread)))]
            spread.update(self._random.permutation(beside)[:1].tolist())
        return self.current.with_placement(sorted(spread), self.current.placements[operator])

    def _placement(self, operator: int) -> Placement:
        """All servers, one of them, or a part: neighbours, or servers equally far apart."""
        servers = self.workload.servers
        choice = self._random.random()
        if choice < 0.25:
            return tuple(range(servers))
        if choice < 0.5 or servers < 4 or self.workload.operators[operator].is_table:
            return (int(self._random.integers(servers)),)
        parts = 2 ** int(self._random.integers(1, servers.bit_length() - 1))
        size = servers // parts
        if self._random.random() < 0.5:
            return tuple(range(int(self._random.integers(parts)), servers, parts))[:size]
        first = size * int(self._random.integers(parts))
        return tuple(range(first, first + size))

    def as_fields(self) -> dict[str, Any]:
        """Everything to go on from, for a JSON file."""
        return {
            "steps": self.steps,
            "accepted": self.accepted,
            "current": as_fields(self.current, self.workload),
            "current_ms": self.current_ms,
            "best": as_fields(self.best, self.workload),
            "best_ms": self.best_ms,
            "random": self._random.bit_generator.state["state"],
        }

    def resume(self, node: JsonNode) -> None:
        """Go on from what `as_fields` gave; raises PlanError naming what is wrong with it."""
        self.steps = node.get("steps").integer()
        self.accepted = node.get("accepted").integer()
        self.current = from_fields(node.get("current"), self.workload)
        self.current_ms = node.get("current_ms").number()
        self.best = from_fields(node.get("best"), self.workload)
        self.best_ms = node.get("best_ms").number()
        random = node.get("random")
        state = {name: random.get(name).integer(bits=STATE_BITS) for name in ("state", "inc")}
        self._random.bit_generator.state = {**self._random.bit_generator.state, "state": state}
