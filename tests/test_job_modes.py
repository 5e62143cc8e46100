"""Stale-synchronous and asynchronous jobs in memory: what was pushed is what was applied."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_stack.aggregator import SoftwareAggregator
from host_stack.audit.check import audit
from host_stack.audit.log import CommitLog, PushLog
from host_stack.commit import Aggregate, Commit
from host_stack.control import Answer, Head, Request
from host_stack.fixedpoint import FloatArray, IntArray
from host_stack.kv.node import Node
from host_stack.kv.wire import Meta
from host_stack.layout import TAG_ROUNDS, make_tag
from host_stack.placement import Keys
from host_stack.progress import BSP, Consistency
from host_stack.replica import Replica
from host_stack.worker import Worker
from tests.job_in_memory import SERVER, MemoryJob, addresses, random_pushes
from tests.memory_network import Crashed, Faults
from tests.test_job import NUM_KEYS, F, direct

WORKERS = 3
STEPS = 8
HOT = 700
RULES = {
    "ssp-1": Consistency(1),
    "ssp-3": Consistency(3, close_steps=4),
    "async-count": Consistency(None, close_steps=3),
    "async-each": Consistency(None, close_steps=1),
    "async-time": Consistency(None, close_s=0.002),
}


def job_of(rule: Consistency, seed: int, faults: Faults | None = None) -> MemoryJob:
    """A job in which some gradients escape."""
    pushes = random_pushes(WORKERS, STEPS, NUM_KEYS, 400, seed=seed, wild=0.01)
    return MemoryJob(pushes, NUM_KEYS, HOT, direct(WORKERS, faults), F, consistency=rule)


def check_audit(job: MemoryJob, folder: Path) -> None:
    """What the auditor says of the job's records: nothing is wrong."""
    logs = [PushLog(folder, rank) for rank in range(WORKERS)]
    server = CommitLog(folder)
    for record in job.records:
        logs[record.rank].record(record.tag, record.step, record.keys, record.gradients)
    for commit, applied in zip(job.commits, job.applied, strict=True):
        tag, keys = make_tag(commit.epoch, commit.round), applied.keys.astype(np.uint64)
        server.record(tag, commit.steps, commit.fraction_bits, keys, applied.sums)
    found = audit(folder, [STEPS] * WORKERS)
    assert found.conserved, found.problems
    assert found.steps == WORKERS * STEPS


def check_conserved(job: MemoryJob) -> None:
    """Each commit is the sum of the steps in it, bit for bit, and each step is in one commit."""
    last: dict[int, int] = {}
    for at, commit in enumerate(job.commits):  # it replaces those that a server lost
        last = {round_: where for round_, where in last.items() if round_ < commit.round}
        last[commit.round] = at
    committed: list[tuple[int, int]] = []
    for round_, at in sorted(last.items()):
        tag = make_tag(job.commits[at].epoch, round_)
        plain = SoftwareAggregator(NUM_KEYS, F)
        for record in (each for each in job.records if each.tag == tag):
            keys = record.keys.astype(np.int64)
            orders = np.full(len(keys), record.step, np.int64)
            plain.add(record.rank, keys, record.gradients, orders)
            committed.append((record.rank, record.step))
        keys, sums = plain.take()
        assert job.applied[at].keys.tolist() == keys.tolist()
        assert job.applied[at].sums.tobytes() == sums.tobytes()
    assert sorted(committed) == [(rank, step) for rank in range(WORKERS) for step in range(STEPS)]
    assert job.commits[-1].steps == (STEPS,) * WORKERS


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_what_was_pushed_was_applied(rule: Consistency) -> None:
    """In every mode, on a network with faults."""
    job = job_of(rule, 31, Faults(loss=0.03, duplication=0.03, reordering=0.03, seed=4))
    job.run()
    check_conserved(job)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("calls", [4, 13])
def test_deaths_keep_the_sums(rule: Consistency, calls: int) -> None:
    """Server and worker die and come back; what they had not committed is pushed once more."""
    job = job_of(rule, 32)
    job.crash(SERVER, calls)
    job.crash(addresses(WORKERS)[1], calls + 2)
    job.run()
    check_conserved(job)
    assert sum(job.outcome.crashes.values()) == 2


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("calls", [None, 9])
def test_an_epoch_ends_before_its_tags_do(rule: Consistency, calls: int | None) -> None:
    """Nobody runs ahead into a round that the tags of the epoch cannot name."""
    job = job_of(rule, 34, Faults(loss=0.03, duplication=0.03, reordering=0.03, seed=5))
    job.begin_at(TAG_ROUNDS - 2)
    if calls is not None:
        job.crash(SERVER, calls)
        job.crash(addresses(WORKERS)[1], calls + 2)
    job.run()
    check_conserved(job)
    epochs = {commit.round: commit.epoch for commit in job.commits}
    assert epochs[TAG_ROUNDS - 1] != epochs[TAG_ROUNDS]


def test_workers_run_ahead() -> None:
    """Asynchronous workers share rounds unevenly: some round has two steps of one worker."""
    job = job_of(Consistency(None, close_steps=4), 33)
    job.run()
    check_conserved(job)
    assert len(job.commits) < WORKERS * STEPS


@pytest.mark.parametrize("rule", [BSP, *RULES.values()], ids=["bsp", *RULES])
def test_the_scale_changes(rule: Consistency, tmp_path: Path) -> None:
    """Another F in the middle of the training, and a death soon after: all of it is accounted for.

    Nothing is lost that is under way at the other scale.
    """
    job = job_of(rule, 34)

    def change(commit: Commit) -> None:
        if commit.round == 0 and job.controller.incarnation.fraction_bits == F:
            job.controller.move(2, fraction_bits=F - 12)
            job.crash(addresses(WORKERS)[2], 3)

    job.after_commit(change)
    job.run()
    assert {commit.fraction_bits for commit in job.commits} == {F, F - 12}
    check_audit(job, tmp_path)


