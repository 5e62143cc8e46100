"""Run a whole job in memory for tests: workers and server in threads, any network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from controller.placing.pairs import pair_rows
from host_stack.connect import server_node, worker_node
from host_stack.fixedpoint import FloatArray
from host_stack.incarnation import Incarnation, OwnIncarnations
from host_stack.job import Job
from host_stack.kv.config import KVConfig
from host_stack.kv.ids import Role
from host_stack.kv.node import Node
from host_stack.layout import Layout
from host_stack.placement import Keys, Placement, heat_based
from host_stack.server import Server
from host_stack.worker import RoundTimes, Worker
from tests.memory_network import MemoryNetwork

LAYOUT = Layout(lanes=32, rows=8192, window=256, program=1)
SERVER = "127.0.1.1"
SWITCH = "127.0.1.254"
GROUP = "239.19.52.2"

Push = tuple[np.ndarray, FloatArray]


class Sum:
    """An optimiser whose model is the sum of all aggregates, so that no bit is lost on it."""

    def apply(self, params: FloatArray, keys: np.ndarray, gradient: FloatArray) -> None:
        """Add the gradient."""
        params[keys.astype(np.int64)] += gradient

    def state(self) -> dict[str, FloatArray]:
        """None."""
        return {}

    def load_state(self, state: object) -> None:
        """Nothing to take over."""


@dataclass
class Outcome:
    """What a job in memory came to."""

    parameters: FloatArray
    replicas: list[FloatArray]
    counters: dict[str, int]
    times: list[list[RoundTimes]]
    retransmissions: int


def addresses(workers: int) -> list[str]:
    """Loopback addresses of the workers."""
    return [f"127.0.1.{2 + rank}" for rank in range(workers)]


def ports(workers: int) -> dict[str, int]:
    """Switch ports: the server at 1, the workers behind it."""
    return {SERVER: 1} | {address: 2 + rank for rank, address in enumerate(addresses(workers))}


def make_job(workers: int, num_keys: int, fraction_bits: int, scheduler_port: int) -> Job:
    """A job on loopback addresses."""
    return Job(
        job=1,
        epoch=1,
        fraction_bits=fraction_bits,
        num_keys=num_keys,
        layout=LAYOUT,
        workers=tuple(addresses(workers)),
        server=SERVER,
        switch=SWITCH,
        group=GROUP,
        scheduler=(SERVER, scheduler_port),
    )


def two_cells(keys: Keys, layout: Layout) -> Placement:
    """A placement by heat in which half of the keys own a second cell."""
    placement = heat_based(keys, layout)
    return pair_rows(placement, placement.used_rows // 2)


def random_pushes(
    workers: int, rounds: int, num_keys: int, per_push: int, seed: int, wild: float = 0.0
) -> list[list[Push]]:
    """[round][worker] of (sorted unique keys, float32 gradients); a share of them escapes."""
    rng = np.random.default_rng(seed)
    pushes = []
    for _ in range(rounds):
        row = []
        for _ in range(workers):
            keys = np.sort(rng.choice(num_keys, per_push, replace=False)).astype(np.uint64)
            scale = 10.0 ** rng.uniform(-9, 0, per_push)
            values = (rng.standard_normal(per_push) * scale).astype(np.float32)
            values[rng.random(per_push) < wild] = np.float32(1e30)
            row.append((keys, values))
        pushes.append(row)
    return pushes


def run_job(
    pushes: list[list[Push]],
    num_keys: int,
    hot: int,
    network_of: Callable[[Job, Placement], MemoryNetwork],
    fraction_bits: int = 40,
    place: Callable[[Keys, Layout], Placement] = heat_based,
) -> Outcome:
    """Run all rounds of `pushes`; the hot keys are 0…hot - 1."""
    workers = len(pushes[0])
    scheduler = Node(
        KVConfig(Role.SCHEDULER, SERVER, 0, num_workers=workers, num_servers=1), threaded=True
    )
    job = make_job(workers, num_keys, fraction_bits, scheduler.bind())
    placement = place(np.arange(hot, dtype=np.uint64), job.layout)
    network = network_of(job, placement)
    parameters = np.zeros(num_keys, np.float32)
    outcome = Outcome(parameters, [], {}, [[] for _ in range(workers)], 0)
    lock = threading.Lock()

    def scheduler_main() -> None:
        scheduler.start()
        scheduler.finalize()

    def server_main() -> None:
        node = server_node(job, SERVER)
        server = Server(
            job,
            Incarnation(job.epoch, 0, fraction_bits, 1, placement),
            parameters,
            Sum(),
            network.transport(SERVER),
            node,
            OwnIncarnations(),
            lambda _commit, _parameters, _aggregate: None,
        )
        node.start()
        server.run(len(pushes))
        outcome.counters = server.statistics()
        node.finalize()

    def worker_main(rank: int) -> None:
        address = job.workers[rank]
        node = worker_node(job, address)
        worker = Worker(job, rank, network.transport(address), node)
        node.start()
        worker.fetch(pushes[0][rank][0], worker.start())
        for round_, row in enumerate(pushes):
            keys, gradients = row[rank]
            last = round_ + 1 == len(pushes)
            next_keys = keys[:0] if last else pushes[round_ + 1][rank][0]
            outcome.times[rank].append(worker.push_round(round_, keys, gradients, next_keys))
        with lock:
            outcome.replicas.append(worker.parameters[:hot].copy())
            outcome.retransmissions += worker.hot.stats.retransmissions
        node.finalize()

    with ThreadPoolExecutor(workers + 2) as pool:
        futures = [pool.submit(scheduler_main), pool.submit(server_main)]
        futures += [pool.submit(worker_main, rank) for rank in range(workers)]
        for future in as_completed(futures, timeout=120):
            if future.exception() is not None:
                scheduler.close()
            future.result()
    return outcome
