"""A job in memory whose workers run programs of `KVWorker`, for tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from host_stack.connect import worker_node
from host_stack.hot_kv import HotKVWorker
from host_stack.job import Job
from host_stack.kv import (
    KVConfig,
    KVWorker,
    Node,
    Role,
)
from host_stack.placement import Placement
from host_stack.worker import Worker
from tests.job_in_memory import MemoryJob
from tests.kv_jobs import LIMIT_S
from tests.memory_network import Faults, MemoryNetwork
from tests.test_job import F, direct

NUM_KEYS = 60
KEYS = np.array([0, 1, 5, 40], np.uint64)
OTHERS = np.array([1, 2, 40, 59], np.uint64)
ONES = np.ones(4, np.float32)

Program = Callable[[HotKVWorker | KVWorker], None]


class KVJob(MemoryJob):
    """A job whose workers run programs of `KVWorker`; the model is the sum of all gradients."""

    def __init__(
        self,
        programs: list[Program | None],
        hot: int,
        faults: Faults | None = None,
        network_of: Callable[[Job, Placement], MemoryNetwork] | None = None,
    ) -> None:
        nothing = np.zeros(0, np.uint64), np.zeros(0, np.float32)
        workers = len(programs)
        network_of = network_of or direct(workers, faults)
        super().__init__([[nothing] * workers], NUM_KEYS, hot, network_of, F)
        self._programs = programs
        self.rounds = None

    def _work(self, rank: int) -> bool:
        program = self._programs[rank]
        if program is None:
            return self._plain(rank)
        address = self.job.workers[rank]
        node = worker_node(self.job, address)
        worker = HotKVWorker(Worker(self.job, rank, self.network.transport(address), node))
        node.start()
        assert worker.start() == 0
        program(worker)
        worker.end()
        node.finalize()
        return True

    def _plain(self, rank: int) -> bool:
        """A worker that knows nothing of jobs."""
        host, port = self.job.scheduler
        node = Node(
            KVConfig(Role.WORKER, host, port, len(self._programs), 1, self.job.workers[rank])
        )
        node.start()
        worker = KVWorker(node)
        for step in range(20):
            worker.wait(worker.push(KEYS, ONES))
            assert worker.wait(worker.pull(KEYS)).vals[3] >= step + 1
        assert worker.wait(worker.push_pull(KEYS, ONES)).vals[3] >= 21
        node.finalize(LIMIT_S)
        return True


def alternating(worker: HotKVWorker | KVWorker) -> None:
    """Push and pull in turns: every pull sees the pushes before it."""
    out = np.zeros(4, np.float32)
    for step in range(1, 6):
        first = worker.push(KEYS, ONES)
        second = worker.push(OTHERS, ONES)
        worker.wait(worker.pull(KEYS, out))
        assert worker.done(first)
        assert worker.done(second)
        assert (out >= step * np.array([1, 2, 1, 2])).all()
