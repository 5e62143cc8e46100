"""A worker's side of a round: hot gradients through the switch, cold ones to the server."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

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
from host_stack.layout import as_cmd, make_tag, split_tag
from host_stack.packing import Packing
from host_stack.placement import Keys, Placement
from host_stack.pulls import BEFORE_COMMIT
from host_stack.push import HotPush
from host_stack.stopwatch import Phases, Stopwatch
from host_stack.transport import Transport, ipv4
from host_stack.updates import Updates
from host_stack.wire import Op

_LOG = logging.getLogger(__name__)

UPDATE_GRACE_S = 0.05
"""How long an UPDATE may be overtaken by the server's answer before its row is fetched."""

NOTHING: Keys = np.zeros(0, np.uint64)
NO_GRADIENTS: FloatArray = np.zeros(0, np.float32)
MAX_STEP = 0xFFFFFFFF
"""In a STATUS: a step that was not pushed."""


@dataclass
class RoundTimes:
    """Seconds of a step's phases at one worker, and how its keys travelled.

    Attributes:
        phases: `push`, until every gradient is acknowledged; `commit`, until the server lets the
            worker go on, under BSP until the commit; `update`, until the parameters of the next
            step are here.
        hot_keys, cold_keys, packets: of this push.
        fetched_rows: rows whose UPDATE was missed.
        replays: how often steps were pushed again in another epoch.
    """

    phases: Phases = field(default_factory=Phases)
    hot_keys: int = 0
    cold_keys: int = 0
    packets: int = 0
    fetched_rows: int = 0
    replays: int = 0


OnPushed = Callable[[int, int, Keys, FloatArray], None]


