"""A network in memory whose datagrams stay in the air until a test lets them arrive.

Each is in the air twice, before the switch and behind it, so that anything may overtake anything.
The switch can be lost: it is empty then, and carries nothing until somebody sets it up again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from host_stack.job import Job
from host_stack.placement import Placement
from host_stack.wire import Op
from softswitch.p4runtime.server import P4RuntimeServer
from tests.job_in_memory import GROUP, addresses, ports
from tests.memory_network import MemoryNetwork
from tests.test_switch_job import provision

JOBS = "LibraIngress.membership.jobs"
LULL_S = 0.1
"""Nothing is in the air for so long: whoever could send waits for something else."""

START_S = 60.0
"""In which the first datagram has to come."""


@dataclass(frozen=True)
class Flight:
    """A datagram in the air, to the switch or, behind it, to the host at `receiver`."""

    source: str
    destination: str
    payload: bytes
    receiver: str | None = None


class Air(MemoryNetwork):
    """The network of a job around the embedded switch; see the module."""

    def __init__(self, server: P4RuntimeServer, workers: int) -> None:
        super().__init__(ports(workers), GROUP, addresses(workers), server.dataplane)
        self._server = server
        self._flights: list[Flight] = []
        self._copies: list[Flight] = []
        self._to_lose: Counter[Op] = Counter()
        self._is_calm = False
        self._changed = threading.Condition(threading.RLock())
        self.lost: Counter[Op] = Counter()
        self.restarts = 0

    # -- what the job does ------------------------------------------------------------------

    def network_of(self, job: Job, _placement: Placement) -> Air:
        """Itself, for a job whose epoch the switch has to know."""
        self._set_epoch(job)
        return self

    def install(self, job: Job) -> None:
        """Another epoch: by its entry on a switch that is well, from nothing on one that is not."""
        if not self.is_dead:
            self._set_epoch(job)
            return
        asyncio.run(provision(self._server.address, job))
        with self._changed:
            self.dataplane = self._server.dataplane
            self.is_dead = False
            self.restarts += 1

    def carry(self, source: str, destination: str, payload: bytes) -> None:
        """Into the air, on the way to the switch."""
        self._take_off(Flight(source, destination, payload))

    def _arrive(self, address: str, source: str, payload: bytes) -> None:
        """Into the air once more, behind the switch."""
        self._take_off(Flight(source, address, payload, address))

    # -- what a test does -------------------------------------------------------------------

    def wait(self) -> None:
        """Wait for the first datagram."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._flights, START_S), "nobody sends anything"

    def let(self, picks: Iterable[int]) -> None:
        """Let datagrams arrive, each the one at a pick, modulo those that are there."""
        with self._changed:
            for pick in picks:
                if not self._changed.wait_for(lambda: self._flights, LULL_S):
                    return
                self._land(self._flights.pop(pick % len(self._flights)))

    def lose(self, op: Op, count: int) -> None:
        """The next datagrams of an operation are lost."""
        with self._changed:
            self._to_lose[op] += count

    def keep_copy(self, pick: int) -> None:
        """Keep a copy of what is in the air, for later."""
        with self._changed:
            if self._flights:
                self._copies.append(self._flights[pick % len(self._flights)])

    def let_copy(self, pick: int) -> None:
        """Let a copy arrive, perhaps rounds and epochs later, and perhaps again."""
        with self._changed:
            if self._copies:
                self._land(self._copies[pick % len(self._copies)])

    def lose_switch(self) -> None:
        """It is gone with all that it knew."""
        with self._changed:
            self.is_dead = True

    def calm(self) -> None:
        """From now on everything arrives at once, in order."""
        with self._changed:
            self._is_calm = True
            self._to_lose.clear()
            while self._flights:
                self._land(self._flights.pop(0))

    def _take_off(self, flight: Flight) -> None:
        with self._changed:
            op = Op(flight.payload[0] & 0xF)
            if self._to_lose[op]:
                self._to_lose[op] -= 1
                self.lost[op] += 1
            elif self._is_calm:
                self._land(flight)
            else:
                self._flights.append(flight)
                self._changed.notify_all()

    def _land(self, flight: Flight) -> None:
        if flight.receiver is not None:
            self.transport(flight.receiver).put(flight.source, flight.payload)
        elif not self.is_dead:
            self._pass(flight.source, flight.destination, flight.payload)

    def _set_epoch(self, job: Job) -> None:
        with self._changed:
            (entry,) = self.dataplane.table_entries(JOBS)
            slot, _, *others = entry.params
            self.dataplane.table_modify(JOBS, replace(entry, params=(slot, job.epoch, *others)))
