"""A worker's side of a round: hot gradients through the switch, cold ones to the server."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from host_stack.codec import Codec, fill_header
from host_stack.control import Answer, Head, Kind, Known, Request, bitmap_of
from host_stack.dialogue import Dialogue
from host_stack.errors import ServersApart
from host_stack.exponents import sample_exponents
from host_stack.fixedpoint import FloatArray, IntArray
from host_stack.incarnation import Incarnation, Moved
from host_stack.inquiry import read_answer
from host_stack.job import Job
from host_stack.kv.errors import KVRefused
from host_stack.kv.ids import server_id
from host_stack.kv.node import Node
from host_stack.kv.worker import KVWorker
from host_stack.layout import MAX_STEP, as_cmd, make_tag, split_tag
from host_stack.packing import Packing
from host_stack.placement import Keys, Placement
from host_stack.pulls import BEFORE_COMMIT
from host_stack.push import HotPush
from host_stack.replica import Replica
from host_stack.stopwatch import RoundTimes, Stopwatch
from host_stack.transport import Transport, ipv4
from host_stack.uncommitted import Step, Uncommitted
from host_stack.wire import Op

_LOG = logging.getLogger(__name__)

NOTHING: Keys = np.zeros(0, np.uint64)
NO_GRADIENTS: FloatArray = np.zeros(0, np.float32)
OnPushed = Callable[[int, int, Keys, FloatArray], None]
"""Gets the tag, the step, uint64[n] keys and float32[n] gradients of every push."""


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
        on_pushed: OnPushed = lambda tag, step, keys, gradients: None,
        *,
        in_step: bool = True,
        parameters: FloatArray | None = None,
    ) -> None:
        """Attach to a ps-lite node; `rank` is the position of this host in `job.workers`.

        `on_pushed` is told the tag, step, keys and gradients of a push when all of it is
        acknowledged and before the server hears so. With `in_step` (BSP) the parameters of the
        next step are those after the commit of this one; without, those that are there.
        `parameters`, float32[num_keys], is where to keep them.
        """
        job.worker_address(rank)  # refuses a rank that the job does not have
        if parameters is None:
            parameters = np.zeros(job.num_keys, np.float32)
        self.parameters = parameters
        self.counters: Counter[str] = Counter()
        self.is_current = False
        self._is_complete = False
        self._job = job
        self._rank = rank
        self._on_pushed = on_pushed
        self._in_step = in_step
        self._uncommitted = Uncommitted()
        self._round = 0
        self._committed = 0
        self._codec = Codec(job.layout)
        self.node = node
        """That it is attached to."""
        self._kv = KVWorker(node)
        self._dialogue = Dialogue(job, node, self._kv, transport, self.counters)
        self._replica = Replica(job, self._codec, self._kv, self._dialogue, parameters)
        window, take = job.layout.window, self._dialogue.take
        self.hot = HotPush(transport, ipv4(job.server), window, on_other=take)
        nothing = Placement.empty(job.layout)
        self._take_over(Incarnation(job.epoch, 0, job.fraction_bits, 0, nothing))

    @property
    def job(self) -> int:
        """The number of its job."""
        return self._job.job

    @property
    def round(self) -> int:
        """That its steps are pushed into."""
        return self._round

    @property
    def incarnation(self) -> Incarnation:
        """The one that this worker pushes in."""
        return self._incarnation

    @property
    def shards(self) -> Sequence[Worker]:
        """Of a job with one server: itself (`host_stack.sharded`)."""
        return (self,)

    @property
    def hot_keys(self) -> Keys:
        """uint64[n], those that are placed now, in any order."""
        return self._placement.keys

    def start(self) -> int:
        """Join the job, with the node started; return the step to begin with.

        Raises:
            PushFailed: the server does not answer.
        """
        process = int.from_bytes(os.urandom(4), "big") | 1
        moved = self._dialogue.join(Request(process, self._incarnation.version))
        self._adopt(moved)
        return moved.steps

    def fetch(self, keys: Keys) -> None:
        """Get all hot keys and the cold keys among uint64[n] `keys`, as they are now.

        Raises:
            Moved: the server goes on at another step.
            PushFailed: the server does not answer.
        """
        self._follow(lambda: self._replica.fetch(keys, self._status))
        self.is_current = self._is_complete = True

    def pull(self, keys: Keys) -> None:
        """Get the cold keys among uint64[n] `keys`, sorted and unique, as they are now.

        The hot ones are there while `is_current`. Under BSP, between two steps.

        Raises:
            Moved: the server goes on at another step, or in another incarnation.
            PushFailed: the server does not answer.
        """
        self._follow(
            lambda: self._replica.get(self._replica.cold_of(keys), self._committed, self._status)
        )

    def fetch_before(self, keys: Keys) -> None:
        """Get uint64[n] `keys`, sorted and unique, as the last committed round found them.

        For a step that another server lacks (`host_stack.sharded`); other keys are not current.

        Raises:
            Moved: as `pull`.
            ServersApart: the server does not know them any more.
            PushFailed: the server does not answer.
        """
        self.is_current = self._is_complete = False
        try:
            self._follow(
                lambda: self._replica.get(keys, BEFORE_COMMIT | self._committed, self._status)
            )
        except KVRefused as refused:
            raise ServersApart(str(refused)) from refused

    def push_round(
        self, step: int, keys: Keys, gradients: FloatArray, next_keys: Keys
    ) -> RoundTimes:
        """Push a step, in as many epochs as it takes, until the server lets this worker go on.

        Under BSP that is when the round is committed.

        Args:
            step: number of the step, from 0; under BSP that of the round.
            keys: uint64[n], sorted and unique.
            gradients: float32[n], any values.
            next_keys: uint64[m], sorted and unique: what the next batch needs. Unless
                `is_current` is true afterwards, they have to be fetched.

        Raises:
            Moved: the server goes on at an earlier step.
            PushFailed: nothing moves any more, and nobody says why.
        """
        self._uncommitted.append(Step(step, keys, gradients))
        times = RoundTimes()
        self._push_uncommitted(step, next_keys, times)
        return times

    def end(self, step: int) -> None:
        """Say that nothing comes behind `step`, and wait until the whole job has ended.

        Not needed under BSP.

        Raises:
            Moved: the server goes on at an earlier step.
            PushFailed: nothing moves any more, and nobody says why.
        """
        self._push_uncommitted(step, NOTHING, RoundTimes(), ends=True)

    def give_up(self) -> None:
        """Let a call that waits in another thread end, soon, with `PushFailed`."""
        self._dialogue.give_up()

    # -- one attempt ------------------------------------------------------------------------

    def _push_uncommitted(
        self, step: int, next_keys: Keys, times: RoundTimes, *, ends: bool = False
    ) -> None:
        """Push what is not committed up to `step`, again wherever the job moves.

        With `ends`, say then that nothing comes behind it. Raises `Moved` where the server lacks
        steps that this worker does not hold any more.
        """
        with Stopwatch() as watch:
            while True:
                try:
                    while (next_step := self._uncommitted.next) is not None:
                        self._attempt(next_step, next_keys, times, watch)
                    if ends:
                        self._await_go(Step(step, NOTHING, NO_GRADIENTS, final=True), self._tag)
                    return
                except Moved as moved:
                    self._adopt(moved)
                    times.replays += bool(self._uncommitted)
                    if not self._uncommitted and moved.steps <= step:
                        raise

    def _attempt(self, step: Step, next_keys: Keys, times: RoundTimes, watch: Stopwatch) -> None:
        self.is_current = False
        tag = self._tag
        hot, index = self._placement.find(step.keys)
        cold = Step(step.number, step.keys[~hot], step.gradients[~hot])
        pushed_cold = self._push_cold(cold, tag)
        packing = self._placement.pack(index)
        self._push_hot(packing, step.gradients[hot], self._request(step, tag))
        self._await_push(pushed_cold, cold, tag)
        self._on_pushed(tag, step.number, step.keys, step.gradients)
        watch.lap(times.phases, "push")
        pulled = self._replica.ask_cold(next_keys, self._round + 1) if self._in_step else None
        answer = self._await_go(step, tag)
        watch.lap(times.phases, "commit")
        changed = self._go(answer)
        if not self._in_step:
            pulled = self._replica.ask_cold(next_keys, 0)
        was_complete, self._is_complete = self._is_complete, False  # a move may come in between
        if changed is not None:
            times.fetched_rows += self._replica.complete(changed, self._status)
        if pulled is not None:
            cold_keys = self._replica.cold_of(next_keys)
            self._replica.wait(pulled, cold_keys, self._committed, self._status)
        self.is_current = self._is_complete = was_complete and changed is not None
        watch.lap(times.phases, "update")
        times.hot_keys, times.cold_keys = len(index), len(step.keys) - len(index)
        times.packets = packing.count

    @property
    def _tag(self) -> int:
        return make_tag(self._incarnation.epoch, self._round)

    @property
    def _status(self) -> Request:
        """What a pull that is late asks with."""
        return Request(self._tag, self._incarnation.version, MAX_STEP, self._committed)

    def _request(self, step: Step, tag: int) -> Request:
        version = self._incarnation.version
        return Request(tag, version, step.number, self._committed, step.final)

    def _push_cold(self, cold: Step, tag: int) -> int:
        return self._kv.push(cold.keys, cold.gradients, cmd=as_cmd(tag), priority=cold.number)

    def _push_hot(self, packing: Packing, gradients: FloatArray, status: Request) -> None:
        """Push packed gradients; note the rows in which the switch now holds something."""
        if not packing.count:
            return
        grads = self._codec.encode_grads(
            packing.packets, packing.lanes, packing.rows, gradients, packing.count
        )
        header = grads["header"]
        fill_header(header, Op.GRAD, job=self._job.job, worker=self._rank, tag=status.tag)
        look_up = self._dialogue.while_stalled(status)
        by_server = self.hot.run(grads, self._job.timeouts_s["push"], look_up)
        self._in_switch[packing.rows[~by_server[packing.packets]]] = True

    def _await_push(self, timestamp: int, cold: Step, tag: int) -> None:
        """Wait until the cold push is acknowledged; send it again if the server lacks it."""
        sent = [timestamp]

        def resend(answer: Answer) -> bool:
            if not answer.known & Known.PUSH:
                sent.append(self._push_cold(cold, tag))
            return bool(answer.known & Known.PUSH)

        status = self._request(cold, tag)
        with self._dialogue.forgetting(sent):
            self._dialogue.until(
                status, lambda: any(map(self._kv.done, sent)), resend, "take a push"
            )
            for done in filter(self._kv.done, sent):
                self._kv.wait(done, 0.0)

    def _await_go(self, step: Step, tag: int) -> Answer:
        """Say DONE, again if the server lacks it, and wait until it lets this worker go on."""
        rows = bitmap_of(np.flatnonzero(self._in_switch), self._placement.used_rows)
        status = self._request(step, tag)
        sampled = sample_exponents(step.gradients)
        done = replace(status, gradients=len(step.keys), sampled=sampled, rows=rows).encode()
        sent = [self._kv.request(Head.DONE, done, server_id(0))]
        answers: list[Answer] = []

        def answered() -> bool:
            for timestamp in [each for each in sent if self._kv.done(each)]:
                sent.remove(timestamp)
                if (answer := read_answer(self._kv, timestamp, self.counters)) is not None:
                    self._dialogue.refuse_moved(answer)
                    answers.append(answer)
            return bool(answers)

        def resend(answer: Answer) -> bool:
            if answer.kind is Kind.GO:
                answers.append(answer)
            elif not answer.known & Known.DONE:
                sent.append(self._kv.request(Head.DONE, done, server_id(0)))
            return bool(answers)

        with self._dialogue.forgetting(sent):
            self._dialogue.until(
                status, answered, resend, "let it go on (is a worker gone or stopped?)"
            )
        return answers[0]

    def _go(self, answer: Answer) -> dict[int, IntArray] | None:
        """Take over what the server says of commits.

        Returns:
            The rows that changed in each round since the last time, int64[n]; None if the server
            does not know them any more.
        """
        self._uncommitted.push()
        self._uncommitted.drop(answer.steps)
        _, round_ = split_tag(answer.tag, self._round)
        if round_ != self._round:
            self._round = round_
            self._in_switch[:] = False
        known, self._committed = self._committed, answer.committed
        changed = answer.changed(self._placement.used_rows)
        if len(changed) != answer.committed - known:
            return None
        return dict(enumerate(changed, known))

    # -- incarnations -----------------------------------------------------------------------

    def _follow(self, get: Callable[[], None]) -> None:
        """Get parameters, in another incarnation if the job moves meanwhile.

        Raises `Moved` unless steps are left to be pushed again: the next one still follows them.
        """
        while True:
            try:
                get()
                return
            except Moved as moved:
                self._adopt(moved)
                if not self._uncommitted:
                    raise

    def _adopt(self, moved: Moved) -> None:
        """Go on in another incarnation, behind the steps that are committed.

        Where the server lacks steps that were committed once, nothing is left to push.
        """
        first = self._uncommitted.first
        _LOG.info("%s", moved, extra={"fields": {"job": self._job.job}})
        if (
            moved.incarnation.version != self._incarnation.version  # keys that were cold are hot
            or first not in (None, moved.steps)
            or moved.committed != self._committed
        ):
            # Not even the round that is pushed again brings values that were missed: until they
            # are fetched.
            self.is_current = self._is_complete = False
        self._uncommitted.restart(moved.steps)
        self._committed = moved.committed
        self._take_over(moved.incarnation)

    def _take_over(self, incarnation: Incarnation) -> None:
        self._incarnation = incarnation
        self._placement = incarnation.placement
        self._round = incarnation.round
        self._in_switch = np.zeros(self._placement.used_rows, np.bool_)
        self._replica.enter(incarnation, self._committed)
