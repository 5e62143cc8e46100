"""`KVWorker` in a job: hot keys through the network's switch, plain workers beside it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.kv import compile_pslite
from host_stack.connect import worker_node
from host_stack.control import Answer, Kind, Request
from host_stack.errors import BadInput, PushFailed
from host_stack.hot_kv import HotKVWorker, kv_worker
from host_stack.incarnation import Incarnation
from host_stack.job import Job
from host_stack.kv import (
    WORKER_GROUP,
    KVConfig,
    KVRefused,
    KVServer,
    KVUsageError,
    KVWorker,
    Node,
    Role,
)
from host_stack.placement import Placement
from host_stack.stopwatch import RoundTimes
from host_stack.worker import NOTHING, Worker
from tests.job_in_memory import MemoryJob, make_job
from tests.kv_cpp import needs_pslite
from tests.kv_jobs import HOST, LIMIT_S, AddingStore, config, start_scheduler, together
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


def test_the_same_program_runs_with_and_without_a_job() -> None:
    """Sums are right, whichever keys are hot, on a network with faults."""
    for hot in (0, 3, NUM_KEYS):
        faults = Faults(loss=0.05, duplication=0.05, reordering=0.05, seed=hot)
        job = KVJob([alternating, alternating], hot, faults)
        job.run()
        wanted = np.zeros(NUM_KEYS, np.float32)
        wanted[KEYS.astype(int)] += 10
        wanted[OTHERS.astype(int)] += 10
        assert job.outcome.parameters.tolist() == wanted.tolist()
        assert (job.outcome.counters.get("fallback_added", 0) > 0) == (hot > 0)
        assert len(job.commits) == 5
    port, done = start_scheduler(1, 1)
    server = Node(config(Role.SERVER, port, 1, 1))
    worker = Node(config(Role.WORKER, port, 1, 1))
    together(server.start, worker.start)
    KVServer(server).set_request_handle(AddingStore())
    alternating(KVWorker(worker))
    together(server.finalize, worker.finalize)
    done.result(LIMIT_S)


def test_workers_may_make_different_numbers_of_steps() -> None:
    """One that has ended is not waited for; callbacks run, and pushes without a wait count."""
    called: list[int] = []

    def long(worker: HotKVWorker | KVWorker) -> None:
        for step in range(4):
            worker.wait(worker.push(KEYS, ONES, callback=lambda step=step: called.append(step)))
        worker.push(KEYS, ONES)

    def short(worker: HotKVWorker | KVWorker) -> None:
        assert worker.wait(worker.push_pull(OTHERS, ONES)).vals[3] == 1

    job = KVJob([long, short], 30)
    job.run()
    assert called == [0, 1, 2, 3]
    assert job.outcome.parameters[[0, 1, 2, 40, 59]].tolist() == [5, 6, 1, 6, 1]


def test_a_worker_that_has_ended_takes_no_more() -> None:
    """It is refused at once, and another end does nothing; what was pulled before is there."""

    def program(worker: HotKVWorker | KVWorker) -> None:
        assert isinstance(worker, HotKVWorker)
        pull = worker.push_pull(KEYS, ONES)
        worker.end()
        assert worker.wait(pull).vals.tolist() == [1] * 4
        for ask in (
            lambda: worker.push(KEYS, ONES),
            lambda: worker.pull(KEYS),
            lambda: worker.push_pull(KEYS, ONES),
        ):
            with pytest.raises(KVUsageError, match="this worker has ended"):
                ask()

    job = KVJob([program], 30)
    job.run()
    assert job.outcome.parameters[KEYS.astype(int)].tolist() == [1] * 4
    assert len(job.commits) == 1


def test_workers_meet_at_barriers_of_their_nodes() -> None:
    """As those of ps-lite: `node` is the one that the job's worker has."""
    ranks: list[int] = []

    def program(worker: HotKVWorker | KVWorker) -> None:
        worker.wait(worker.push(KEYS, ONES))
        ranks.append(worker.node.rank)
        worker.node.barrier(WORKER_GROUP)
        assert sorted(ranks) == [0, 1]
        assert worker.wait(worker.pull(KEYS)).vals.tolist() == [2] * 4

    KVJob([program, program], 30).run()


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


