"""Run a whole job in memory for tests: workers and server in threads, any network."""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace

import numpy as np

from controller.placing.pairs import pair_rows
from controller.tables import Attachment, Membership
from host_stack.commit import Aggregate, Commit
from host_stack.connect import server_node, worker_node
from host_stack.fixedpoint import FloatArray
from host_stack.incarnation import Moved
from host_stack.job import Job
from host_stack.kv.config import KVConfig
from host_stack.kv.curve import JobKey
from host_stack.kv.ids import Role
from host_stack.kv.node import Node
from host_stack.layout import Layout
from host_stack.placement import Keys, Placement, heat_based
from host_stack.progress import BSP, Consistency
from host_stack.server import Server
from host_stack.stopwatch import RoundTimes
from host_stack.worker import Worker
from tests.memory_controller import MemoryController
from tests.memory_network import Crashed, MemoryNetwork

LAYOUT = Layout(lanes=32, rows=8192, window=256, program=1)
SERVER = "127.0.1.1"
SWITCH = "127.0.1.254"
GROUP = "239.19.52.2"
PATIENCE_S = dict.fromkeys(("push", "drain", "commit"), 120.0)
"""So that a busy machine is slow and not wrong."""

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
    crashes: Counter[str] = field(default_factory=Counter)


def addresses(workers: int) -> list[str]:
    """Loopback addresses of the workers."""
    return [f"127.0.1.{2 + rank}" for rank in range(workers)]


def ports(workers: int) -> dict[str, int]:
    """Switch ports: the server at 1, the workers behind it."""
    return {SERVER: 1} | {address: 2 + rank for rank, address in enumerate(addresses(workers))}


def make_job(
    workers: int,
    num_keys: int,
    fraction_bits: int,
    scheduler_port: int,
    layout: Layout = LAYOUT,
) -> Job:
    """A job on loopback addresses."""
    return Job(
        job=1,
        epoch=1,
        fraction_bits=fraction_bits,
        num_keys=num_keys,
        layout=layout,
        workers=tuple(addresses(workers)),
        server=SERVER,
        switch=SWITCH,
        group=GROUP,
        scheduler=(SERVER, scheduler_port),
        timeouts_s=PATIENCE_S,
    )


