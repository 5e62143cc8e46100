"""A worker's side of a round: hot gradients through the switch, cold ones to the server."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import zmq

from host_stack.codec import Codec, fill_header
from host_stack.control import Answer, Head, Kind, Known, Request, bitmap_of, rows_of
from host_stack.errors import PushFailed
from host_stack.fixedpoint import FloatArray, IntArray
from host_stack.incarnation import Incarnation, Moved
from host_stack.inquiry import Inquiry, read_answer
from host_stack.job import Job
from host_stack.kv.ids import server_id
from host_stack.kv.message import KVPairs
from host_stack.kv.node import Node
from host_stack.kv.worker import KVWorker
from host_stack.layout import as_cmd, make_tag
from host_stack.packing import Packing
from host_stack.placement import Keys, Placement
from host_stack.push import HotPush
from host_stack.transport import Transport, ipv4
from host_stack.updates import Updates
from host_stack.wire import Op

POLL_S = 0.1
UPDATE_GRACE_S = 0.05
"""How long an UPDATE may be overtaken by the server's answer before its row is fetched."""

RECONNECT_S = 3.0
"""How long a JOIN may stay unanswered before its connection is made anew."""


@dataclass(frozen=True)
class RoundTimes:
    """Seconds of a round's phases at one worker, and how its keys travelled.

    Attributes:
        push_s: until every gradient is acknowledged.
        commit_s: until the server has committed the round.
        update_s: until the parameters of the next round are here.
        hot_keys, cold_keys, packets: of this push.
        fetched_rows: rows whose UPDATE was missed.
        replays: how often the round was pushed again in another epoch.
    """

    push_s: float
    commit_s: float
    update_s: float
    hot_keys: int
    cold_keys: int
    packets: int
    fetched_rows: int
    replays: int


OnPushed = Callable[[int, Keys, FloatArray], None]


@dataclass(frozen=True)
class _Push:
    """A round's gradients, kept until its commit: uint64[n] sorted keys, float32[n]."""

    keys: Keys
    gradients: FloatArray


