"""Networks that are rewired while they run: optical circuits that follow the demand.

Each interface of a server holds one circuit out and one in. At every rewiring the circuits are
chosen for the bytes that wait: rounds of the heaviest assignment of senders to receivers, what
was given a circuit counting less in the next round. Nothing is carried while mirrors move.

An AllReduce is a ring in the order of its members, each of whose hops moves its bytes by itself.
Without forwarding a flow waits for a circuit of its own; with it, flows take the fewest hops.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment

from planner.errors import PlanError
from planner.topology.fabrics import BITS_PER_BYTE_MS, Flow, Ways, needs_no_network
from planner.topology.fluid import Run
from planner.topology.loads import ring_bytes
from planner.topology.matching import DISCOUNTS
from planner.topology.maxmin import Floats, Uses
from planner.topology.routing import FewestHops
from planner.topology.taskgraph import Message, TaskGraph, Transfer

LOOKS_MAX = 100_000
"""Looks at the demand, at least, that an iteration may need: each of them is simulated."""


class Reconfigurable:
    """Servers at an optical circuit switch.

    Flows are over "links" that name pairs of servers; which circuits carry them is for the run.

    Args:
        servers, degree, rate_bps: n, d, and the rate of a circuit.
        refresh_ms: between two looks at the demand.
        switching_ms: during which nothing is carried.
        forwarding: whether servers forward for each other.
        name: for people.

    """

    def __init__(
        self,
        servers: int,
        degree: int,
        rate_bps: float,
        *,
        refresh_ms: float = 50.0,
        switching_ms: float = 10.0,
        forwarding: bool = False,
        name: str = "ocs",
    ) -> None:
        self.name = name
        self.servers = servers
        self.degree = degree
        self.circuit = rate_bps / BITS_PER_BYTE_MS
        self.refresh_ms = refresh_ms
        self.switching_ms = switching_ms
        self.forwarding = forwarding
        self.capacity: Floats = np.full(servers * servers, degree * self.circuit)
        self._ways = Ways()

    def flows(self, message: Message) -> list[Flow]:
        """One flow for a transfer, one for each hop of a ring."""
        if needs_no_network(message):
            return []
        if isinstance(message, Transfer):
            pair = message.source * self.servers + message.to
            return [Flow(message.size_bytes, self._ways.over((pair,)))]
        members = sorted(message.members)
        size = ring_bytes(message.size_bytes, len(members))
        hops = pairwise([*members, members[0]])
        return [Flow(size, self._ways.over((a * self.servers + b,))) for a, b in hops]

    def transfer_loads(self, matrix: Floats) -> Floats:
        """Bytes between servers, as if every pair had circuits."""
        apart: Floats = (matrix - np.diag(np.diag(matrix))).ravel()
        return apart

    def prepare(self, graph: TaskGraph) -> Run:
        """Get ready to run a task graph with circuits that follow its demand.

        Raises PlanError for one that takes more than `LOOKS_MAX` looks at the demand.
        """
        run = _Rewired(graph, self)
        looks = run.least_ms / self.refresh_ms
        if looks > LOOKS_MAX:
            raise PlanError(
                f"an iteration on {self.name} takes {run.least_ms / 1e3:.3g} s at least, and a "
                f"look at the demand every {self.refresh_ms:g} ms: {looks:.3g} looks, of which "
                f"{LOOKS_MAX:,} can be simulated; give less to send, or faster links"
            )
        return run

    def circuits(self, waiting: Floats) -> Counter[tuple[int, int]]:
        """Circuits for the bytes that wait between servers, float64, (n, n)."""
        weights = waiting.copy()
        chosen: Counter[tuple[int, int]] = Counter()
        if self.forwarding and self.degree > 1:  # one ring keeps everyone reachable
            chosen.update((i, (i + 1) % self.servers) for i in range(self.servers))
        for _ in range(self.degree - bool(chosen)):
            for a, b in zip(*linear_sum_assignment(weights, maximize=True), strict=True):
                if weights[a, b] > 0:
                    pair = (int(a), int(b))
                    chosen[pair] += 1
                    weights[pair] *= DISCOUNTS["artifact"](chosen[pair])
        return chosen


class _Rewired(Run):
    """A run whose circuits are chosen anew from time to time."""

    def __init__(self, graph: TaskGraph, fabric: Reconfigurable) -> None:
        super().__init__(graph, fabric)
        self._fabric = fabric
        self._pair = self.uses.link  # of each way, which is one pair
        self._circuits: Counter[tuple[int, int]] = Counter()
        self._dark_until = 0.0
        self._looked_at = -np.inf
        self._parallel = np.zeros(fabric.servers**2)
        self._routes = self.uses

    @property
    def least_ms(self) -> float:
        """As of any network; a server's circuits carry all that it sends."""
        sent = self.link_bytes.reshape(self._fabric.servers, -1).sum(axis=1)
        busiest = float(sent.max()) / (self._fabric.degree * self._fabric.circuit)
        return max(self.graph.compute_ms(), busiest)

    def _share(self) -> None:
        """Rewire when it is time to, and find rates over the circuits that there are."""
        due = self.rise and self.now >= self.shared_at + self.resolution_ms
        if not (self.changed or due or self.now >= self.alarm):
            return
        waits = len(self.active) > 0
        if waits and self.now >= self._looked_at + self._fabric.refresh_ms - 1e-9:
            self._rewire()
        dark = self.now < self._dark_until - 1e-9
        self.rates = np.zeros(len(self.active)) if dark else self._rates()
        self.changed = self.rise = False
        self.shared_at = self.now
        self.alarm = np.inf
        if waits:
            self.alarm = self._dark_until if dark else self._looked_at + self._fabric.refresh_ms

    def _rewire(self) -> None:
        servers = self._fabric.servers
        waiting = np.bincount(
            self._pair[self.way[self.active]], self.left[self.active], minlength=servers**2
        ).astype(np.float64)
        circuits = self._fabric.circuits(waiting.reshape(servers, servers))
        self._looked_at = self.now
        if circuits != self._circuits:
            self._circuits = circuits
            self._dark_until = self.now + self._fabric.switching_ms
            self._parallel[:] = 0
            for (a, b), count in circuits.items():
                self._parallel[a * servers + b] = count
            if self._fabric.forwarding:
                self._routes = self._forwarded()

    def _forwarded(self) -> Uses:
        """What each way uses when servers forward: the circuits of its shortest path."""
        servers = self._fabric.servers
        paths = FewestHops(self._parallel.reshape(servers, servers) > 0)
        first, hops = paths.hops(*np.divmod(self._pair, servers))
        return Uses(first, hops[:, 0] * servers + hops[:, 1], np.ones(len(hops)))

    def _rates(self) -> Floats:
        """Fair rates over circuits; zero for flows that have none."""
        capacity = self._fabric.circuit * self._parallel
        if self._fabric.forwarding:
            return self.fair_rates(self._routes, capacity)
        # Every flow has one circuit at most, and shares it evenly.
        pairs = self._pair[self.way[self.active]]
        sharing = np.bincount(pairs, minlength=len(capacity))
        rates: Floats = capacity[pairs] / sharing[pairs]
        return rates
