"""Jobs in memory whose processes die: the model keeps its bits."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from host_stack.commit import Aggregate, Commit
from host_stack.fixedpoint import FloatArray
from host_stack.layout import TAG_ROUNDS
from host_stack.placement import heat_based
from host_stack.worker import Worker
from tests.job_in_memory import SERVER, MemoryJob, addresses, random_pushes
from tests.memory_network import Crashed, Faults
from tests.test_job import NUM_KEYS, F, direct, expected

WORKERS = 3
HOT = 700
ROUNDS = 6


def job_of(seed: int, faults: Faults | None = None) -> MemoryJob:
    """A job of a few rounds without a switch."""
    pushes = random_pushes(WORKERS, ROUNDS, NUM_KEYS, 900, seed=seed)
    return MemoryJob(pushes, NUM_KEYS, HOT, direct(WORKERS, faults), F)


def check(job: MemoryJob) -> None:
    """Run, and compare the model and what the workers hold with the reference."""
    outcome = job.run()
    assert outcome.parameters.tobytes() == expected(job.pushes).tobytes()
    for replica in outcome.replicas:
        assert replica.tobytes() == outcome.parameters[:HOT].tobytes()


@pytest.mark.parametrize("calls", [1, 2, 5, 9, 14, 20])
def test_a_worker_dies(calls: int) -> None:
    """A worker that dies anywhere joins again, in another epoch, and nothing is counted twice."""
    job = job_of(seed=21)
    job.crash(addresses(WORKERS)[1], calls)
    check(job)
    assert job.outcome.crashes[addresses(WORKERS)[1]] == 1
    assert job.outcome.counters["rejoined"] <= 1


@pytest.mark.parametrize("calls", [1, 2, 5, 9, 14, 20])
def test_the_server_dies(calls: int) -> None:
    """A server that dies anywhere goes on at its checkpoint, and its workers with it."""
    job = job_of(seed=22)
    job.crash(SERVER, calls)
    check(job)
    assert job.outcome.crashes[SERVER] == 1


class DiesAtTheEnd(MemoryJob):
    """A job whose second worker dies when it has made its last step."""

    def _train(self, worker: Worker, rank: int) -> None:
        super()._train(worker, rank)
        address = self.job.workers[rank]
        if rank == 1 and not self.outcome.crashes[address]:
            raise Crashed(address)


def test_a_worker_dies_behind_the_last_commit() -> None:
    """Its next process is told that there is nothing left to do, and leaves with the others."""
    pushes = random_pushes(WORKERS, ROUNDS, NUM_KEYS, 900, seed=27)
    job = DiesAtTheEnd(pushes, NUM_KEYS, HOT, direct(WORKERS), F)
    outcome = job.run()
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    assert outcome.crashes.total() == 1
    assert len(outcome.replicas) == WORKERS


class LosesTheLastCommit(MemoryJob):
    """A job whose server dies as it begins to record the last commit."""

    def _committed(self, commit: Commit, parameters: FloatArray, aggregate: Aggregate) -> None:
        if commit.round == ROUNDS - 1 and not self.outcome.crashes[SERVER]:
            raise Crashed(SERVER)
        super()._committed(commit, parameters, aggregate)


def test_the_server_dies_before_it_has_recorded_the_last_commit() -> None:
    """Nobody has heard of it, so all are there to push the lost rounds again."""
    pushes = random_pushes(WORKERS, ROUNDS, NUM_KEYS, 900, seed=28)
    job = LosesTheLastCommit(pushes, NUM_KEYS, HOT, direct(WORKERS), F)
    outcome = job.run()
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    assert outcome.crashes.total() == 1


@pytest.mark.parametrize("calls", [3, 11, 19])
def test_server_and_worker_die_together(calls: int) -> None:
    """Two deaths in one round, on a network with faults."""
    job = job_of(seed=23, faults=Faults(loss=0.03, duplication=0.03, reordering=0.03, seed=3))
    job.crash(SERVER, calls)
    job.crash(addresses(WORKERS)[2], calls + 1)
    check(job)
    assert sum(job.outcome.crashes.values()) == 2


def test_the_hot_set_changes_between_rounds() -> None:
    """A placement that waits begins between two rounds, and no round is pushed twice for it."""
    job = job_of(seed=24)
    hotter = heat_based(np.arange(300, 1500, dtype=np.uint64), job.job.layout)

    def change(commit: object) -> None:
        if commit.round == 2:  # type: ignore[attr-defined]
            job.controller.plan(placement=hotter, version=2)

    job.after_commit(change)
    outcome = job.run()
    assert outcome.parameters.tobytes() == expected(job.pushes).tobytes()
    assert outcome.counters["incarnations"] == 1
    assert {times.replays for worker in outcome.times for times in worker} == {0}
    assert [commit.epoch for commit in job.commits] == [1, 1, 1, 1, 2, 2]


def test_a_placement_that_is_told_of_with_an_epoch_begins() -> None:
    """An epoch, and a placement for the one behind it, come as one item of news."""
    job = job_of(seed=27)
    hotter = heat_based(np.arange(300, 1500, dtype=np.uint64), job.job.layout)

    def change(commit: Commit) -> None:
        if commit.round == 2 and job.controller.incarnation.epoch == 1:
            job.controller.move(3)
            job.controller.plan(placement=hotter, version=2)

    job.after_commit(change)
    outcome = job.run()
    assert outcome.parameters.tobytes() == expected(job.pushes).tobytes()
    assert job.controller.incarnation.version == 2
    assert [commit.epoch for commit in job.commits] == [1, 1, 1, 2, 3, 3]


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("calls", [None, 9])
def test_keys_that_become_hot_are_fetched(planned: bool, calls: int | None) -> None:
    """Also where the open round is pushed again under the new placement."""
    pushes = random_pushes(WORKERS, ROUNDS, NUM_KEYS, 900, seed=25)
    job = MemoryJob(
        pushes,
        NUM_KEYS,
        HOT,
        direct(WORKERS),
        F,
        place=lambda keys, layout: heat_based(keys[HOT // 2 :], layout),
    )
    if calls is not None:
        job.crash(addresses(WORKERS)[1], calls)
    hotter = heat_based(np.arange(HOT, dtype=np.uint64), job.job.layout)

    def change(commit: Commit) -> None:
        if commit.round == 2 and job.controller.incarnation.version == 1:
            begin = job.controller.plan if planned else partial(job.controller.move, 3)
            begin(placement=hotter, version=2)

    job.after_commit(change)
    check(job)
    assert job.controller.incarnation.version == 2


@pytest.mark.parametrize("round_", [ROUNDS - 2, ROUNDS - 1])
def test_a_change_may_come_too_late(round_: int) -> None:
    """One that is announced at the end keeps nobody from ending."""
    job = job_of(seed=26)
    hotter = heat_based(np.arange(300, 1500, dtype=np.uint64), job.job.layout)

    def change(commit: Commit) -> None:
        if commit.round == round_:
            job.controller.plan(placement=hotter, version=2)

    job.after_commit(change)
    outcome = job.run()
    assert outcome.parameters.tobytes() == expected(job.pushes).tobytes()


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("calls", [None, 9])
def test_an_epoch_ends_before_its_tags_do(before: int, calls: int | None) -> None:
    """Rounds go on where a tag has no bits left for them, whoever dies about there."""
    job = job_of(seed=28)
    first = TAG_ROUNDS - before
    job.begin_at(first)
    if calls is not None:
        job.crash(addresses(WORKERS)[1], calls)
        job.crash(SERVER, calls)
    check(job)
    assert [commit.round for commit in job.commits] == list(range(first, first + ROUNDS))
    epochs = {commit.round: commit.epoch for commit in job.commits}
    assert epochs[TAG_ROUNDS - 1] != epochs[TAG_ROUNDS]
