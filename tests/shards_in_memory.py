"""Run a job with several servers in memory: each shard with a network of its own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np

from host_stack.connect import worker_node
from host_stack.fixedpoint import FloatArray
from host_stack.incarnation import Moved
from host_stack.job import Job
from host_stack.placement import Placement
from host_stack.sharded import ShardedWorker
from host_stack.shards import Shards, shard_sizes
from host_stack.worker import Worker
from tests.job_in_memory import MemoryJob, Push, Record, addresses
from tests.memory_network import Crashed, Faults, MemoryNetwork


def server_of(shard: int) -> str:
    """The loopback address of a shard's server."""
    return f"127.0.1.{200 + shard}"


class ShardsInMemory:
    """A `MemoryJob` for each shard without its workers, and workers of all of them together.

    A worker whose transport to one shard crashes is started again when its other shards are done
    with the round: so that one has committed a round that the other one lacks.
    """

    def __init__(
        self,
        pushes: list[list[Push]],
        num_keys: int,
        hot: int,
        servers: int,
        faults: Faults | None = None,
        checkpoint_every: int = 2,
    ) -> None:
        """Prepare to run all rounds of `pushes`; the hot keys are 0…hot - 1."""
        self._pushes = pushes
        self._workers = len(pushes[0])
        self.jobs: list[MemoryJob] = []
        first = 0
        for shard, size in enumerate(shard_sizes(num_keys, servers)):
            self.jobs.append(
                MemoryJob(
                    pushes,
                    size,
                    min(max(hot - first, 0), size),
                    self.network_of(shard, faults),
                    at=lambda job, shard=shard: replace(
                        job,
                        job=1 + shard,
                        server=server_of(shard),
                        group=f"239.19.52.{2 + shard}",
                        scheduler=(server_of(shard), job.scheduler[1]),
                    ),
                    server=server_of(shard),
                    checkpoint_every=checkpoint_every,
                )
            )
            self.jobs[-1].rounds, self.jobs[-1].records_first = None, True
            first += size
        self.shards = Shards(tuple(job.job for job in self.jobs))
        self.crashes: Counter[int] = Counter()
        self._lock = threading.Lock()

    def network_of(
        self, shard: int, faults: Faults | None
    ) -> Callable[[Job, Placement], MemoryNetwork]:
        """What makes the network of a shard, without a switch; for tests to replace."""
        hosts = [server_of(shard), *addresses(self._workers)]
        ports = {address: port for port, address in enumerate(hosts, 1)}
        return lambda job, _: MemoryNetwork(ports, job.group, hosts[1:], faults=faults)

    def run(self, timeout_s: float = 120.0) -> FloatArray:
        """Run to the end; return the parameters of all shards."""
        with ThreadPoolExecutor(self._workers + 2 * len(self.jobs)) as pool:
            futures = [pool.submit(main) for job in self.jobs for main in _mains(job)]
            futures += [pool.submit(self._worker_main, rank) for rank in range(self._workers)]
            for future in as_completed(futures, timeout=timeout_s):
                if future.exception() is not None:
                    for job in self.jobs:
                        job.stop()
                future.result()
        return np.concatenate([job.outcome.parameters for job in self.jobs])

    def _worker_main(self, rank: int) -> None:
        while not self._work(rank):
            self.crashes[rank] += 1
            for job in self.jobs:
                job.network.restart_host(self.shards.worker_address(rank))

    def _work(self, rank: int) -> bool:
        """The life of a worker process; false if it crashed."""
        address = self.shards.worker_address(rank)
        parameters = np.zeros(self.shards.num_keys, np.float32)
        with ExitStack() as stack:
            nodes = [worker_node(job, address) for job in self.shards.jobs]
            for node in nodes:
                stack.callback(node.close)
            workers = [
                Worker(
                    memory.job,
                    rank,
                    memory.network.transport(address),
                    node,
                    lambda *push, shard=shard: self.pushed(shard, Record(rank, *push)),
                    parameters=parameters[self.shards.own(shard)],
                )
                for shard, (memory, node) in enumerate(zip(self.jobs, nodes, strict=True))
            ]
            front = stack.enter_context(closing(ShardedWorker(self.shards, parameters, workers)))
            try:
                for node in nodes:
                    node.start()
                self.train(front, rank)
            except Crashed:
                return False
            for node in nodes:
                node.finalize()
        return True

    def train(self, worker: ShardedWorker, rank: int) -> None:
        """What a worker does; for tests to replace."""
        step = worker.start()
        while step < len(self._pushes):
            try:
                keys, gradients = self._pushes[step][rank]
                if not worker.is_current:
                    worker.fetch(keys)
                self.seen(rank, step, keys, worker.parameters[keys.astype(np.int64)])
                after = self._pushes[(step + 1) % len(self._pushes)][rank][0]
                worker.push_round(step, keys, gradients, after)
                step += 1
            except Moved as moved:
                step, worker.is_current = moved.steps, False
        worker.end(step - 1)

    def pushed(self, shard: int, record: Record) -> None:
        """Called when a worker has pushed and not said so; for tests to replace."""
        self.jobs[shard].records.append(record)

    def seen(self, rank: int, step: int, keys: np.ndarray, values: FloatArray) -> None:
        """Called with what a worker makes its gradient of; for tests to replace."""


def _mains(job: MemoryJob) -> list[Callable[[], None]]:
    return [job.scheduler_main, job.server_main]
