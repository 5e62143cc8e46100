"""A round as a state machine, against a plain specification, in any order of events.

The switch is the embedded one with the real program, the server's side the real hot path; workers
are reduced to what they have sent and what was acknowledged.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from host_stack import hot_path
from host_stack.aggregator import SoftwareAggregator
from host_stack.codec import HEADER, Codec, fill_header, overlay
from host_stack.hot_path import HotPath, HotStats
from host_stack.incarnation import Incarnation
from host_stack.layout import make_tag
from host_stack.transport import Received
from host_stack.wire import Flag, Op
from softswitch.p4runtime.server import P4RuntimeServer
from tests.job_in_memory import GROUP, SERVER, addresses, make_job, ports, two_cells
from tests.memory_network import MemoryNetwork
from tests.test_switch_job import WORKERS, provision, switch_server

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]

HOT = 80
F = 30
JOBS = "LibraIngress.membership.jobs"
VALUES = (1.0, -3.5, 2.0**-20, -1e-30, 0.0, 65536.0, 1e30, float("inf"))
UPDATES = st.sampled_from(["arrives", "late", "lost"])


@dataclass
class Packet:
    """A GRAD that a worker has pushed; in each epoch it has another tag and number."""

    rank: int
    keys: np.ndarray
    values: np.ndarray
    lanes: np.ndarray
    rows: np.ndarray
    data: bytes = b""
    acknowledged: bool = False
    by_server: bool = False


@dataclass
class Round:
    """What the specification says of a round: the sum of all that was pushed."""

    packets: list[Packet] = field(default_factory=list)

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and sums, computed in one place from the gradients alone."""
        plain = SoftwareAggregator(HOT, F)
        for packet in self.packets:
            plain.add(packet.rank, packet.keys, packet.values)
        return plain.take()


