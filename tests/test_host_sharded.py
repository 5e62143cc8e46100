"""Jobs with several servers in memory: the sums are those of one server, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host_stack.commit import Commit
from host_stack.errors import ServersApart
from host_stack.hot_kv import HotKVWorker
from host_stack.sharded import ShardedWorker
from host_stack.worker import Worker
from tests.hot_kv_job import KEYS, OTHERS, alternating
from tests.job_in_memory import Push, Record, random_pushes
from tests.memory_network import Crashed, Faults
from tests.shards_in_memory import ShardsInMemory, server_of
from tests.test_job import NUM_KEYS, expected


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    servers=st.integers(1, 3),
    workers=st.integers(1, 3),
    per_push=st.integers(1, 400),
    hot=st.integers(0, NUM_KEYS),
    wild=st.sampled_from([0.0, 0.05]),
    seed=st.integers(0, 2**16),
)
def test_any_number_of_servers_has_the_bits_of_one(
    servers: int, workers: int, per_push: int, hot: int, wild: float, seed: int
) -> None:
    """Pushes that leave shards out, escapes, any hot set: the model is that of one server."""
    pushes = random_pushes(workers, 3, NUM_KEYS, per_push, seed=seed, wild=wild)
    parameters = ShardsInMemory(pushes, NUM_KEYS, hot, servers).run()
    assert parameters.tobytes() == expected(pushes).tobytes()


@pytest.mark.parametrize("servers", [2, 3])
def test_faulty_networks_keep_the_bits(servers: int) -> None:
    """Loss, duplication and reordering towards every server change nothing but the time."""
    faults = Faults(loss=0.05, duplication=0.05, reordering=0.05, seed=3)
    pushes = random_pushes(3, 3, NUM_KEYS, 900, seed=3)
    job = ShardsInMemory(pushes, NUM_KEYS, 2000, servers, faults)
    assert job.run().tobytes() == expected(pushes).tobytes()
    counters = [each.outcome.counters for each in job.jobs]
    assert sum(each.get("fallback_duplicate", 0) for each in counters) > 0


class Watched(ShardsInMemory):
    """Notes what workers make a gradient of that the round has not found."""

    def __init__(self, pushes: list[list[Push]], **options: int) -> None:
        super().__init__(pushes, NUM_KEYS, 2000, 2, **options)
        self.models = [expected(pushes[:rounds]) for rounds in range(len(pushes) + 1)]
        self.wrong: list[tuple[int, int]] = []

    def seen(self, rank: int, step: int, keys: np.ndarray, values: np.ndarray) -> None:
        """Compare with the model after so many rounds."""
        if values.tobytes() != self.models[step][keys.astype(np.int64)].tobytes():
            self.wrong.append((rank, step))


class DiesBetween(Watched):
    """Worker 1 dies when one shard has all of its round 1 and was not told so.

    The harness lets the other shard commit that round first.
    """

    def __init__(self, pushes: list[list[Push]], shard: int) -> None:
        super().__init__(pushes)
        self._shard = shard

    def pushed(self, shard: int, record: Record) -> None:
        """Die, once."""
        super().pushed(shard, record)
        if (shard, record.rank, record.step) == (self._shard, 1, 1) and not self.crashes:
            raise Crashed(str(record.rank))


@pytest.mark.parametrize("shard", [0, 1])
def test_a_worker_that_dies_between_two_commits(
    shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its round is committed at one server and not at the other: each counts it once.

    What it computes from again is what the round has found, which is overwritten already.
    """
    past: list[int] = []
    fetch_before = Worker.fetch_before

    def noted(worker: Worker, keys: np.ndarray) -> None:
        past.append(worker.job)
        fetch_before(worker, keys)

    monkeypatch.setattr(Worker, "fetch_before", noted)
    job = DiesBetween(random_pushes(2, 4, NUM_KEYS, 900, seed=7), shard)
    assert job.run().tobytes() == job.models[-1].tobytes()
    assert job.crashes[1] == 1
    assert job.wrong == []
    assert past == [2 - shard]
    for each in job.jobs:
        assert [commit.round for commit in each.commits] == [0, 1, 2, 3]


@pytest.mark.parametrize("calls", [1, 5, 9])
def test_a_worker_that_dies_at_any_time(calls: int) -> None:
    """Wherever its transport to one server was, before that server has ended."""
    job = Watched(random_pushes(2, 6, NUM_KEYS, 900, seed=7))
    job.jobs[1].crash("127.0.1.3", calls)
    assert job.run().tobytes() == job.models[-1].tobytes()
    assert job.crashes[1] == 1
    assert job.wrong == []


def test_a_server_that_comes_back_with_every_commit() -> None:
    """It has lost nothing that anybody knows of: the others wait for it and go on."""
    pushes = random_pushes(2, 5, NUM_KEYS, 900, seed=8)
    job = ShardsInMemory(pushes, NUM_KEYS, 2000, 2, checkpoint_every=1)
    job.jobs[1].crash(server_of(1), 40)
    assert job.run().tobytes() == expected(pushes).tobytes()
    assert job.jobs[1].outcome.crashes[server_of(1)] == 1


def test_a_server_that_has_lost_rounds_ends_the_job() -> None:
    """The other server has gone on: nothing is trained that would be wrong."""
    pushes = random_pushes(1, 6, NUM_KEYS, 900, seed=9)
    job = ShardsInMemory(pushes, NUM_KEYS, 2000, 2, checkpoint_every=4)

    def fail_after(commit: Commit) -> None:
        if commit.round == 2 and not job.jobs[1].outcome.crashes:
            job.jobs[1].crash(server_of(1), 1)

    job.jobs[1].after_commit(fail_after)
    with pytest.raises(ServersApart, match="has gone back to round 0, this worker is at 3"):
        job.run()


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_server_that_dies_around_its_last_record(is_recorded: bool) -> None:
    """Before it nobody has heard of the commit; behind it no step is left to wait for."""
    pushes = random_pushes(2, 3, NUM_KEYS, 900, seed=10)
    job = ShardsInMemory(pushes, NUM_KEYS, 2000, 2, checkpoint_every=1)
    second = job.jobs[1]
    record = second._committed

    def dies(commit: Commit, *more: Any) -> None:
        is_last = commit.round == 2 and not second.outcome.crashes
        if is_recorded or not is_last:
            record(commit, *more)
        if is_last:
            raise Crashed

    second._committed = dies  # type: ignore[method-assign]
    assert job.run().tobytes() == expected(pushes).tobytes()
    assert second.outcome.crashes.total() == 1


class KVShards(ShardsInMemory):
    """Workers that run a program of `KVWorker`."""

    def train(self, worker: ShardedWorker, rank: int) -> None:
        """Push and pull in turns."""
        kv = HotKVWorker(worker)
        assert kv.start() == 0
        alternating(kv)
        kv.end()


@pytest.mark.parametrize("hot", [0, 3, NUM_KEYS])
def test_a_program_of_kv_worker_runs_over_several_servers(hot: int) -> None:
    """The same one; sums are right, whichever keys are hot."""
    nothing = np.zeros(0, np.uint64), np.zeros(0, np.float32)
    parameters = KVShards([[nothing] * 2], NUM_KEYS, hot, 2, Faults(loss=0.05, seed=hot)).run()
    wanted = np.zeros(NUM_KEYS, np.float32)
    wanted[KEYS.astype(int)] += 10
    wanted[OTHERS.astype(int)] += 10
    assert parameters.tolist() == wanted.tolist()