def membership_of(job: Job, slot: int, attachment: Callable[[str], Attachment]) -> Membership:
    """A job in memory as a switch is to hold it, with its hosts where `attachment` says."""
    return Membership(
        job=job.job,
        epoch=job.epoch,
        fraction_bits=job.fraction_bits,
        slot=slot,
        row_base=64,
        rows=64,
        workers=[attachment(worker) for worker in job.workers],
        server=attachment(SERVER),
        group=GROUP,
        group_id=1,
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


@dataclass(frozen=True)
class Record:
    """What a worker pushed as a whole in a tag, before the server heard that it is complete."""

    rank: int
    tag: int
    step: int
    keys: np.ndarray
    gradients: FloatArray


@dataclass(frozen=True)
class Read:
    """What a worker finds where it computes a step: float32[n] values of uint64[n] keys."""

    rank: int
    step: int
    keys: np.ndarray
    values: FloatArray


@dataclass
class Checkpoint:
    """What a server finds when it comes back."""

    round: int
    steps: tuple[int, ...]
    parameters: FloatArray


class MemoryJob:
    """The threads of a job; a crashed server or worker is started again.

    A thread crashes where its transport raises `Crashed`, and leaves everything behind as a
    killed process would.
    """

    def __init__(
        self,
        pushes: list[list[Push]],
        num_keys: int,
        hot: int,
        network_of: Callable[[Job, Placement], MemoryNetwork],
        fraction_bits: int = 40,
        install: Callable[[Job], None] | None = None,
        checkpoint_every: int = 2,
        place: Callable[[Keys, Layout], Placement] = heat_based,
        consistency: Consistency = BSP,
        layout: Layout = LAYOUT,
        at: Callable[[Job], Job] = lambda job: job,
        server: str = SERVER,
        key: JobKey | None = None,
    ) -> None:
        """Prepare to run all rounds of `pushes`; the hot keys are 0…hot - 1.

        `at` gives the job other hosts, with `server` among them, and the file of `key`.
        """
        self.pushes = pushes
        self.hot = hot
        self._workers = len(pushes[0])
        self.scheduler = Node(
            KVConfig(Role.SCHEDULER, server, 0, num_workers=self._workers, num_servers=1, key=key)
        )
        port = self.scheduler.bind()
        self.job = at(make_job(self._workers, num_keys, fraction_bits, port, layout))
        self._placement = place(np.arange(hot, dtype=np.uint64), self.job.layout)
        self.network = network_of(self.job, self._placement)
        self.controller = MemoryController(self.job, self._placement, install)
        self.controller.switch_is_dead = lambda: self.network.is_dead
        self._every = checkpoint_every
        self._first = 0
        self._saved = Checkpoint(0, (0,) * self._workers, np.zeros(num_keys, np.float32))
        self._on_commit: list[Callable[[Commit], None]] = []
        self._lock = threading.Lock()
        self._at_work: dict[int, Worker] = {}
        self._is_stopped = False
        self.commits: list[Commit] = []
        self.applied: list[Aggregate] = []
        self.records: list[Record] = []
        self.read: list[Read] = []
        self._consistency = consistency
        self.rounds = len(pushes) if consistency == BSP else None
        """After which the server ends; None: when the workers say so."""
        self.records_first = False
        """As of the `Server`."""
        self.outcome = Outcome(
            np.zeros(num_keys, np.float32), [], {}, [[] for _ in range(self._workers)], 0
        )

    def begin_at(self, round_: int) -> None:
        """Let the first step be in that round, as in a job that was trained before."""
        self._first = round_
        self._saved = replace(self._saved, round=round_)
        self.controller.incarnation = replace(self.controller.incarnation, round=round_)
        self.rounds = None if self.rounds is None else round_ + self.rounds

    def after_commit(self, action: Callable[[Commit], None]) -> None:
        """Call `action` with every commit, in the server's thread."""
        self._on_commit.append(action)

    def crash(self, address: str, calls: int) -> None:
        """Let the process at an address die at a call of its transport, counted from now."""
        self.network.transport(address).crashes_after = calls

    def stop(self) -> None:
        """Let all end where one has failed."""
        self._is_stopped = True
        for worker in self._at_work.values():
            worker.give_up()
        self.crash(self.job.server, 1)
        self.scheduler.close()

    def run(self, timeout_s: float = 120.0) -> Outcome:
        """Run to the last commit."""
        with ThreadPoolExecutor(self._workers + 2) as pool:
            futures = [pool.submit(self.scheduler_main), pool.submit(self.server_main)]
            futures += [pool.submit(self._worker_main, rank) for rank in range(self._workers)]
            for future in as_completed(futures, timeout=timeout_s):
                if (error := future.exception()) is not None:
                    # At once: the others may wait for long, and the pool waits for them.
                    traceback.print_exception(error)
                    self.stop()
                future.result()
        if self._consistency == BSP:
            self._check_read()
        return self.outcome

    def _check_read(self) -> None:
        """In step, each worker computes with the model after all rounds before, bit for bit."""
        applied = {
            commit.round: sums for commit, sums in zip(self.commits, self.applied, strict=True)
        }
        model = np.zeros_like(self.outcome.parameters)
        for round_ in range(len(self.pushes)):
            for read in (each for each in self.read if each.step == round_):
                expected = model[read.keys.astype(np.int64)]
                assert read.values.tobytes() == expected.tobytes(), (read.rank, round_)
            with np.errstate(over="ignore", invalid="ignore"):
                sums = applied[self._first + round_]
                model[sums.keys] += sums.sums

    def scheduler_main(self) -> None:
        """The life of the scheduler."""
        self.scheduler.start()
        self.scheduler.finalize(120.0)

    def _committed(self, commit: Commit, parameters: FloatArray, aggregate: Aggregate) -> None:
        self.commits.append(commit)
        self.applied.append(aggregate)
        is_last = min(commit.steps) == len(self.pushes)
        if (commit.round + 1) % self._every == 0 or is_last:
            self._saved = Checkpoint(commit.round + 1, commit.steps, parameters.copy())
        for action in self._on_commit:
            action(commit)

    def server_main(self) -> None:
        """The lives of the server's processes."""
        while not self._serve(resumed=bool(self.outcome.crashes[self.job.server])):
            if self._is_stopped:
                return
            self.outcome.crashes[self.job.server] += 1
            self.network.restart_host(self.job.server)

    def _serve(self, *, resumed: bool) -> bool:
        """The life of a server process; false if it crashed."""
        node = server_node(self.job, self.job.server)
        if resumed:
            self.controller.move(self._saved.round)
        try:
            server = Server(
                self.job,
                replace(self.controller.incarnation, round=self._saved.round, planned=False),
                self._saved.parameters.copy(),
                Sum(),
                self.network.transport(self.job.server),
                node,
                self.controller,
                self._committed,
                consistency=self._consistency,
                resumed=self._saved.steps if resumed else None,
                records_first=self.records_first,
            )
            node.start()
            server.run(self.rounds, steps=len(self.pushes))
            self.before_the_server_leaves(node)
        except Crashed:
            node.close()
            return False
        self.outcome.parameters = server.parameters
        self.outcome.counters = server.statistics()
        node.finalize()
        return True

    def before_the_server_leaves(self, node: Node) -> None:
        """All has been said: a test may let the server die here, with `Crashed`."""

    def _worker_main(self, rank: int) -> None:
        address = self.job.workers[rank]
        while not self._work(rank):
            self.outcome.crashes[address] += 1
            self.network.restart_host(address)

    def _work(self, rank: int) -> bool:
        """The life of a worker process; false if it crashed."""
        address = self.job.workers[rank]
        node = worker_node(self.job, address)
        worker = Worker(
            self.job,
            rank,
            self.network.transport(address),
            node,
            lambda *push: self.records.append(Record(rank, *push)),
            in_step=self._consistency == BSP,
        )
        self._at_work[rank] = worker
        try:
            node.start()
            self._train(worker, rank)
        except Crashed:
            node.close()
            return False
        with self._lock:
            self.outcome.replicas.append(worker.parameters[: self.hot].copy())
            self.outcome.retransmissions += worker.hot.stats.retransmissions
        node.finalize()
        return True

    def _train(self, worker: Worker, rank: int) -> None:
        step, has_ended = worker.start(), False
        while not has_ended:
            try:
                while step < len(self.pushes):
                    self._step(worker, rank, step)
                    step += 1
                if self._consistency != BSP:
                    worker.end(step - 1)
                has_ended = True
            except Moved as moved:
                step, worker.is_current = moved.steps, False

    def _step(self, worker: Worker, rank: int, step: int) -> None:
        keys, gradients = self.pushes[step][rank]
        if not worker.is_current:
            worker.fetch(keys)
        self.read.append(Read(rank, step, keys, worker.parameters[keys.astype(np.int64)]))
        last = step + 1 == len(self.pushes)
        next_keys = keys[:0] if last else self.pushes[step + 1][rank][0]
        self.outcome.times[rank].append(worker.push_round(step, keys, gradients, next_keys))


def run_job(
    pushes: list[list[Push]],
    num_keys: int,
    hot: int,
    network_of: Callable[[Job, Placement], MemoryNetwork],
    fraction_bits: int = 40,
    place: Callable[[Keys, Layout], Placement] = heat_based,
) -> Outcome:
    """Run all rounds of `pushes` without crashes; the hot keys are 0…hot - 1."""
    return MemoryJob(pushes, num_keys, hot, network_of, fraction_bits, place=place).run()
