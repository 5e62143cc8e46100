"""The parameter server of a job: owns the model and closes the rounds (section 5 of the design)."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import zmq

from host_stack.admission import fault_of
from host_stack.appeals import Appeals
from host_stack.commit import Commit, OnCommit, OnPhase, Optimizer
from host_stack.control import Head, Known, Request, rows_of
from host_stack.errors import BadInput
from host_stack.fixedpoint import FloatArray, IntArray
from host_stack.gathering import Gathering
from host_stack.hot_path import HotPath, HotStats
from host_stack.incarnation import Incarnation, Incarnations, is_newer
from host_stack.job import Job
from host_stack.kv.app import SimpleApp, SimpleRequest
from host_stack.kv.message import KVPairs
from host_stack.kv.node import Node
from host_stack.kv.server import KVMeta, KVServer
from host_stack.layout import TAG_ROUNDS, split_tag
from host_stack.members import NO_RANK, Members
from host_stack.plain import PlainPushes, is_plain
from host_stack.progress import BSP, Consistency, Progress
from host_stack.pulls import Pulls
from host_stack.replies import Asking, Replies
from host_stack.standing import Tally
from host_stack.stopwatch import Phases, Stopwatch
from host_stack.transport import Transport

_LOG = logging.getLogger(__name__)

POLL_S = 0.2
TURN_BATCHES = 16
"""Batches of datagrams that are taken before the cold path and the controller have their turn."""

SUSPECT_S = 0.5
"""After so long without an answer to a drain the controller is asked to look at the switch."""


class _Abandoned(Exception):
    """The open round starts again in another incarnation."""


class Server:
    """Sums what reaches it in software, drains the rest, applies the optimiser, answers pulls.

    It runs in one thread: `run` multiplexes the ps-lite node's socket, the UDP socket and the
    news of the controller. Every push, DONE and GRAD names epoch and round; what is not of an
    open one changes nothing, so anything may come twice, late or never. `Progress` says who goes
    on and when a round closes.
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
        consistency: Consistency = BSP,
        resumed: Sequence[int] | None = None,
        on_phase: OnPhase = lambda phase, round_: None,
        records_first: bool = False,
    ) -> None:
        """Attach to a ps-lite node that is not started yet; `parameters` is updated in place.

        The first open round is that of `incarnation`. A server that takes up the work of another
        one is given the steps of each rank that were committed, as `resumed`, and an incarnation
        that is new. `on_phase` is told `drain` before a round is drained, and `update` before
        anybody is told that it is committed. With `records_first` so is `on_commit`, so that a
        server that records every commit has lost none that anybody knows of; of the last round it
        always is.
        """
        self.parameters = parameters
        self.counters: Counter[str] = Counter()
        self._job = job
        self._optimizer = optimizer
        self._transport = transport
        self._node = node
        self._incarnations = incarnations
        self._on_commit = on_commit
        self._on_phase = on_phase
        self._records_first = records_first
        workers = len(job.workers)
        self._progress = Progress(workers, consistency, incarnation.round, resumed or [0] * workers)
        self._gathering = Gathering(job.num_keys, incarnation.fraction_bits)
        self._replies = Replies(self._progress)
        self._appeals = Appeals(incarnations)
        self._hot_stats = HotStats()
        self._change_is_due = self._is_changing = self._is_over = False
        self._members = Members(job.workers, node, resumed)
        self._tally = Tally()
        self._phases = Phases()
        # Workers that have completed a step and were not told to go on.
        self._waiting: dict[int, Asking] = {}
        self._plain = PlainPushes(parameters, optimizer)
        self._kv = KVServer(node)
        self._pulls = Pulls(self._kv, parameters)
        self._begin(incarnation)
        self._kv.set_request_handle(self._on_data)
        self._kv.set_simple_handle(self._on_simple)

    @property
    def round(self) -> int:
        """The lowest round that is not committed."""
        return self._progress.round

    @property
    def epoch(self) -> int:
        """That rounds are pushed in now."""
        return self._incarnation.epoch

    def run(self, rounds: int | None = None, *, steps: int | None = None) -> None:
        """Serve until `rounds` rounds are committed, or all workers have ended.

        `steps` is how many each worker makes, where that is known: a server that resumes behind
        the last of them waits for nobody, since workers may have left. The node must be started.
        """
        if steps is not None and min(self._progress.committed) >= steps:
            self._progress.end()
        with Stopwatch() as self._watch:
            self._serve(rounds)

    def _serve(self, rounds: int | None) -> None:
        self._rounds = rounds
        poller = zmq.Poller()
        for source in (self._node.socket, self._transport.fileno(), self._incarnations.fileno()):
            poller.register(source, zmq.POLLIN)
        while not self._progress.has_ended and (rounds is None or self.round < rounds):
            now = time.monotonic()
            due_s = math.inf if self._is_changing else self._progress.due_in_s(now)
            poller.poll(math.ceil(min(POLL_S, due_s) * 1000))
            self._node.process()
            self._receive()
            self._take_news()
            if self._members.rejoining:
                self._renew("a worker has come back")
            self._release()
            if self._progress.can_commit:
                self._commit()
        self._is_changing = False  # there is no next round
        self._release()
        self._is_over = True
        for rank, request in self._members.rejoining.items():
            self._answer_moved(rank, request)
        self._report()

    def statistics(self) -> dict[str, int]:
        """Counters by reason, of the cold path, the fall-back path and the drains."""
        return {
            **self.counters,
            **self._hot_stats.counts(),
            "kv_rejected": self._kv.rejected.total(),
            "escaped_gradients": self._gathering.escaped,
        }

    def _report(self) -> None:
        """Tell the controller how the job stands."""
        self._appeals.report(self._tally.standing(self.round, self._gathering.escaped))

    def _round_of(self, tag: int) -> int | None:
        """The open round that a tag names, None for any other tag."""
        epoch, round_ = split_tag(tag, self._incarnation.round)
        is_open = epoch == self._incarnation.epoch and round_ in self._gathering
        return round_ if is_open else None

    # -- incarnations -----------------------------------------------------------------------

    def _begin(self, incarnation: Incarnation) -> None:
        """Open the rounds anew in another epoch: nothing that has come for them counts any more."""
        self._incarnation = incarnation
        self._progress.restart()
        for rank in self._plain.ranks:
            self._progress.leave(rank)
        self._replies.enter(incarnation)
        self._waiting.clear()
        self._gathering.begin(self.round, incarnation.fraction_bits)
        aggregator_of = self._gathering.aggregator_of
        self._hot = HotPath(self._job, incarnation, aggregator_of, self._transport, self._hot_stats)
        self._hot.close(self.round - 1)

    def _take_news(self) -> None:
        """Begin the controller's newest incarnation, or note that another placement waits."""
        news = self._incarnations.news()
        if news is None:
            return
        if is_newer(news.epoch, self._incarnation.epoch):
            self._move(news)
        elif news.planned and news.epoch == self._incarnation.epoch:
            self._change_is_due = True

    def _move(self, incarnation: Incarnation) -> None:
        # News of a placement that waits for the epoch behind this one comes with it, not by itself.
        self._change_is_due, self._is_changing = incarnation.planned, False
        self.counters["incarnations"] += 1
        waiting = {rank: each.request for rank, each in self._waiting.items()}
        waiting |= self._members.rejoining
        self._members.rejoining.clear()
        self._begin(replace(incarnation, round=self.round))
        _LOG.info("round %d is open in epoch %d", self.round, incarnation.epoch)
        for rank, request in waiting.items():
            self._answer_moved(rank, request)

    def _renew(self, reason: str) -> None:
        self._appeals.renew(reason, self._incarnation, self.round)

    def _suspect(self, reason: str) -> None:
        self._appeals.suspect(reason, self._incarnation, self.round)

    # -- what comes in ----------------------------------------------------------------------

    def _receive(self) -> None:
        for _ in range(TURN_BATCHES):
            if not len(received := self._transport.receive()):
                return
            self._hot.take(received, np.ones(len(received), np.bool_), self.round)

    def _on_data(self, request: KVMeta, pairs: KVPairs, server: KVServer) -> None:
        rank = self._members.rank_of(request.sender)
        is_worker, joined = rank != NO_RANK, self._members.has_joined(rank)
        fault = fault_of(request, pairs, self._job.num_keys, is_worker=is_worker, has_joined=joined)
        if fault is not None:
            self.counters[fault.counter] += 1
            server.refuse(request, fault.why)
        elif request.push and is_plain(request):
            self._on_plain(rank, request, pairs, server)
        elif request.push:
            self._on_push(rank, request, pairs, server)
        else:
            self._pulls.take(request, pairs.keys, self.round)

    def _on_plain(self, rank: int, request: KVMeta, pairs: KVPairs, server: KVServer) -> None:
        """A push of a worker that has not joined, and speaks ps-lite alone."""
        self._plain.apply(rank, pairs)
        self._progress.leave(rank)
        self.counters["plain_keys"] += len(pairs.keys)
        values = self.parameters[pairs.keys.astype(np.int64)] if request.pull else None
        server.response(request, None if values is None else KVPairs(pairs.keys, values))

    def _on_push(self, rank: int, request: KVMeta, pairs: KVPairs, server: KVServer) -> None:
        """Add a push into an open round, once for each worker and step (its priority).

        Another one is not answered: its sender asks how things stand, and pushes again.
        """
        round_ = self._round_of(request.cmd & 0xFFFFFFFF)
        if round_ is None or request.priority < self._progress.committed[rank]:
            self.counters["stale_push"] += 1
        elif self._gathering.has_push(round_, rank, request.priority):
            self.counters["repeated_push"] += 1
            server.response(request)
        else:
            self._gathering.add_push(round_, rank, request.priority, pairs)
            self.counters["cold_keys"] += len(pairs.keys)
            server.response(request)

    def _on_simple(self, request: SimpleRequest, app: SimpleApp) -> None:
        rank = self._members.rank_of(request.sender)
        try:
            message = Request.decode(request.body)
            head = Head(request.head)
            if rank == NO_RANK:
                raise BadInput(f"node {request.sender} is no worker of the job")
            epoch, round_ = split_tag(message.tag, self._incarnation.round)
            if head is Head.JOIN:
                self._on_join(rank, message.tag, request)
            elif epoch == self._incarnation.epoch:
                self._on_current(rank, round_, head, Asking(request, message))
            else:
                self._answer_moved(rank, request)
        except (ValueError, BadInput):
            self.counters["bad_request"] += 1

    def _on_join(self, rank: int, process: int, request: SimpleRequest) -> None:
        """Let a worker's process in, or let it wait for another epoch (see `Members`).

        One whose rank has pushed without a tag waits too: rounds wait for it from there on. When
        all rounds are committed it pushes nothing, and is told so.
        """
        is_in_rounds = not self._plain.forget(rank)
        if (self._members.is_settled(rank, process) and is_in_rounds) or self._is_over:
            self._answer_moved(rank, request)
        else:
            self.counters["rejoined"] += self._members.hold(rank, process, request)

    def _on_current(self, rank: int, round_: int, head: Head, asking: Asking) -> None:
        """DONE, STATUS or STALLED of this epoch."""
        message, progress = asking.message, self._progress
        complete = message.step < progress.steps[rank]
        ends = message.final and not progress.is_final(rank)
        if complete and not progress.is_waiting(rank) and not ends:
            self._answer_go(rank, asking)
        elif head is Head.DONE:
            rows = rows_of(message.rows, self._incarnation.placement.used_rows)
            progress.complete(rank, round_, message.step, time.monotonic(), final=message.final)
            if not complete:
                self._gathering[round_].complete(rank, rows, message)
            self._waiting[rank] = asking
        else:
            if head is Head.STALLED:
                self._suspect(f"packets of worker {rank} are not acknowledged")
            known = Known.PUSH if complete else Known.NOTHING
            if complete and not ends:
                known |= Known.DONE
            if self._gathering.has_push(round_, rank, message.step):
                known |= Known.PUSH
            self._kv.simple_response(asking.request, self._replies.stay(rank, message, known))

    def _release(self) -> None:
        """Let those go on who may; nobody while another incarnation is to begin."""
        if self._is_changing:
            self._renew("another placement" if self._change_is_due else "its tags are used up")
            return
        for rank in self._progress.release(time.monotonic()):
            self._answer_go(rank, self._waiting.pop(rank))

    def _answer_go(self, rank: int, asking: Asking) -> None:
        self._kv.simple_response(asking.request, self._replies.go(rank, asking.message))

    def _answer_moved(self, rank: int, request: SimpleRequest) -> None:
        asked = Request.decode(request.body)
        self._kv.simple_response(request, self._replies.moved(rank, asked))

    # -- closing a round --------------------------------------------------------------------

    def _commit(self) -> None:
        self._on_phase("drain", self.round)
        watch, phases = self._watch, self._phases
        watch.lap(phases, "gather")
        closing, pushed_in = self.round, self._incarnation
        rows = self._gathering.rows(closing)
        try:
            finished = self._hot.drain(closing, rows, self._while_draining)
        except _Abandoned:
            return
        finally:
            watch.lap(phases, "drain")
        aggregate = self._gathering.sums(closing, finished)
        self._pulls.keep(aggregate.keys)
        self._optimizer.apply(self.parameters, aggregate.keys.astype(np.uint64), aggregate.sums)
        self._on_phase("update", self.round)
        watch.lap(phases, "apply")
        moved = self._plain.with_touched(aggregate.keys)
        changed = self._hot.send_updates(closing, moved, self.parameters)
        self._close(changed)
        watch.lap(phases, "update")
        self._phases = Phases()
        commit = Commit(
            closing,
            pushed_in.epoch,
            phases,
            len(rows),
            len(changed),
            len(aggregate.keys),
            tuple(self._progress.committed),
            pushed_in.fraction_bits,
        )
        # Workers that have heard of the last commit leave, and push nothing again.
        is_last = self._progress.has_ended or self.round == self._rounds
        records_first = self._records_first or is_last
        if records_first:
            self._on_commit(commit, self.parameters, aggregate)
        self._release()
        self._pulls.release(self.round)
        if not records_first:
            self._on_commit(commit, self.parameters, aggregate)
        if self._appeals.report_is_due:
            self._report()

    def _close(self, changed: IntArray) -> None:
        """Go to the next round, in another incarnation if a placement waits or tags are used up."""
        self._progress.commit()
        self._tally.commit(self._gathering.close(self.round - 1))
        self._replies.commit(changed)
        self._is_changing = self._change_is_due or self.round % TAG_ROUNDS == 0

    def _while_draining(self, stalled_s: float) -> None:
        """Called by a drain that waits: raises `_Abandoned` when the round moves."""
        self._node.process()
        epoch = self._incarnation.epoch
        self._take_news()
        if self._incarnation.epoch != epoch:
            raise _Abandoned
        if self._members.rejoining:
            self._renew("a worker has come back")
        elif stalled_s > SUSPECT_S:
            self._suspect("it does not answer a drain")