class RoundMachine(RuleBasedStateMachine):
    """Rules are what may happen next; every commit is compared with the specification."""

    server: ClassVar[P4RuntimeServer]
    epochs: ClassVar[Iterator[int]]

    def __init__(self) -> None:
        super().__init__()
        self.job = make_job(WORKERS, HOT, F, 1)
        self.codec = Codec(self.job.layout)
        self.placement = two_cells(np.arange(HOT, dtype=np.uint64), self.job.layout)
        self.network = MemoryNetwork(
            ports(WORKERS), GROUP, addresses(WORKERS), self.server.dataplane
        )
        self.aggregators = [SoftwareAggregator(HOT, F) for _ in range(2)]
        self.stats = HotStats()
        self.round = 0
        self.open = Round()
        self.late: list[tuple[int, bytes]] = []
        self.late_updates: list[tuple[str, str, bytes]] = []
        self.seqs = [1] * WORKERS
        self._enter_epoch("arrives")

    def _aggregator_of(self, round_: int) -> SoftwareAggregator:
        return self.aggregators[round_ % 2]

    def _enter_epoch(self, update: str) -> None:
        """A new epoch on the switch and at the server; all packets are to be sent again."""
        self.epoch = next(self.epochs)
        dataplane = self.server.dataplane
        (entry,) = dataplane.table_entries(JOBS)
        slot, _, *others = entry.params
        dataplane.table_modify(JOBS, replace(entry, params=(slot, self.epoch, *others)))
        for aggregator in self.aggregators:
            aggregator.discard()
        incarnation = Incarnation(self.epoch, self.round, F, 1, self.placement, on_switch=True)
        transport = self.network.transport(SERVER)
        self.hot = HotPath(
            self.job,
            incarnation,
            lambda round_: self.aggregators[round_ % 2],
            transport,
            self.stats,
        )
        self._close(self.round - 1, update)
        for packet in self.open.packets:
            self._stamp(packet)

    def _close(self, round_: int, update: str) -> None:
        """The server's UPDATE of a round arrives, is lost, or arrives later."""
        network, found = self.network, []
        network.carry = lambda *datagram: found.append(datagram)
        try:
            self.hot.close(round_)
        finally:
            del network.carry
        if update == "arrives":
            for datagram in found:
                network.carry(*datagram)
        elif update == "late":
            self.late_updates += found

    def _stamp(self, packet: Packet) -> None:
        """Give a packet the tag of the open round and the worker's next number."""
        first = np.zeros(len(packet.keys), np.intp)
        record = self.codec.encode_grads(first, packet.lanes, packet.rows, packet.values, 1)
        tag = make_tag(self.epoch, self.round)
        fill_header(record["header"], Op.GRAD, job=self.job.job, worker=packet.rank, tag=tag)
        record["header"]["seq"] = self.seqs[packet.rank]
        self.seqs[packet.rank] += 1
        packet.data, packet.acknowledged, packet.by_server = record.tobytes(), False, False

    def _deliver(self, rank: int, data: bytes, *, answered: bool) -> None:
        """Carry a GRAD; let the server sum what reaches it, and the worker hear of it or not."""
        self.network.carry(self.job.workers[rank], SERVER, data)
        server = self.network.transport(SERVER)
        while len(received := server.receive()):
            self.hot.take(received, np.ones(len(received), np.bool_), self.round)
        worker = self.network.transport(self.job.workers[rank])
        while len(received := worker.receive()):
            if answered:
                self._hear(rank, received)

    def _hear(self, rank: int, received: Received) -> None:
        headers = overlay(received.data, HEADER)
        for header in headers:
            for packet in self.open.packets:
                mine = np.frombuffer(packet.data[: HEADER.itemsize], HEADER)[0]
                same = all(header[name] == mine[name] for name in ("tag", "worker", "seq"))
                if same and packet.rank == rank and not packet.acknowledged:
                    packet.acknowledged = True
                    packet.by_server = bool(header["flags"] & Flag.BY_SERVER)

    def _open_packets(self) -> list[Packet]:
        return [packet for packet in self.open.packets if not packet.acknowledged]

    @rule(
        rank=st.integers(0, WORKERS - 1),
        lanes=st.sets(st.integers(0, 15), min_size=1, max_size=4),
        row=st.integers(0, 1),
        values=st.lists(st.sampled_from(VALUES), min_size=4, max_size=4),
        second=st.booleans(),
        answered=st.booleans(),
    )
    def push(
        self,
        rank: int,
        lanes: set[int],
        row: int,
        values: list[float],
        second: bool,
        answered: bool,
    ) -> None:
        """A worker pushes a packet, if none of its keys is in this round already.

        Keys that own second cells use either.
        """
        keys = np.array(sorted(lane + row * self.job.layout.lanes for lane in lanes), np.int64)
        taken = [packet.keys for packet in self.open.packets if packet.rank == rank]
        if taken and np.isin(keys, np.concatenate(taken)).any():
            return
        gradients = np.array(values[: len(keys)], np.float32)
        cells = self.placement.lanes[keys], self.placement.rows[keys]
        seconds = self.placement.second_cells(cells[1])
        if second and seconds.masks.all():
            cells = cells[0] ^ seconds.masks, seconds.rows
        packet = Packet(rank, keys, gradients, *cells)
        self._stamp(packet)
        self.open.packets.append(packet)
        self._deliver(rank, packet.data, answered=answered)

    @precondition(lambda self: self._open_packets())
    @rule(data=st.data(), answered=st.booleans())
    def send_again(self, data: st.DataObject, answered: bool) -> None:
        """A time-out."""
        packet = data.draw(st.sampled_from(self._open_packets()))
        self._deliver(packet.rank, packet.data, answered=answered)

    @precondition(lambda self: self.open.packets)
    @rule(data=st.data())
    def keep_a_copy(self, data: st.DataObject) -> None:
        """The network keeps a copy of a packet for later."""
        packet = data.draw(st.sampled_from(self.open.packets))
        self.late.append((packet.rank, packet.data))

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def deliver_late(self, data: st.DataObject) -> None:
        """A copy arrives, perhaps rounds and epochs later; it may arrive again."""
        rank, content = data.draw(st.sampled_from(self.late))
        self._deliver(rank, content, answered=True)

    @precondition(lambda self: self.late_updates)
    @rule(data=st.data())
    def deliver_an_update_late(self, data: st.DataObject) -> None:
        """An UPDATE arrives, perhaps rounds and epochs later; it may arrive again."""
        self.network.carry(*data.draw(st.sampled_from(self.late_updates)))

    @rule(update=UPDATES)
    def lose_the_switch(self, update: str) -> None:
        """Whatever fails, the round goes to another epoch."""
        self._enter_epoch(update)

    @rule(rounds=st.integers(2, 3), update=UPDATES)
    def let_rounds_pass(self, rounds: int, update: str) -> None:
        """Rounds without hot keys, of which switch and late packets hear nothing else."""
        for _ in range(rounds):
            self.commit(update)

    @rule(update=UPDATES)
    def commit(self, update: str) -> None:
        """All is acknowledged, and drained; UPDATEs reach the switch, perhaps late, or not."""
        while waiting := self._open_packets():
            self._deliver(waiting[0].rank, waiting[0].data, answered=True)
        rows = [packet.rows for packet in self.open.packets if not packet.by_server]
        touched = np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.int64)
        finished = self.hot.drain(self.round, touched, lambda stalled_s: None)
        parts = [self.aggregators[self.round % 2].take(), *finished]
        keys = np.concatenate([part[0] for part in parts])
        sums = np.concatenate([part[1] for part in parts])
        order = np.argsort(keys)
        expected_keys, expected_sums = self.open.sums()
        assert keys[order].tolist() == expected_keys.tolist()
        assert sums[order].tobytes() == expected_sums.tobytes()
        self._close(self.round, update)
        self.round += 1
        self.open = Round()

    @invariant()
    def nothing_is_refused_for_a_wrong_reason(self) -> None:
        """Packets of members that are well-formed are never taken for something else."""
        refused = {"malformed", "foreign", "unknown_cell"}
        assert not refused & {name for name, count in self.stats.fallback.items() if count}


def test_any_order_of_packets_keeps_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis looks for an order of events after which a sum is not that of the gradients."""
    monkeypatch.setattr(hot_path, "OPEN_AGAIN_S", 0.0)  # here no time passes
    with switch_server() as server:
        asyncio.run(provision(server.address, make_job(WORKERS, HOT, F, 1)))
        RoundMachine.server = server
        RoundMachine.epochs = iter(range(2, 4096))
        machine = RoundMachine.TestCase
        machine.settings = settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        machine("runTest").runTest()
