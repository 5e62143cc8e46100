"""The parameter server of a job: owns the model and closes the rounds (section 5 of the design)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import zmq
from numpy.typing import NDArray

from host_stack.aggregator import KeyIndex, SoftwareAggregator
from host_stack.codec import Codec, fill_header
from host_stack.control import HEAD_DONE, RoundRows
from host_stack.drain import Drain
from host_stack.errors import BadInput
from host_stack.fallback import Fallback
from host_stack.fixedpoint import FloatArray, IntArray, MaskArray
from host_stack.job import Job
from host_stack.kv.app import SimpleApp, SimpleRequest
from host_stack.kv.message import KVPairs
from host_stack.kv.node import Node
from host_stack.kv.server import KVMeta, KVServer
from host_stack.layout import SERVER_RANK, make_tag
from host_stack.placement import Placement
from host_stack.transport import Received, Transport, ipv4, send_all
from host_stack.wire import Op

POLL_MS = 200


class Optimizer(Protocol):
    """What the server needs of an optimiser; `workloads.optimizers` has some."""

    def apply(self, params: FloatArray, keys: NDArray[np.uint64], gradient: FloatArray) -> None:
        """Update float32[num_keys] `params` in place at uint64[n] unique `keys`."""

    def state(self) -> dict[str, FloatArray]:
        """The optimiser's arrays, for a checkpoint."""

    def load_state(self, state: Mapping[str, FloatArray]) -> None:
        """Take over arrays of a checkpoint."""


@dataclass(frozen=True)
class Commit:
    """What a committed round was.

    Attributes:
        round: its number, from 0.
        drain_s, apply_s, update_s: seconds spent in each phase.
        drained_rows, changed_rows: rows read from the switch, rows of which an UPDATE was sent.
        keys: number of touched keys.
    """

    round: int
    drain_s: float
    apply_s: float
    update_s: float
    drained_rows: int
    changed_rows: int
    keys: int


@dataclass
class _Round:
    """The open round: who is done, and which rows must be drained."""

    done: dict[int, SimpleRequest] = field(default_factory=dict)
    rows: list[IntArray] = field(default_factory=list)


@dataclass(frozen=True)
class HeldPull:
    """A pull that waits for its round."""

    request: KVMeta
    keys: NDArray[np.uint64]


