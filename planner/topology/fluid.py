"""A training iteration on a network, as a fluid: events, max-min fair rates between them.

A device computes one task at a time, in the order in which they become ready. A message becomes
flows over the links of a fabric and has arrived when all of them are done. Between two events
all rates are constant, so nothing is approximated but packets, windows and propagation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from planner.errors import PlanError
from planner.topology.fabrics import Fabric, Way
from planner.topology.maxmin import EXACT, Floats, Ints, Uses, max_min_rates
from planner.topology.taskgraph import TaskGraph, runs

COARSE_SLACK = 0.02
_DONE = 1e-9
"""A flow is done when so much of it is left; rounding leaves less."""


@dataclass(frozen=True)
class Outcome:
    """What an iteration took.

    Attributes:
        iteration_ms: until the last task has ended.
        start_ms, end_ms: float64, (t,), of each task.
        link_bytes: float64, (l,), that each link carried.
        events: how often rates were looked at anew.

    """

    iteration_ms: float
    start_ms: Floats
    end_ms: Floats
    link_bytes: Floats
    events: int


@runtime_checkable
class Changing(Protocol):
    """A network that changes while an iteration runs, and so has a way of its own to run it."""

    def prepare(self, graph: TaskGraph) -> Run:
        """Get ready to run a task graph, as `prepare` does."""
        ...


def simulate(graph: TaskGraph, fabric: Fabric, *, resolution_ms: float = 0.0) -> Outcome:
    """Run a task graph over a fabric.

    Args:
        graph: the tasks.
        fabric: links and paths; it must know as many servers.
        resolution_ms: 0 for exact times. Above, many flows of nearly equal length are fast:
            those that would end within so much of each other end at once, rates are raised no
            more often than that when flows have ended, and are within `COARSE_SLACK` of fair.

    Raises:
        PlanError: the fabric has other servers, or leaves a flow without any rate for ever.

    """
    return prepare(graph, fabric).to_end(resolution_ms)


def prepare(graph: TaskGraph, fabric: Fabric) -> Run:
    """Get ready to run a task graph; raises PlanError when the fabric has other servers."""
    if fabric.servers != graph.servers:
        raise PlanError(
            f"a task graph of {graph.servers} servers on a network of {fabric.servers}: they "
            "must be as many"
        )
    return fabric.prepare(graph) if isinstance(fabric, Changing) else Run(graph, fabric)


class Run:
    """The state of a simulation; arrays by task (t), device (g), flow (f) and way (w)."""

    def __init__(self, graph: TaskGraph, fabric: Fabric) -> None:
        self.graph = graph
        self.resolution_ms = 0.0
        self.capacity = fabric.capacity
        tasks = len(graph.runtime_ms)
        self.now = 0.0
        self.events = 0
        self.waits = graph.waits_for
        self.start = np.full(tasks, np.nan)
        self.end = np.full(tasks, np.nan)
        self.idle = np.ones(int(graph.device.max(initial=-1)) + 1, dtype=bool)
        self.queue = np.zeros(0, dtype=np.int64)
        self.timed = np.zeros(0, dtype=np.int64)
        self.timer = np.zeros(0)
        self.message_of = np.full(tasks, -1)
        self.message_of[graph.sent_by] = np.arange(len(graph.messages))
        self._lower(fabric)

    def _lower(self, fabric: Fabric) -> None:
        """Make flows of all messages."""
        flows = [fabric.flows(message) for message in self.graph.messages]
        counts = np.array([len(each) for each in flows], dtype=np.int64)
        self.flow_first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.flow_task = np.repeat(self.graph.sent_by, counts)
        flat = [flow for each in flows for flow in each]
        ways: dict[Way, int] = {}
        self.way = np.array([ways.setdefault(flow.way, len(ways)) for flow in flat], np.int64)
        lengths = np.array([len(way.links) for way in ways], np.int64)
        self.uses = Uses(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([np.zeros(0, np.int64), *(way.links for way in ways)]),
            np.concatenate([np.zeros(0), *(way.shares for way in ways)]),
        )
        self.left = np.array([flow.size_bytes for flow in flat], np.float64)
        of_way = np.bincount(self.way, self.left, minlength=len(ways))
        self.link_bytes: Floats = np.bincount(
            self.uses.link,
            self.uses.share * np.repeat(of_way, lengths),
            minlength=len(self.capacity),
        ).astype(np.float64)
        self.flows_left = np.zeros(len(self.waits), dtype=np.int64)
        self.flows_left[self.graph.sent_by] = counts
        self.active = np.zeros(0, dtype=np.int64)
        self.rates = np.zeros(0)
        self.changed = self.rise = False
        self.shared_at = 0.0
        self.alarm = np.inf
        """When rates change without a flow or a task that ends."""

    @property
    def least_ms(self) -> float:
        """What the iteration takes at least: the busiest device's or the busiest link's time."""
        return max(self.graph.compute_ms(), float((self.link_bytes / self.capacity).max()))

    def to_end(self, resolution_ms: float = 0.0) -> Outcome:
        """Run all tasks; see `simulate`."""
        self.resolution_ms = resolution_ms
        self._begin(np.flatnonzero(self.waits == 0))
        while len(self.timed) or len(self.active):
            self._advance()
        if np.isnan(self.end).any():
            raise PlanError("the iteration did not end: a task never started")
        return Outcome(
            float(self.end.max(initial=0.0)), self.start, self.end, self.link_bytes, self.events
        )

    def _advance(self) -> None:
        """Go to the next event and do what it allows."""
        self.events += 1
        self._share()
        with np.errstate(divide="ignore"):
            need = self.left[self.active] / self.rates
        step = min(need.min(initial=np.inf), self.timer.min(initial=np.inf) - self.now)
        if self.rise:
            step = min(step, self.shared_at + self.resolution_ms - self.now)
        step = min(step, self.alarm - self.now)
        if not np.isfinite(step):
            raise PlanError("the network gives a flow no rate at all: a link has no capacity")
        step = max(step, 0.0)
        self.now += step
        self.left[self.active] -= self.rates * step
        late = need <= step * (1 + _DONE) + self.resolution_ms
        arrived = self._arrive(self.active[late], late)
        due = self.timer <= self.now * (1 + 1e-15) + 1e-12
        ended = self.timed[due]
        self.timed, self.timer = self.timed[~due], self.timer[~due]
        sends = self.message_of[ended] >= 0
        computed = ended[~sends]
        self.idle[self.graph.device[computed]] = True
        self._finish(np.concatenate([arrived, self._send(ended[sends]), computed]))

    def _arrive(self, flows: Ints, which: npt.NDArray[np.bool_]) -> Ints:
        """End flows; returns the tasks of which none is left."""
        if not len(flows):
            return flows
        self.active, self.rates = self.active[~which], self.rates[~which]
        self.rise = True
        tasks, counts = np.unique(self.flow_task[flows], return_counts=True)
        self.flows_left[tasks] -= counts
        return _where(tasks, self.flows_left[tasks] == 0)

    def _send(self, tasks: Ints) -> Ints:
        """Start the flows of messages; returns those that have nothing to send."""
        messages = self.message_of[tasks]
        flows = runs(self.flow_first[messages], self.flow_first[messages + 1])
        if len(flows):
            self.active = np.concatenate([self.active, flows])
            self.changed = True
        return _where(tasks, self.flows_left[tasks] == 0)

    def _share(self) -> None:
        """Find the rates of the active flows, if they are to be other ones than before."""
        due = self.rise and self.now >= self.shared_at + self.resolution_ms
        if self.changed or due:
            self.rates = self.fair_rates(self.uses, self.capacity)
            self.changed = self.rise = False
            self.shared_at = self.now

    def fair_rates(self, uses: Uses, capacity: Floats) -> Floats:
        """The rates of the active flows, given what each way uses; 0 for ways without links."""
        mine = self.way[self.active]
        counts = np.bincount(mine, minlength=len(uses.first) - 1)
        used = np.flatnonzero((counts > 0) & (np.diff(uses.first) > 0))
        rates = np.zeros(len(counts))
        slack = COARSE_SLACK if self.resolution_ms else EXACT
        rates[used] = max_min_rates(uses.of(used, counts[used]), capacity, slack=slack)
        return rates[mine]

    def _finish(self, tasks: Ints) -> None:
        """End tasks and begin what waited for them."""
        self.end[tasks] = self.now
        following = self.graph.after(tasks)
        np.subtract.at(self.waits, following, 1)
        ready = np.unique(following)
        self._begin(ready[self.waits[ready] == 0])

    def _begin(self, tasks: Ints) -> None:
        """Begin tasks that wait for nothing any more."""
        computes = self.graph.device[tasks] >= 0
        self.queue = np.concatenate([self.queue, tasks[computes]])
        messages = tasks[~computes]
        self.start[messages] = self.now
        self._time(messages)
        wanted = self.graph.device[self.queue]
        _, heads = np.unique(wanted, return_index=True)
        heads = heads[self.idle[wanted[heads]]]
        starting = self.queue[heads]
        self.queue = np.delete(self.queue, heads)
        self.idle[self.graph.device[starting]] = False
        self.start[starting] = self.now
        self._time(starting)

    def _time(self, tasks: Ints) -> None:
        """Let tasks end, or be sent, after their runtimes."""
        self.timed = np.concatenate([self.timed, tasks])
        self.timer = np.concatenate([self.timer, self.now + self.graph.runtime_ms[tasks]])


def _where(values: Ints, which: npt.NDArray[np.bool_]) -> Ints:
    found: Ints = values[which]
    return found
