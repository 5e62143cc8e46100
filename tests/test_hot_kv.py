"""`KVWorker` in a job: hot keys through the network's switch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from host_stack.connect import worker_node
from host_stack.control import Answer, Kind, Request
from host_stack.errors import BadInput, PushFailed
from host_stack.hot_kv import HotKVWorker, kv_worker
from host_stack.incarnation import Incarnation
from host_stack.kv import (
    WORKER_GROUP,
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
from tests.hot_kv_job import KEYS, NUM_KEYS, ONES, OTHERS, KVJob, alternating
from tests.job_in_memory import make_job
from tests.kv_jobs import HOST, LIMIT_S, AddingStore, config, start_scheduler, together
from tests.memory_network import Faults
from tests.test_job import F, direct


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
    del environ["DMLC_NODE_HOST"]
    with pytest.raises(BadInput, match="DMLC_NODE_HOST is not set"), kv_worker(environ):
        pass