class Worker:
    """Pushes gradients and keeps the parameters that the next batch needs.

    `parameters` is float32[num_keys]; the hot keys are always current in it, of the cold ones
    those that were asked for with the last `fetch` or `push_round`.
    """

    def __init__(
        self,
        job: Job,
        rank: int,
        transport: Transport,
        node: Node,
        on_pushed: OnPushed = lambda tag, keys, gradients: None,
    ) -> None:
        """Attach to a ps-lite node; `rank` is the position of this host in `job.workers`.

        `on_pushed` is told the tag, keys and gradients of a push when all of it is acknowledged
        and before the server hears so.
        """
        job.worker_address(rank)  # refuses a rank that the job does not have
        self.parameters = np.zeros(job.num_keys, np.float32)
        self.counters: Counter[str] = Counter()
        self.is_current = False
        self._job = job
        self._rank = rank
        self._transport = transport
        self._node = node
        self._on_pushed = on_pushed
        self._codec = Codec(job.layout)
        self._kv = KVWorker(node)
        self._inquiry = Inquiry(self._kv, self.counters)
        self._poller = zmq.Poller()
        self.hot = HotPush(transport, ipv4(job.server), job.layout.window)
        empty = np.zeros(0, np.int64)
        nothing = Placement(empty.astype(np.uint64), empty, empty, job.layout)
        self._take_over(Incarnation(job.epoch, 0, job.fraction_bits, 0, nothing))

    @property
    def incarnation(self) -> Incarnation:
        """The one that this worker pushes in."""
        return self._incarnation

    def start(self) -> int:
        """Join the job, with the node started; return the round to begin with.

        Raises:
            PushFailed: the server does not answer.
        """
        for source in (self._node.socket, self._transport.fileno()):
            self._poller.register(source, zmq.POLLIN)
        process = Request(int.from_bytes(os.urandom(4), "big") | 1, self._incarnation.version)
        deadline = time.monotonic() + self._job.timeouts_s["commit"]
        reconnect_at = time.monotonic() + RECONNECT_S
        while (answer := self._inquiry.poll(Head.JOIN, process, np.inf)) is None:
            self._receive()
            if time.monotonic() > deadline:
                raise self._silent("answer a JOIN")
            if time.monotonic() > reconnect_at:
                reconnect_at += RECONNECT_S
                self._node.reconnect(server_id(0))
        self._adopt(self._decode(answer))
        return self._incarnation.round

    def fetch(self, keys: Keys, round_: int) -> None:
        """Get all hot keys and the cold keys among uint64[n] `keys`, as `round_` begins.

        Raises:
            Moved: another round is open.
            PushFailed: the server does not answer.
        """
        while True:
            hot, _ = self._placement.find(keys)
            wanted = np.union1d(self._placement.keys, keys[~hot])
            try:
                self._pull(wanted, round_)
            except Moved as moved:
                self._adopt(moved.incarnation)
                if moved.round != round_:
                    raise
                continue
            self.is_current = True
            return

    def push_round(
        self, round_: int, keys: Keys, gradients: FloatArray, next_keys: Keys
    ) -> RoundTimes:
        """Push one round, in as many epochs as it takes, and wait for its commit.

        Args:
            round_: number of the round, from 0.
            keys: uint64[n], sorted and unique.
            gradients: float32[n], any values.
            next_keys: uint64[m], sorted and unique: what the next batch needs. Unless
                `is_current` is true afterwards, they have to be fetched.

        Raises:
            Moved: the server goes on at an earlier round.
            PushFailed: nothing moves any more, and nobody says why.
        """
        push = _Push(keys, gradients)
        replays = 0
        while True:
            try:
                times = self._attempt(round_, push, next_keys)
                return replace(times, replays=replays)
            except Moved as moved:
                self._adopt(moved.incarnation)
                if moved.round == round_ + 1:  # committed, but the answer was lost
                    self.is_current = False
                    return RoundTimes(0.0, 0.0, 0.0, 0, 0, 0, 0, replays)
                if moved.round != round_:
                    raise
                replays += 1

    # -- one attempt ------------------------------------------------------------------------

    def _attempt(self, round_: int, push: _Push, next_keys: Keys) -> RoundTimes:
        started = time.monotonic()
        tag = make_tag(self._incarnation.epoch, round_)
        self._updates.expect(tag)
        hot, index = self._placement.find(push.keys)
        cold = _Push(push.keys[~hot], push.gradients[~hot])
        pushed_cold = self._push_cold(cold, tag)
        packing = self._placement.pack(index)
        rows = self._push_hot(packing, push.gradients[hot], tag)
        self._await_push(pushed_cold, cold, tag)
        self._on_pushed(tag, push.keys, push.gradients)
        pushed = time.monotonic()
        pulled = self._pull_cold(next_keys, round_ + 1)
        answer = self._await_commit(tag, rows)
        committed = time.monotonic()
        changed = rows_of(answer.rows, self._placement.used_rows)
        fetched = self._complete_rows(changed, round_ + 1)
        self._finish(answer, pulled, next_keys, round_ + 1)
        return RoundTimes(
            pushed - started,
            committed - pushed,
            time.monotonic() - committed,
            len(index),
            len(push.keys) - len(index),
            packing.count,
            fetched,
            0,
        )

    def _push_cold(self, cold: _Push, tag: int) -> int:
        return self._kv.push(cold.keys, cold.gradients, cmd=as_cmd(tag))

    def _push_hot(self, packing: Packing, gradients: FloatArray, tag: int) -> IntArray:
        """Push packed gradients; return the rows in which the switch now holds something."""
        if not packing.count:
            return np.zeros(0, np.int64)
        grads = self._codec.encode_grads(
            packing.packets, packing.lanes, packing.rows, gradients, packing.count
        )
        fill_header(grads["header"], Op.GRAD, job=self._job.job, worker=self._rank, tag=tag)
        status = Request(tag, self._incarnation.version)
        self._inquiry.cancel()

        def look_up(stalled_s: float) -> None:
            self._node.process()
            answer = self._inquiry.poll(Head.STALLED, status, stalled_s)
            if answer is not None:
                self._refuse_moved(answer)

        by_server = self.hot.run(grads, self._job.timeouts_s["push"], look_up)
        return np.unique(packing.rows[~by_server[packing.packets]])

    def _await_push(self, timestamp: int, cold: _Push, tag: int) -> None:
        """Wait until the cold push is acknowledged; send it again if the server lacks it."""
        sent = [timestamp]

        def resend(answer: Answer) -> bool:
            if not answer.known & Known.PUSH:
                sent.append(self._push_cold(cold, tag))
            return bool(answer.known & Known.PUSH)

        self._until(tag, lambda: any(map(self._kv.done, sent)), resend, "take a push")
        for each in sent:
            self._kv.forget(each)

    def _await_commit(self, tag: int, rows: IntArray) -> Answer:
        """Say DONE, again if the server lacks it, and wait for the commit."""
        bitmap = bitmap_of(rows, self._placement.used_rows)
        done = Request(tag, self._incarnation.version, bitmap).encode()
        sent = [self._kv.request(Head.DONE, done, server_id(0))]
        answers: list[Answer] = []

        def answered() -> bool:
            for timestamp in [each for each in sent if self._kv.done(each)]:
                sent.remove(timestamp)
                if (answer := read_answer(self._kv, timestamp, self.counters)) is not None:
                    self._refuse_moved(answer)
                    answers.append(answer)
            return bool(answers)

        def resend(answer: Answer) -> bool:
            if answer.kind is Kind.COMMITTED:
                answers.append(answer)
            elif not answer.known & Known.DONE:
                sent.append(self._kv.request(Head.DONE, done, server_id(0)))
            return bool(answers)

        self._until(tag, answered, resend, "commit the round (is a worker gone or stopped?)")
        for each in sent:
            self._kv.forget(each)
        return answers[0]

    def _finish(self, answer: Answer, pulled: int | None, next_keys: Keys, round_: int) -> None:
        """Enter `round_` with its parameters, or in another incarnation without them."""
        self.is_current = not answer.incarnation
        if answer.incarnation:
            self._adopt(self._decode(answer))
            if pulled is not None:
                self._kv.forget(pulled)
        elif pulled is not None:
            self._await_pull(pulled, self._cold_of(next_keys), round_)

    # -- parameters -------------------------------------------------------------------------

    def _cold_of(self, keys: Keys) -> Keys:
        hot, _ = self._placement.find(keys)
        return keys[~hot]

    def _pull_cold(self, keys: Keys, round_: int) -> int | None:
        cold = self._cold_of(keys)
        return self._kv.pull(cold, cmd=round_) if len(cold) else None

    def _pull(self, keys: Keys, round_: int) -> None:
        """Get values of uint64[n] keys as they are when `round_` begins."""
        if len(keys):
            self._await_pull(self._kv.pull(keys, cmd=round_), keys, round_)

    def _await_pull(self, timestamp: int, keys: Keys, round_: int) -> None:
        """Wait for a pull that is due; the answers of a server keep the order of the questions.

        So a pull without an answer is lost when a later question has been answered.
        """
        sent = [timestamp]

        def resend(answer: Answer) -> bool:
            del answer
            sent.append(self._kv.pull(keys, cmd=round_))
            return False

        tag = make_tag(self._incarnation.epoch, round_)
        self._until(tag, lambda: any(map(self._kv.done, sent)), resend, "answer a pull")
        for each in sent:
            if self._kv.done(each):
                pairs = self._kv.wait(each, 0.0)
                if pairs is not None:
                    self._store(pairs)
            self._kv.forget(each)

    def _store(self, pairs: KVPairs) -> None:
        self.parameters[pairs.keys.astype(np.int64)] = pairs.vals

    def _complete_rows(self, changed: IntArray, round_: int) -> int:
        """Wait shortly for UPDATEs that are still on their way, then fetch what is missing."""
        deadline = time.monotonic() + UPDATE_GRACE_S
        while len(missing := self._updates.missing(changed)):
            if (left := deadline - time.monotonic()) <= 0:
                break
            self._receive(left)
        if len(missing):
            in_missing = np.isin(self._placement.rows, missing)
            self._pull(np.sort(self._placement.keys[in_missing]), round_)
        return len(missing)

    # -- waiting and incarnations -----------------------------------------------------------

    def _receive(self, timeout_s: float = POLL_S) -> None:
        """Take what comes within a time, at least what is there."""
        self._poller.poll(math.ceil(timeout_s * 1000))
        self._node.process()
        received = self._transport.receive()
        while len(received):
            self._updates.take(received)
            received = self._transport.receive()

    def _until(
        self,
        tag: int,
        condition: Callable[[], bool],
        resend: Callable[[Answer], bool],
        what: str,
    ) -> None:
        """Receive until a condition holds, and ask the server how things stand when it is late.

        `resend` is given each answer; where it returns true, the wait is over too.
        """
        started = time.monotonic()
        status = Request(tag, self._incarnation.version)
        self._inquiry.cancel()
        while not condition():
            self._receive()
            waited_s = time.monotonic() - started
            answer = self._inquiry.poll(Head.STATUS, status, waited_s)
            if answer is not None:
                self._refuse_moved(answer)
                if not condition() and resend(answer):
                    return
            if waited_s > self._job.timeouts_s["commit"]:
                raise self._silent(what)

    def _refuse_moved(self, answer: Answer) -> None:
        """Raise `Moved` if the answer says so."""
        if answer.kind is Kind.MOVED:
            raise Moved(self._decode(answer))

    def _decode(self, answer: Answer) -> Incarnation:
        known = self._incarnation
        return Incarnation.decode(answer.incarnation, known.version, known.placement)

    def _adopt(self, incarnation: Incarnation) -> None:
        """Go on in another incarnation; what was received of the old one stays."""
        self._inquiry.cancel()
        if incarnation.version != self._incarnation.version:
            self.is_current = False
        self._take_over(incarnation)

    def _take_over(self, incarnation: Incarnation) -> None:
        self._incarnation = incarnation
        self._placement = incarnation.placement
        self._updates = Updates(self._job, self._codec, self._placement, self.parameters)

    def _silent(self, what: str) -> PushFailed:
        return PushFailed(
            f"the server at {self._job.server} did not {what} within "
            f"{self._job.timeouts_s['commit']:g} s; check that it and all workers run"
        )