@pytest.mark.parametrize(
    ("keys", "vals", "words"),
    [
        (KEYS, np.ones(8, np.float32), "8 values of float32 for 4 keys"),
        (KEYS, np.ones(4), "float64"),
        (KEYS[::-1], ONES, "sorted and unique"),
        (KEYS + np.uint64(20), ONES, "key 60: the keys of the job are 0 to 59"),
        (KEYS.tolist(), ONES, "keys must be a numpy array"),
        (KEYS, ONES.tolist(), "vals must be a numpy array"),
    ],
)
def test_what_has_no_cell_is_refused(keys: np.ndarray, vals: np.ndarray, words: str) -> None:
    """Before anything is sent."""
    job = make_job(1, NUM_KEYS, F, 9)
    node = worker_node(job, job.workers[0])
    worker = HotKVWorker(Worker(job, 0, None, node))
    with pytest.raises(KVUsageError, match=words):
        worker.push(keys, vals)
    with pytest.raises(KVUsageError, match="vals_out"):
        worker.pull(KEYS, np.ones(3, np.float32))
    with pytest.raises(KVUsageError, match="vals_out must be a numpy array"):
        worker.pull(KEYS, [0.0] * 4)
    with pytest.raises(KVUsageError, match="lens must be a numpy array"):
        worker.push(KEYS, ONES, [1] * 4)
    with pytest.raises(KVUsageError, match="no request has timestamp 0"):
        worker.wait(0)
    with pytest.raises(KVUsageError, match="no request has timestamp 99"):
        worker.done(99)
    node.close()


def test_a_worker_that_pushes_nothing_lets_the_others_go_on() -> None:
    """It ends with an empty step."""

    def watch(worker: HotKVWorker | KVWorker) -> None:
        assert worker.wait(worker.pull(KEYS)).vals.tolist() == [0] * 4

    job = KVJob([alternating, watch], 30)
    job.run()
    assert job.outcome.parameters[KEYS.astype(int)].tolist() == [5, 10, 5, 10]


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


def test_a_step_that_the_server_refuses_fails() -> None:
    """It is not taken for pushed."""
    port, done = start_scheduler(1, 1)
    server = Node(config(Role.SERVER, port, 1, 1))
    job = replace(make_job(1, NUM_KEYS, F, port), scheduler=(HOST, port))
    node = worker_node(job, job.workers[0])
    network = direct(1)(job, Placement.empty(job.layout))
    worker = Worker(job, 0, network.transport(job.workers[0]), node)
    app = KVServer(server)
    app.set_request_handle(lambda meta, kvs, kv: kv.refuse(meta, "not here"))
    first = Incarnation(1, 0, F, 1, Placement.empty(job.layout)).encode(0)
    app.set_simple_handle(
        lambda request, kv: kv.simple_response(
            request,
            Answer(Kind.MOVED, Request.decode(request.body).tag, incarnation=first).encode(),
        )
    )
    together(server.start, node.start)
    assert worker.start() == 0
    with pytest.raises(KVRefused, match="not here"):
        worker.push_round(0, KEYS, ONES, NOTHING)
    together(server.finalize, node.finalize)
    done.result(LIMIT_S)


def test_a_failed_step_stays_open() -> None:
    """Nobody may take gradients for applied that were not."""

    class Broken(Worker):
        def push_round(self, *_: object) -> RoundTimes:
            raise PushFailed("no answer")

    job = make_job(1, NUM_KEYS, F, 9)
    node = worker_node(job, job.workers[0])
    worker = HotKVWorker(Broken(job, 0, None, node))
    timestamp = worker.push(KEYS, ONES)
    for _ in range(2):
        with pytest.raises(PushFailed, match="no answer"):
            worker.wait(timestamp)
        assert not worker.done(timestamp)
    with pytest.raises(PushFailed, match="no answer"):
        worker.push(KEYS, ONES)
    node.close()


@pytest.mark.parametrize("role", ["server", "scheduler"])
def test_a_worker_is_no_other_role(role: str) -> None:
    """It is said before anything is started."""
    with pytest.raises(BadInput, match="this program is a worker"), kv_worker({"DMLC_ROLE": role}):
        pass


def test_a_job_file_that_never_ends_is_refused() -> None:
    """So is any other that is no regular file."""
    environ = {"LIBRA_JOB": "/dev/zero", "DMLC_NODE_HOST": "192.0.2.9"}
    words = "/dev/zero is not a job file: it is no regular file"
    with pytest.raises(BadInput, match=words), kv_worker(environ):
        pass


@pytest.mark.parametrize("text", ["2", "no"])
def test_multicast_is_on_or_off(tmp_path: Path, text: str) -> None:
    """Another value is refused, by the name of the variable."""
    make_job(1, NUM_KEYS, F, 9).save(tmp_path / "job.json")
    environ = {"LIBRA_JOB": str(tmp_path / "job.json"), "LIBRA_MULTICAST": text}
    words = f"LIBRA_MULTICAST = '{text}': allowed are 0 and 1"
    with pytest.raises(BadInput, match=words), kv_worker(environ):
        pass


def test_the_environment_names_the_job(tmp_path: Path) -> None:
    """And the worker in it, by address."""
    make_job(1, NUM_KEYS, F, 9).save(tmp_path / "job.json")
    environ = {"LIBRA_JOB": str(tmp_path / "job.json"), "DMLC_NODE_HOST": "192.0.2.9"}
    words = r"'192\.0\.2\.9': the workers of the job are at"
    with pytest.raises(BadInput, match=words), kv_worker(environ):
        pass
