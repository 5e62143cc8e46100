"""The parameter server of a job: owns the model and closes the rounds (section 5 of the design)."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import zmq
from numpy.typing import NDArray

from host_stack.aggregator import KeyIndex, SoftwareAggregator
from host_stack.commit import Aggregate, Commit, OnCommit, Optimizer
from host_stack.control import Answer, Head, Kind, Known, Request, bitmap_of, rows_of
from host_stack.errors import BadInput
from host_stack.fixedpoint import FloatArray, IntArray
from host_stack.hot_path import HotPath, HotStats
from host_stack.incarnation import Incarnation, Incarnations, is_newer
from host_stack.job import Job
from host_stack.kv.app import SimpleApp, SimpleRequest
from host_stack.kv.message import KVPairs
from host_stack.kv.node import Node
from host_stack.kv.server import KVMeta, KVServer
from host_stack.layout import make_tag, split_tag
from host_stack.transport import Transport

POLL_MS = 200
SUSPECT_S = 0.5
"""After so long without an answer to a drain the controller is asked to look at the switch."""

RENEW_EVERY_S = 1.0
"""How often a request to the controller is repeated."""


@dataclass
class _Round:
    """The open round: what has come of whom, and which rows must be drained."""

    pushed: set[int] = field(default_factory=set)
    done: dict[int, SimpleRequest] = field(default_factory=dict)
    rows: list[IntArray] = field(default_factory=list)


@dataclass(frozen=True)
class _Closed:
    """The last committed round, for workers that missed the answer."""

    tag: int
    changed: bytes


@dataclass(frozen=True)
class HeldPull:
    """A pull that waits for its round."""

    request: KVMeta
    keys: NDArray[np.uint64]


class _Abandoned(Exception):
    """The open round starts again in another incarnation."""


class Server:
    """Sums what reaches it in software, drains the rest, applies the optimiser, answers pulls.

    It runs in one thread: `run` multiplexes the ps-lite node's socket, the UDP socket and the
    news of the controller. Every push, DONE and GRAD names epoch and round; what is not of the
    open one changes nothing, so anything may come twice, late or never.
    """

    def __init__(
        self,
        job: Job,
        incarnation: Incarnation,
        parameters: FloatArray,
        optimizer: Optimizer,
        transport: Transport,
        node: Node,
        incarnations: Incarnations,
        on_commit: OnCommit,
        *,
        resumed: bool = False,
    ) -> None:
        """Attach to a ps-lite node that is not started yet; `parameters` is updated in place.

        The first open round is that of `incarnation`, which must be new if this server has
        `resumed` the work of another one.
        """
        self.parameters = parameters
        self.round = incarnation.round
        self.counters: Counter[str] = Counter()
        self._job = job
        self._optimizer = optimizer
        self._transport = transport
        self._node = node
        self._incarnations = incarnations
        self._on_commit = on_commit
        self._aggregator = SoftwareAggregator(job.num_keys, incarnation.fraction_bits)
        self._hot_stats = HotStats()
        self._planned: Incarnation | None = None
        self._joined: dict[int, int] = dict.fromkeys(range(len(job.workers)), 0) if resumed else {}
        self._rejoining: dict[int, SimpleRequest] = {}
        self._asked_at = 0.0
        self._closed: _Closed | None = None
        self._held: dict[int, HeldPull] = {}
        self._kv = KVServer(node)
        self._begin(incarnation)
        self._kv.set_request_handle(self._on_data)
        self._kv.set_simple_handle(self._on_simple)

    def run(self, rounds: int) -> None:
        """Serve until `rounds` rounds are committed; the node must be started."""
        poller = zmq.Poller()
        for source in (self._node.socket, self._transport.fileno(), self._incarnations.fileno()):
            poller.register(source, zmq.POLLIN)
        while self.round < rounds:
            poller.poll(POLL_MS)
            self._node.process()
            self._receive()
            self._take_news()
            if self._rejoining:
                self._renew("a worker has come back")
            if len(self._open.done) == len(self._job.workers):
                self._commit()

    def statistics(self) -> dict[str, int]:
        """Counters by reason, of the cold path, the fall-back path and the drains."""
        drain, fallback = self._hot_stats.drain, self._hot_stats.fallback
        return {
            **self.counters,
            **{f"fallback_{name}": n for name, n in fallback.items()},
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

    @property
    def _tag(self) -> int:
        return make_tag(self._incarnation.epoch, self.round)

    # -- incarnations -----------------------------------------------------------------------

    def _begin(self, incarnation: Incarnation) -> None:
        """Open the round anew in another epoch: nothing that has come for it counts any more."""
        self._incarnation = incarnation
        self._open = _Round()
        self._aggregator.discard()
        self._aggregator.scale_to(incarnation.fraction_bits)
        self._hot = HotPath(
            self._job, incarnation, self._aggregator, self._transport, self._hot_stats
        )
        self._hot.close(self.round - 1)

    def _take_news(self) -> None:
        """Begin the controller's newest incarnation, at once or, if it can wait, at the commit."""
        news = self._incarnations.news()
        if news is None or not is_newer(news.epoch, self._incarnation.epoch):
            return
        if news.planned and not self._rejoining:
            self._planned = news
            return
        self._move(news)

    def _move(self, incarnation: Incarnation) -> None:
        self._planned = None
        self.counters["incarnations"] += 1
        waiting = [*self._open.done.values(), *self._rejoining.values()]
        self._rejoining.clear()
        self._begin(replace(incarnation, round=self.round))
        for request in waiting:
            self._answer(request, Kind.MOVED)

    def _renew(self, reason: str) -> None:
        """Ask the controller for another incarnation, again and again until it comes."""
        now = time.monotonic()
        if now - self._asked_at >= RENEW_EVERY_S:
            self._asked_at = now
            self._incarnations.renew(reason, self._incarnation, self.round)

    def _suspect(self, reason: str) -> None:
        """Ask the controller to look at the switch."""
        now = time.monotonic()
        if now - self._asked_at >= RENEW_EVERY_S:
            self._asked_at = now
            self._incarnations.suspect(reason, self._incarnation, self.round)

    # -- what comes in ----------------------------------------------------------------------

    def _receive(self) -> None:
        received = self._transport.receive()
        while len(received):
            self._hot.take(received, np.ones(len(received), np.bool_), self.round)
            received = self._transport.receive()

    def _on_data(self, request: KVMeta, pairs: KVPairs, server: KVServer) -> None:
        keys = pairs.keys.astype(np.int64)
        if len(keys) and int(pairs.keys[-1]) >= self._job.num_keys:
            self.counters["unknown_key"] += 1
            return
        if request.push and request.pull:
            self.counters["bad_push"] += 1
        elif request.push:
            self._on_push(request, keys, pairs, server)
        elif request.cmd > self.round:
            self._held[request.sender] = HeldPull(request, pairs.keys)
        else:
            self._answer_pull(HeldPull(request, pairs.keys))

    def _on_push(self, request: KVMeta, keys: KeyIndex, pairs: KVPairs, server: KVServer) -> None:
        """Add a push of the open round, once for each worker.

        Another one is not answered, for an answer would say that it counts.
        """
        rank = self._rank_of.get(request.sender)
        if rank is None or len(pairs.vals) != len(keys):
            self.counters["bad_push"] += 1
        elif request.cmd & 0xFFFFFFFF != self._tag:
            self.counters["stale_push"] += 1
        elif rank in self._open.pushed:
            self.counters["repeated_push"] += 1
            server.response(request)
        else:
            self._open.pushed.add(rank)
            self._aggregator.add(rank, keys, pairs.vals)
            self.counters["cold_keys"] += len(keys)
            server.response(request)

    def _on_simple(self, request: SimpleRequest, app: SimpleApp) -> None:
        rank = self._rank_of.get(request.sender)
        try:
            message = Request.decode(request.body)
            head = Head(request.head)
            if rank is None:
                raise BadInput(f"node {request.sender} is no worker of the job")
            if head is Head.JOIN:
                self._on_join(rank, message.tag, request)
            elif message.tag == self._tag:
                self._on_current(rank, head, message, request)
            else:
                self._on_other_tag(message, request)
        except (ValueError, BadInput):
            self.counters["bad_request"] += 1

    def _on_join(self, rank: int, process: int, request: SimpleRequest) -> None:
        """Let a worker's process in.

        A second process of a rank counts its packets from 1 again, which the switch would take
        for duplicates: it has to wait for another epoch.
        """
        if self._joined.setdefault(rank, process) == process and rank not in self._rejoining:
            self._answer(request, Kind.MOVED)
            return
        self.counters["rejoined"] += self._joined[rank] != process
        self._joined[rank] = process
        self._rejoining[rank] = request

    def _on_current(self, rank: int, head: Head, message: Request, request: SimpleRequest) -> None:
        """DONE, STATUS or STALLED of the open round."""
        if head is Head.DONE:
            used_rows = self._incarnation.placement.used_rows
            if rank not in self._open.done:
                self._open.rows.append(rows_of(message.rows, used_rows))
            self._open.done[rank] = request
            return
        if head is Head.STALLED:
            self._suspect(f"packets of worker {rank} are not acknowledged")
        known = Known.PUSH if rank in self._open.pushed else Known.NOTHING
        if rank in self._open.done:
            known |= Known.DONE
        self._answer(request, Kind.OPEN, message, known=known)

    def _on_other_tag(self, message: Request, request: SimpleRequest) -> None:
        """DONE or STATUS of a round that is not open: the worker has missed something."""
        if self._closed is not None and message.tag == self._closed.tag:
            self._answer(request, Kind.COMMITTED, message, rows=self._closed.changed)
        else:
            self._answer(request, Kind.MOVED, message)

    def _answer(
        self,
        request: SimpleRequest,
        kind: Kind,
        message: Request | None = None,
        *,
        known: Known = Known.NOTHING,
        rows: bytes = b"",
    ) -> None:
        """Answer a request; with the incarnation where the worker is or will be in another one."""
        asked = message or Request.decode(request.body)
        epoch, _ = split_tag(asked.tag)
        moved = kind is Kind.MOVED or epoch != self._incarnation.epoch
        incarnation = b""
        if moved:
            incarnation = replace(self._incarnation, round=self.round).encode(asked.version)
        answer = Answer(kind, asked.tag, known, rows, incarnation)
        self._kv.simple_response(request, answer.encode())

    # -- closing a round --------------------------------------------------------------------

    def _commit(self) -> None:
        started = time.monotonic()
        rows = np.unique(np.concatenate(self._open.rows))
        try:
            finished = self._hot.drain(self.round, rows, self._while_draining)
        except _Abandoned:
            return
        drained = time.monotonic()
        aggregate = self._sums(finished)
        self._optimizer.apply(self.parameters, aggregate.keys.astype(np.uint64), aggregate.sums)
        applied = time.monotonic()
        tag = self._tag
        changed = self._close(tag, aggregate.keys)
        epoch, round_ = split_tag(tag)
        commit = Commit(
            round_,
            epoch,
            drained - started,
            applied - drained,
            time.monotonic() - applied,
            len(rows),
            len(changed),
            len(aggregate.keys),
        )
        self._on_commit(commit, self.parameters, aggregate)

    def _while_draining(self, stalled_s: float) -> None:
        """Called by a drain that waits: raises `_Abandoned` when the round moves."""
        self._node.process()
        epoch = self._incarnation.epoch
        self._take_news()
        if self._incarnation.epoch != epoch:
            raise _Abandoned
        if self._rejoining:
            self._renew("a worker has come back")
        elif stalled_s > SUSPECT_S:
            self._suspect("it does not answer a drain")

    def _sums(self, finished: list[tuple[KeyIndex, FloatArray]]) -> Aggregate:
        """All touched keys of the round, ascending, and their sums."""
        parts = [self._aggregator.take(), *finished]
        keys = np.concatenate([part[0] for part in parts])
        sums = np.concatenate([part[1] for part in parts])
        order = np.argsort(keys)
        return Aggregate(keys[order], sums[order])

    def _close(self, tag: int, keys: KeyIndex) -> IntArray:
        """Open the next round, in the planned incarnation if there is one; return rows changed."""
        changed = self._hot.send_updates(self.round, keys, self.parameters)
        bitmap = bitmap_of(changed, self._incarnation.placement.used_rows)
        waiting = self._open.done.values()
        self.round += 1
        self._closed = _Closed(tag, bitmap)
        if self._planned is not None:
            planned, self._planned = self._planned, None
            self.counters["incarnations"] += 1
            self._begin(replace(planned, round=self.round))
        else:
            self._open = _Round()
        for request in waiting:
            self._answer(request, Kind.COMMITTED, rows=bitmap)
        due = [node for node, pull in self._held.items() if pull.request.cmd <= self.round]
        for node in due:
            self._answer_pull(self._held.pop(node))
        return changed

    def _answer_pull(self, pull: HeldPull) -> None:
        values = self.parameters[pull.keys.astype(np.int64)]
        self._kv.response(pull.request, KVPairs(pull.keys, values))