class Server:
    """Sums what reaches it in software, drains the rest, applies the optimiser, answers pulls.

    It runs in one thread: `run` multiplexes the ps-lite node's socket and the UDP socket.
    """

    def __init__(
        self,
        job: Job,
        placement: Placement,
        parameters: FloatArray,
        optimizer: Optimizer,
        transport: Transport,
        node: Node,
        on_commit: Callable[[Commit, FloatArray], None],
    ) -> None:
        """Attach to a ps-lite node that is not started yet; `parameters` is updated in place."""
        self.parameters = parameters
        self.round = 0
        self.counters: Counter[str] = Counter()
        self._job = job
        self._placement = placement
        self._optimizer = optimizer
        self._transport = transport
        self._node = node
        self._on_commit = on_commit
        self._codec = Codec(job.layout)
        self._aggregator = SoftwareAggregator(job.num_keys, job.fraction_bits)
        self._drain = Drain(job, transport, self._codec, placement.placed)
        self._fallback = Fallback(job, placement, self._aggregator, transport, self._codec)
        self._open = _Round()
        self._held: list[HeldPull] = []
        self._hot_keys = placement.keys.astype(np.int64)
        self._group = ipv4(job.group)
        self._kv = KVServer(node)
        self._kv.set_request_handle(self._on_data)
        self._kv.set_simple_handle(self._on_simple)

    def run(self, rounds: int) -> None:
        """Serve until `rounds` rounds are committed; the node must be started."""
        poller = zmq.Poller()
        poller.register(self._node.socket, zmq.POLLIN)
        poller.register(self._transport.fileno(), zmq.POLLIN)
        while self.round < rounds:
            poller.poll(POLL_MS)
            self._node.process()
            self._receive()
            if len(self._open.done) == len(self._job.workers):
                self._commit()

    def statistics(self) -> dict[str, int]:
        """Counters by reason, of the cold path, the fall-back path and the drains."""
        drain = self._drain.stats
        return {
            **self.counters,
            **{f"fallback_{name}": n for name, n in self._fallback.counters.items()},
            "kv_rejected": self._kv.rejected.total(),
            "escaped_gradients": self._aggregator.escaped_count,
            "drained_rows": drain.rows,
            "drain_requests": drain.requests,
            "drain_rows_asked_again": drain.asked_again,
            "drain_unknown_cells": drain.unknown_cells,
        }

    @cached_property
    def _rank_of(self) -> dict[int, int]:
        """ps-lite's node id of each worker, and its rank in the job (by address).

        Made when the first worker is heard, which may be before `run`; the roster is there then.
        """
        by_address = {address: rank for rank, address in enumerate(self._job.workers)}
        return {
            info.id: by_address[info.hostname]
            for info in self._node.roster
            if info.hostname in by_address
        }

    # -- what comes in ----------------------------------------------------------------------

    def _receive(self) -> None:
        received = self._transport.receive()
        while len(received):
            self._fallback.take(received, np.ones(len(received), np.bool_), self.round)
            received = self._transport.receive()

    def _on_other(self, received: Received, mask: MaskArray) -> None:
        self._fallback.take(received, mask, self.round)

    def _on_data(self, request: KVMeta, pairs: KVPairs, server: KVServer) -> None:
        keys = pairs.keys.astype(np.int64)
        if len(keys) and int(pairs.keys[-1]) >= self._job.num_keys:
            self.counters["unknown_key"] += 1
            return
        if request.push:
            self._on_push(request, keys, pairs, server)
        if request.pull:
            self._held.append(HeldPull(request, pairs.keys))
            self._answer_pulls()

    def _on_push(self, request: KVMeta, keys: KeyIndex, pairs: KVPairs, server: KVServer) -> None:
        rank = self._rank_of.get(request.sender)
        if rank is None or request.cmd != self.round or len(pairs.vals) != len(keys):
            self.counters["bad_push"] += 1
            return
        self._aggregator.add(rank, keys, pairs.vals)
        self.counters["cold_keys"] += len(keys)
        if not request.pull:
            server.response(request)

    def _on_simple(self, request: SimpleRequest, app: SimpleApp) -> None:
        rank = self._rank_of.get(request.sender)
        try:
            message = RoundRows.decode(request.body, self._placement.used_rows)
        except BadInput:
            self.counters["bad_done"] += 1
            return
        if request.head != HEAD_DONE or rank is None or message.round != self.round:
            self.counters["bad_done"] += 1
            return
        self._open.done[rank] = request
        self._open.rows.append(message.rows)

    # -- closing a round --------------------------------------------------------------------

    def _commit(self) -> None:
        started = time.monotonic()
        rows = np.unique(np.concatenate(self._open.rows))
        values = self._drain_rows(rows)
        drained = time.monotonic()
        keys, sums = self._sums(values)
        self._optimizer.apply(self.parameters, keys.astype(np.uint64), sums)
        applied = time.monotonic()
        closed, self._open = self._open, _Round()
        tag = make_tag(self._job.epoch, self.round)
        self.round += 1
        changed = self._send_updates(keys, tag)
        body = RoundRows(self.round - 1, changed).encode(self._placement.used_rows)
        for request in closed.done.values():
            self._kv.simple_response(request, body)
        self._answer_pulls()
        commit = Commit(
            self.round - 1,
            drained - started,
            applied - drained,
            time.monotonic() - applied,
            len(rows),
            len(changed),
            len(keys),
        )
        self._on_commit(commit, self.parameters)

    def _drain_rows(self, rows: IntArray) -> list[tuple[KeyIndex, FloatArray]]:
        """Drain; digits go to the aggregator, finished float32 sums are returned."""
        if not len(rows):
            return []
        summed_here = self._aggregator.touched()[self._hot_keys]
        in_row = np.zeros(self._placement.used_rows, np.bool_)
        in_row[self._placement.rows[summed_here]] = True
        pairs = self._placement.pairs
        in_row[pairs.seconds] = in_row[pairs.rows]
        digits = in_row[rows] | self._placement.exact_rows(rows)
        tag = make_tag(self._job.epoch, self.round)
        parts = self._drain.run(tag, rows, digits, self._job.timeouts_s["drain"], self._on_other)
        finished = []
        for part in parts:
            index = self._placement.index_of(part.lanes, part.rows)
            keys = self._hot_keys[index]
            if part.sums is not None:
                self._aggregator.add_sums(keys, part.sums)
            elif part.values is not None:
                finished.append((keys, part.values))
        return finished

    def _sums(self, finished: list[tuple[KeyIndex, FloatArray]]) -> tuple[KeyIndex, FloatArray]:
        """All touched keys of the round, ascending, and their sums."""
        parts = [self._aggregator.take(), *finished]
        keys = np.concatenate([part[0] for part in parts])
        sums = np.concatenate([part[1] for part in parts])
        order = np.argsort(keys)
        return keys[order], sums[order]

    def _send_updates(self, keys: KeyIndex, tag: int) -> IntArray:
        """Multicast the new values of the hot keys among `keys`; return the rows changed."""
        _, index = self._placement.find(keys.astype(np.uint64))
        if not len(index):
            return np.zeros(0, np.int64)
        rows, at = np.unique(self._placement.rows[index], return_inverse=True)
        lanes = self._placement.lanes[index]
        mask = np.zeros((len(rows), self._job.layout.lanes), np.bool_)
        values = np.zeros(mask.shape, np.float32)
        mask[at, lanes] = True
        values[at, lanes] = self.parameters[self._hot_keys[index]]
        batch, lengths = self._codec.encode_updates(rows, mask, values)
        fill_header(batch["header"], Op.UPDATE, job=self._job.job, worker=SERVER_RANK, tag=tag)
        data = batch.view(np.uint8).reshape(len(batch), self._codec.update.itemsize)
        send_all(self._transport, data, lengths, self._group, self._job.timeouts_s["push"])
        return rows

    def _answer_pulls(self) -> None:
        """Answer the pulls whose round is committed; hold the others."""
        held, self._held = self._held, []
        for waiting in held:
            if waiting.request.cmd > self.round:
                self._held.append(waiting)
                continue
            values = self.parameters[waiting.keys.astype(np.int64)]
            self._kv.response(waiting.request, KVPairs(waiting.keys, values))