@dataclass(frozen=True)
class _Step:
    """A step's gradients, kept until its commit: uint64[n] sorted keys, float32[n]."""

    number: int
    keys: Keys
    gradients: FloatArray
    final: bool = False


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
        self._uncommitted: list[_Step] = []
        self._pushed = 0
        self._round = 0
        self._committed = 0
        self._in_switch = np.zeros(0, np.bool_)
        self._codec = Codec(job.layout)
        self._kv = KVWorker(node)
        self._dialogue = Dialogue(job, node, self._kv, transport, self.counters)
        self.hot = HotPush(transport, ipv4(job.server), job.layout.window)
        empty = np.zeros(0, np.int64)
        nothing = Placement(empty.astype(np.uint64), empty, empty, job.layout)
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
        hot, _ = self._placement.find(keys)
        wanted = np.union1d(self._placement.keys, keys[~hot])
        expected = self._committed
        try:
            self._pull(wanted, expected)
        except Moved as moved:
            self._adopt(moved)
            raise
        self._updates.fetched(np.arange(self._placement.used_rows), expected - 1)
        self.is_current = self._is_complete = True

    def pull(self, keys: Keys) -> None:
        """Get the cold keys among uint64[n] `keys`, sorted and unique, as they are now.

        The hot ones are there while `is_current`. Under BSP, between two steps.

        Raises:
            Moved: the server goes on at another step, or in another incarnation.
            PushFailed: the server does not answer.
        """
        try:
            self._pull(self._cold_of(keys), self._committed)
        except Moved as moved:
            self._adopt(moved)
            raise

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
            self._pull(keys, BEFORE_COMMIT | self._committed)
        except KVRefused as refused:
            raise ServersApart(str(refused)) from refused
        except Moved as moved:
            self._adopt(moved)
            raise

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
        self._uncommitted.append(_Step(step, keys, gradients))
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
                    while self._pushed < len(self._uncommitted):
                        self._attempt(self._uncommitted[self._pushed], next_keys, times, watch)
                    if ends:
                        self._await_go(_Step(step, NOTHING, NO_GRADIENTS, final=True), self._tag)
                    return
                except Moved as moved:
                    self._adopt(moved)
                    times.replays += bool(self._uncommitted)
                    if not self._uncommitted and moved.steps <= step:
                        raise

    def _attempt(self, step: _Step, next_keys: Keys, times: RoundTimes, watch: Stopwatch) -> None:
        self.is_current = False
        tag = self._tag
        hot, index = self._placement.find(step.keys)
        cold = _Step(step.number, step.keys[~hot], step.gradients[~hot])
        pushed_cold = self._push_cold(cold, tag)
        packing = self._placement.pack(index)
        self._push_hot(packing, step.gradients[hot], self._request(step, tag))
        self._await_push(pushed_cold, cold, tag)
        self._on_pushed(tag, step.number, step.keys, step.gradients)
        watch.lap(times.phases, "push")
        pulled = self._pull_cold(next_keys, self._round + 1) if self._in_step else None
        answer = self._await_go(step, tag)
        watch.lap(times.phases, "commit")
        changed = self._go(answer)
        if not self._in_step:
            pulled = self._pull_cold(next_keys, 0)
        if changed is not None:
            times.fetched_rows += self._complete_rows(changed)
        if pulled is not None:
            self._await_pull(pulled, self._cold_of(next_keys), self._committed)
        self._is_complete = self._is_complete and changed is not None
        self.is_current = self._is_complete
        watch.lap(times.phases, "update")
        times.hot_keys, times.cold_keys = len(index), len(step.keys) - len(index)
        times.packets = packing.count

    @property
    def _tag(self) -> int:
        return make_tag(self._incarnation.epoch, self._round)

    def _request(self, step: _Step, tag: int) -> Request:
        version = self._incarnation.version
        return Request(tag, version, step.number, self._committed, step.final)

    def _push_cold(self, cold: _Step, tag: int) -> int:
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

    def _await_push(self, timestamp: int, cold: _Step, tag: int) -> None:
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

    def _await_go(self, step: _Step, tag: int) -> Answer:
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
        self._pushed += 1
        self._drop_committed(answer.steps)
        _, round_ = split_tag(answer.tag)
        if round_ != self._round:
            self._round = round_
            self._in_switch[:] = False
        known, self._committed = self._committed, answer.committed
        changed = answer.changed(self._placement.used_rows)
        if len(changed) != answer.committed - known:
            return None
        return dict(enumerate(changed, known))

    def _drop_committed(self, steps: int) -> None:
        """Forget the steps below `steps`, which are committed."""
        done = sum(step.number < steps for step in self._uncommitted)
        del self._uncommitted[:done]
        self._pushed = max(0, self._pushed - done)

    # -- parameters -------------------------------------------------------------------------

    def _cold_of(self, keys: Keys) -> Keys:
        hot, _ = self._placement.find(keys)
        return keys[~hot]

    def _pull_cold(self, keys: Keys, committed: int) -> int | None:
        cold = self._cold_of(keys)
        return self._kv.pull(cold, cmd=committed) if len(cold) else None

    def _pull(self, keys: Keys, cmd: int) -> None:
        """Get values of uint64[n] keys: `cmd` says as of which round, see `Pulls`."""
        if len(keys):
            self._await_pull(self._kv.pull(keys, cmd=cmd), keys, cmd)

    def _await_pull(self, timestamp: int, keys: Keys, cmd: int) -> None:
        """Wait for a pull that is due; the answers of a server keep the order of the questions.

        So a pull without an answer is lost when a later question has been answered.
        """
        sent = [timestamp]

        def resend(answer: Answer) -> bool:
            del answer
            sent.append(self._kv.pull(keys, cmd=cmd))
            return False

        status = Request(self._tag, self._incarnation.version, MAX_STEP, self._committed)
        with self._dialogue.forgetting(sent):
            self._dialogue.until(
                status, lambda: any(map(self._kv.done, sent)), resend, "answer a pull"
            )
            pairs = next(self._kv.wait(each, 0.0) for each in sent if self._kv.done(each))
        self.parameters[pairs.keys.astype(np.int64)] = pairs.vals

    def _complete_rows(self, changed: dict[int, IntArray]) -> int:
        """Wait shortly for UPDATEs that are still on their way, then fetch what is missing.

        `changed` has the rows of each round, int64[n].
        """
        deadline = time.monotonic() + UPDATE_GRACE_S
        while len(missing := self._missing(changed)):
            if (left := deadline - time.monotonic()) <= 0:
                break
            self._dialogue.receive(left)
        if len(missing):
            in_missing = np.isin(self._placement.rows, missing)
            self._pull(np.sort(self._placement.keys[in_missing]), self._committed)
            self._updates.fetched(missing, self._committed - 1)
        return len(missing)

    def _missing(self, changed: dict[int, IntArray]) -> IntArray:
        missing = [self._updates.missing(rows, round_) for round_, rows in changed.items()]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *missing]))

    # -- incarnations -----------------------------------------------------------------------

    def _adopt(self, moved: Moved) -> None:
        """Go on in another incarnation, behind the steps that are committed.

        Where the server lacks steps that were committed once, nothing is left to push.
        """
        first = self._uncommitted[0].number if self._uncommitted else moved.steps
        _LOG.info("%s", moved, extra={"fields": {"job": self._job.job}})
        if (
            moved.incarnation.version != self._incarnation.version  # keys that were cold are hot
            or moved.steps != first
            or moved.committed != self._committed
        ):
            # Not even the round that is pushed again brings values that were missed: until they
            # are fetched.
            self.is_current = self._is_complete = False
        if moved.steps < first:
            self._uncommitted.clear()
        self._pushed = 0
        self._drop_committed(moved.steps)
        self._committed = moved.committed
        self._take_over(moved.incarnation)

    def _take_over(self, incarnation: Incarnation) -> None:
        self._incarnation = incarnation
        self._placement = incarnation.placement
        self._round = incarnation.round
        self._in_switch = np.zeros(self._placement.used_rows, np.bool_)
        self._updates = Updates(
            self._job, self._codec, incarnation, self._committed, self.parameters
        )
        self._dialogue.enter(incarnation, self._updates)
