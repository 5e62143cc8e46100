"""Workers that speak ps-lite alone in a job beside those whose hot keys travel apart."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bench.kv import compile_pslite
from host_stack.connect import worker_node
from host_stack.hot_kv import HotKVWorker
from host_stack.kv import (
    KVConfig,
    KVRefused,
    KVWorker,
    Node,
    Role,
)
from host_stack.worker import Worker
from tests.hot_kv_job import KEYS, NUM_KEYS, ONES, KVJob, alternating
from tests.kv_cpp import needs_pslite
from tests.kv_jobs import LIMIT_S


def test_plain_workers_take_the_cold_path_for_all_keys() -> None:
    """Their pushes count at once, and the hot values of the others follow."""
    seen: list[float] = []

    def program(worker: HotKVWorker | KVWorker) -> None:
        for _ in range(5):
            worker.wait(worker.push(KEYS, ONES))
            seen.append(float(worker.wait(worker.pull(KEYS)).vals[0]))

    job = KVJob([program, None], 30)
    job.run()
    assert job.outcome.parameters[KEYS.astype(int)].tolist() == [26] * 4
    assert 0 < job.outcome.counters["plain_keys"] <= 21 * 4
    assert seen == sorted(seen)


def test_rounds_wait_for_a_plain_worker_that_joins() -> None:
    """From its JOIN on, in an epoch of its own; what it pushed before stays."""

    class Joins(KVJob):
        def _plain(self, rank: int) -> bool:
            address = self.job.workers[rank]
            node = worker_node(self.job, address)
            worker = Worker(self.job, rank, self.network.transport(address), node)
            node.start()
            first = KVWorker(node, customer_id=1)
            first.wait(first.push(KEYS, ONES))
            hot = HotKVWorker(worker)
            assert hot.start() == 0
            for _ in range(3):
                hot.wait(hot.push(KEYS, ONES))
            hot.end()
            node.finalize()
            return True

    def program(worker: HotKVWorker | KVWorker) -> None:
        for _ in range(3):
            worker.wait(worker.push(KEYS, ONES))

    job = Joins([program, None], 30)
    job.run()
    assert job.outcome.parameters[KEYS.astype(int)].tolist() == [7] * 4


@pytest.fixture(scope="module")
def plain_worker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worker of the C++ library, compiled."""
    source = Path(__file__).with_name("plain_worker.cc")
    return compile_pslite(Path(os.environ["PSLITE_DIR"]), tmp_path_factory.mktemp("cpp"), source)


class CppJob(KVJob):
    """A job in which a program of the C++ library is one of two workers."""

    def __init__(self, program: Path, *arguments: str) -> None:
        super().__init__([alternating, None], 30)
        self._command = [str(program), *arguments]

    def run_cpp(self, rank: int) -> subprocess.CompletedProcess[str]:
        """Run the program to its end as the worker of a rank."""
        host, port = self.job.scheduler
        variables = {
            "DMLC_ROLE": "worker",
            "DMLC_PS_ROOT_URI": host,
            "DMLC_PS_ROOT_PORT": str(port),
            "DMLC_NODE_HOST": self.job.workers[rank],
            "DMLC_NUM_WORKER": "2",
            "DMLC_NUM_SERVER": "1",
        }
        return subprocess.run(
            self._command,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    def _plain(self, rank: int) -> bool:
        done = self.run_cpp(rank)
        assert done.returncode == 0, done.stderr
        return True


@needs_pslite
def test_a_cpp_worker_pushes_into_the_same_job(plain_worker: Path) -> None:
    """A program of the C++ library beside one whose hot keys travel apart."""
    job = CppJob(plain_worker)
    job.run()
    assert job.outcome.parameters[[0, 1, 2, 5, 40, 59]].tolist() == [25, 30, 5, 25, 30, 5]


@needs_pslite
def test_a_cpp_worker_ends_when_it_is_refused(plain_worker: Path) -> None:
    """Its own check fails, at once; nothing of that push counts, and another may take its place."""

    class Refused(CppJob):
        def _plain(self, rank: int) -> bool:
            done = self.run_cpp(rank)
            assert done.returncode == -signal.SIGABRT, done.stderr
            assert "Check failed" in done.stderr
            host, port = self.job.scheduler
            node = Node(KVConfig(Role.WORKER, host, port, 2, 1, self.job.workers[rank]))
            node.start()
            worker = KVWorker(node)
            worker.wait(worker.push(KEYS, ONES))
            node.finalize(LIMIT_S)
            return True

    job = Refused(plain_worker, str(NUM_KEYS))
    job.run()
    assert job.outcome.parameters[[0, 1, 2, 5, 40, 59]].tolist() == [26, 31, 5, 26, 31, 5]


def test_a_plain_worker_is_told_what_the_job_does_not_take() -> None:
    """It does not wait for an answer that never comes, and nothing of it counts."""
    beyond = np.array([1, NUM_KEYS], np.uint64)

    class Refused(KVJob):
        def _plain(self, rank: int) -> bool:
            host, port = self.job.scheduler
            node = Node(KVConfig(Role.WORKER, host, port, 2, 1, self.job.workers[rank]))
            node.start()
            worker = KVWorker(node)
            for request in (
                worker.push(beyond, ONES[:2]),
                worker.pull(beyond),
                worker.push_pull(beyond, ONES[:2]),
            ):
                with pytest.raises(KVRefused, match="key 60: the job has keys 0 to 59"):
                    worker.wait(request)
            with pytest.raises(KVRefused, match="8 values for 4 keys: in a job every key has one"):
                worker.wait(worker.push(KEYS, np.ones(8, np.float32)))
            with pytest.raises(KVRefused, match="a push with a tag pulls nothing"):
                worker.wait(worker.push_pull(KEYS, ONES, cmd=1 << 20))
            worker.wait(worker.push(KEYS, ONES))
            node.finalize(LIMIT_S)
            return True

    job = Refused([alternating, None], 30)
    job.run()
    assert job.outcome.parameters[KEYS.astype(int)].tolist() == [6, 11, 6, 11]
    assert job.outcome.counters["unknown_key"] == 3
    assert job.outcome.counters["bad_push"] == 2
