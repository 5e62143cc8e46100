"""Handles and callbacks that raise while their node receives in a thread."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from host_stack.kv import (
    SERVER_GROUP,
    KVHandlerError,
    KVMeta,
    KVPairs,
    KVRefused,
    KVServer,
    KVWorker,
    SimpleApp,
    SimpleRequest,
)
from tests.kv_jobs import LIMIT_S, AddingStore, running_job, together

KEYS = np.array([1, 5], np.uint64)
ONES = np.ones(2, np.float32)


class PoorStore(AddingStore):
    """Fails at requests with cmd 7, before or after it has answered them."""

    def __init__(self, answers: bool = False) -> None:
        super().__init__()
        self._answers = answers

    def __call__(self, meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
        """Serve one request, or fail."""
        if meta.cmd != 7 or self._answers:
            super().__call__(meta, kvs, server)
        if meta.cmd == 7:
            raise RuntimeError("store is broken")


def test_a_server_whose_handle_raises_refuses_and_goes_on() -> None:
    """The request is refused, others are served, and the next wait of the server says it, once."""
    with running_job(1, 1) as job:
        node = job.servers[0]
        KVServer(node).set_request_handle(PoorStore())
        worker = KVWorker(job.workers[0])
        for _ in range(2):
            with pytest.raises(KVRefused, match="handle raised RuntimeError"):
                worker.wait(worker.push(KEYS, ONES, cmd=7))
        worker.wait(worker.push(KEYS, ONES))
        assert worker.wait(worker.pull(KEYS)).vals.tolist() == [1, 1]
        assert node.stats.handler_failed == 2
        with pytest.raises(KVHandlerError, match=r"worker 0 .* RuntimeError\('store is") as raised:
            node.barrier(SERVER_GROUP)
        assert isinstance(raised.value.__cause__, RuntimeError)
        node.barrier(SERVER_GROUP)


def test_a_request_that_was_answered_before_the_handle_raised_has_one_answer() -> None:
    """A refusal does not follow an answer."""
    with running_job(1, 1) as job:
        node = job.servers[0]
        KVServer(node).set_request_handle(PoorStore(answers=True))
        worker = KVWorker(job.workers[0])
        worker.wait(worker.push(KEYS, ONES, cmd=7))
        assert worker.wait(worker.pull(KEYS)).vals.tolist() == [1, 1]
        assert job.workers[0].stats.unexpected_response == 0
        assert node.stats.handler_failed == 1
        with pytest.raises(KVHandlerError):
            node.barrier(SERVER_GROUP)


def test_finalize_ends_the_node_and_then_says_what_was_raised() -> None:
    """So a server that only waits for the end serves until then."""
    with running_job(1, 1) as job:
        server, client = job.servers[0], job.workers[0]
        KVServer(server).set_request_handle(PoorStore())
        worker = KVWorker(client)
        with pytest.raises(KVRefused):
            worker.wait(worker.push(KEYS, ONES, cmd=7))

        def end_server() -> None:
            with pytest.raises(KVHandlerError, match="store is broken"):
                server.finalize()

        together(end_server, client.finalize)
        assert job.scheduler_done is not None
        job.scheduler_done.result(LIMIT_S)
        job.abandon()


def test_a_simple_handle_that_raises_is_noted() -> None:
    """Its request stays without an answer; the next one gets one."""
    with running_job(1, 1) as job:
        node = job.servers[0]

        def handle(request: SimpleRequest, app: SimpleApp) -> None:
            if request.head == 7:
                raise KeyError("seven")
            app.simple_response(request, b"yes")

        KVServer(node).set_simple_handle(handle)
        app = SimpleApp(job.workers[0])
        lost = app.request(7, recv_id=8)
        assert app.wait(app.request(1, recv_id=8))[8].body == b"yes"
        assert not app.done(lost)
        app.forget(lost)
        with pytest.raises(KVHandlerError, match="seven"):
            node.barrier(SERVER_GROUP)


def test_the_wait_of_a_request_raises_what_its_callback_has() -> None:
    """The request is complete, and other requests of the worker go on."""
    with running_job(1, 1) as job:
        KVServer(job.servers[0]).set_request_handle(AddingStore())
        worker = KVWorker(job.workers[0])

        def fail() -> None:
            raise ValueError("no room")

        calls: tuple[Callable[[], Any], ...] = (
            lambda: worker.push(KEYS, ONES, callback=fail),
            lambda: worker.push(KEYS[:0], ONES[:0], callback=fail),
        )
        for call in calls:
            with pytest.raises(KVHandlerError, match=r"callback of push .*no room"):
                worker.wait(call())
        worker.wait(worker.push(KEYS, ONES))
        assert worker.wait(worker.pull(KEYS)).vals.tolist() == [2, 2]
        assert job.workers[0].stats.handler_failed == 2
