"""Jobs with several servers in memory: the sums are those of one server, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host_stack.commit import Commit
from host_stack.errors import ServersApart
from host_stack.hot_kv import HotKVWorker
from host_stack.sharded import ShardedWorker
from host_stack.worker import Worker
from tests.job_in_memory import Push, random_pushes
from tests.memory_network import Faults
from tests.shards_in_memory import ShardsInMemory, server_of
from tests.test_hot_kv import KEYS, OTHERS, alternating
from tests.test_job import NUM_KEYS, expected

PUSHING = 5
"""Calls of a transport after which a worker is in its first push."""


def models_after(pushes: list[list[Push]]) -> list[np.ndarray]:
    """The model before each round and after the last, computed without any network."""
    return [expected(pushes[:rounds]) for rounds in range(len(pushes) + 1)]


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


@pytest.mark.parametrize("calls", [1, 5, 9, 14, 20])
@pytest.mark.parametrize("shard", [0, 1])
def test_a_worker_that_comes_back_between_two_commits(
    shard: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its round is committed at one server and not at the other: each counts it once.

    What it computes from is what the round has found, also where that is overwritten already.
    """
    pushes = random_pushes(2, 4, NUM_KEYS, 900, seed=7)
    models = models_after(pushes)
    job = ShardsInMemory(pushes, NUM_KEYS, 2000, 2)
    wrong: list[tuple[int, int]] = []

    def seen(rank: int, step: int, keys: np.ndarray, values: np.ndarray) -> None:
        if values.tobytes() != models[step][keys.astype(np.int64)].tobytes():
            wrong.append((rank, step))

    past: list[int] = []
    fetch_before = Worker.fetch_before

    def noted(worker: Worker, keys: np.ndarray) -> None:
        past.append(worker.job)
        fetch_before(worker, keys)

    monkeypatch.setattr(Worker, "fetch_before", noted)
    job.seen = seen  # type: ignore[method-assign]
    job.jobs[shard].crash("127.0.1.3", calls)
    assert job.run().tobytes() == models[-1].tobytes()
    assert job.crashes[1] == 1
    assert wrong == []
    # The harness lets the other shard finish its round, unless the worker dies before its push.
    assert set(past) <= {2 - shard}
    assert past or calls < PUSHING


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