class LostAtTheEnd(MemoryJob):
    """The server dies when it has let all workers go: after some of them have left, or none."""

    leaving = WORKERS

    def before_the_server_leaves(self, node: Node) -> None:
        """Once."""
        if not self.outcome.crashes[SERVER]:
            deadline = time.monotonic() + 30
            while len(self.outcome.replicas) < self.leaving and time.monotonic() < deadline:
                node.process()
            raise Crashed


class LostBeforeTheEnd(LostAtTheEnd):
    """What it said is not waited for."""

    leaving = 0


class LostBeforeTheRecord(MemoryJob):
    """The server dies as it begins to record the commit that has the last steps."""

    def _committed(self, commit: Commit, parameters: FloatArray, aggregate: Aggregate) -> None:
        if min(commit.steps) == STEPS and not self.outcome.crashes[SERVER]:
            raise Crashed
        super()._committed(commit, parameters, aggregate)


@pytest.mark.parametrize("kind", [LostAtTheEnd, LostBeforeTheEnd, LostBeforeTheRecord])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_server_dies_behind_the_last_commit(
    rule: Consistency, every: int, kind: type[MemoryJob]
) -> None:
    """It comes back to workers that have ended, and does not wait for them to say so again."""
    pushes = random_pushes(WORKERS, STEPS, NUM_KEYS, 400, seed=35)
    network = direct(WORKERS, None)
    job = kind(pushes, NUM_KEYS, HOT, network, F, consistency=rule, checkpoint_every=every)
    job.run()
    check_conserved(job)
    assert job.outcome.crashes[SERVER] == 1


class MovesWhileFetching(MemoryJob):
    """The job moves while a worker waits for the changed rows of a commit, with steps behind it.

    Its next step is noted, with whether the worker takes its rows for current ones.
    """

    moved: Replica | None = None
    found_current: bool | None = None

    def complete(self, replica: Replica, changed: dict[int, IntArray], status: Request) -> None:
        """Move once; the worker asks how things stand, as it does when a pull is lost."""
        if self.moved is None and any(map(len, changed.values())):
            self.moved = replica
            self.controller.move(status.committed)

            def go_on_waiting(answer: Answer) -> bool:
                return False

            replica._dialogue.until(status, lambda: False, go_on_waiting, "answer a pull")

    def _step(self, worker: Worker, rank: int, step: int) -> None:
        if self.moved is worker._replica and self.found_current is None:
            self.found_current = worker.is_current
        super()._step(worker, rank, step)


def test_rows_that_a_move_kept_from_coming_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps that are pushed again bring no rows of commits before them."""
    pushes = random_pushes(WORKERS, STEPS, NUM_KEYS, 400, seed=36)
    rule = RULES["async-count"]
    job = MovesWhileFetching(pushes, NUM_KEYS, HOT, direct(WORKERS, None), F, consistency=rule)
    complete = Replica.complete

    def moves_before(replica: Replica, changed: dict[int, IntArray], status: Request) -> int:
        job.complete(replica, changed, status)
        return complete(replica, changed, status)

    monkeypatch.setattr(Replica, "complete", moves_before)
    job.run()
    check_conserved(job)
    assert job.found_current is False


class MovesBeforeAStep(MemoryJob):
    """The job moves while a worker fetches parameters, with a step behind it that is no commit's.

    Whoever is the first to begin its second step.
    """

    moving: Replica | None = None
    has_moved = False

    def move(self, replica: Replica, status: Request) -> None:
        """Move once; the worker asks how things stand, as it does when a pull is lost."""
        if replica is not self.moving or self.has_moved:
            return
        self.has_moved = True
        self.controller.move(status.committed)
        replica._dialogue.until(status, lambda: False, lambda _answer: False, "answer a pull")

    def _step(self, worker: Worker, rank: int, step: int) -> None:
        with self._lock:
            if step == 1 and self.moving is None:
                self.moving, worker.is_current = worker._replica, False
        super()._step(worker, rank, step)


def test_steps_behind_a_fetch_are_not_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are pushed again when the job moves, once."""
    pushes = random_pushes(WORKERS, STEPS, NUM_KEYS, 400, seed=37)
    rule = Consistency(None, close_steps=WORKERS * STEPS)
    job = MovesBeforeAStep(pushes, NUM_KEYS, HOT, direct(WORKERS, None), F, consistency=rule)
    fetch = Replica.fetch

    def moves_before(replica: Replica, keys: Keys, status: Request) -> None:
        job.move(replica, status)
        fetch(replica, keys, status)

    monkeypatch.setattr(Replica, "fetch", moves_before)
    job.run()
    assert job.has_moved
    check_conserved(job)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_end_that_is_lost_is_said_again(
    rule: Consistency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server knows of the last step, and not that it is the last one."""
    job = job_of(rule, 38)
    lost: list[int] = []
    send = Node.send

    def loses(node: Node, peer: int, meta: Meta, arrays: Any = (), block: bool = True) -> None:
        is_done = meta.request and meta.simple_app and meta.head == Head.DONE
        if is_done and Request.decode(meta.body).final and not lost:
            lost.append(meta.timestamp)
        else:
            send(node, peer, meta, arrays, block)

    monkeypatch.setattr(Node, "send", loses)
    job.run()
    assert lost
    check_conserved(job)
