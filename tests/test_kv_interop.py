"""Jobs mixed from this implementation and the C++ library.

Set PSLITE_DIR to a build folder of ps-lite that has tests/kv_app_test, tests/simple_app_test.
"""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_stack.kv import KVMeta, KVPairs, KVServer, KVWorker, Node, Role, SimpleApp
from host_stack.kv.message import Array, Message
from host_stack.kv.server import RequestHandle
from tests.kv_jobs import HOST, LIMIT_S, AddingStore, config, start_scheduler

PSLITE = os.environ.get("PSLITE_DIR")
pytestmark = pytest.mark.skipif(PSLITE is None, reason="PSLITE_DIR names no build of ps-lite")

NUM_KEYS = 10_000


class CppNode:
    """A running C++ process whose output is read line by line."""

    def __init__(
        self, program: str, role: str, port: int, workers: int, servers: int, **variables: str
    ) -> None:
        assert PSLITE is not None
        environment = os.environ | {
            "DMLC_ROLE": role,
            "DMLC_PS_ROOT_URI": HOST,
            "DMLC_PS_ROOT_PORT": str(port),
            "DMLC_NODE_HOST": HOST,
            "DMLC_NUM_WORKER": str(workers),
            "DMLC_NUM_SERVER": str(servers),
            "PS_VERBOSE": "1",
            **variables,
        }
        self.process = subprocess.Popen(
            [Path(PSLITE) / "tests" / program, role],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self.servers_ready = threading.Event()
        self._counts = (f"for 7 : {workers + servers + 1}\n", f"for 7 : {servers + 1}\n")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Collect output; notice when the scheduler counts all servers at the last barrier.

        A C++ server aborts or stalls when a push arrives before its handle is set. It enters
        the last barrier after that, as the scheduler itself does at once, so servers + 1
        arrivals there mean that pushes are safe.
        """
        assert self.process.stdout is not None
        all_started = False
        for line in self.process.stdout:
            self.lines.append(line)
            if all_started and line.endswith(self._counts[1]):
                self.servers_ready.set()
            all_started = all_started or line.endswith(self._counts[0])

    def finish(self) -> None:
        """Wait for the process, which must exit with 0."""
        code = self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        assert code == 0, "".join(self.lines)


@contextmanager
def cpp_node(
    program: str, role: str, port: int, workers: int, servers: int, **variables: str
) -> Iterator[CppNode]:
    """Run a C++ node; at the end it must have exited with 0."""
    node = CppNode(program, role, port, workers, servers, **variables)
    try:
        yield node
        node.finish()
    finally:
        node.process.kill()
        node.process.wait()


def free_port() -> int:
    """Find a port for a scheduler that cannot choose one by itself."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def serve(
    port: int,
    workers: int,
    servers: int,
    handle: RequestHandle | None = None,
    lost: int = 0,
    **changes: Any,
) -> AddingStore:
    """Be a server until the end of the job; with `lost`, the first requests do not arrive."""
    node = Node(config(Role.SERVER, port, workers, servers, **changes), threaded=False)
    store = AddingStore()
    if lost:
        lose_requests(node, lost)
    try:
        KVServer(node).set_request_handle(handle or store)
        node.start()
        node.finalize(LIMIT_S)
    finally:
        node.close()
    return store


def lose_requests(node: Node, number: int) -> None:
    """Let a node lose the first data requests that it receives."""
    receive, left = node._van.receive, [number]

    def lossy() -> Message | None:
        message = receive()
        if left[0] and message is not None and message.meta.control is None:
            left[0] -= 1
            return lossy()
        return message

    node._van.receive = lossy  # type: ignore[method-assign]


def work(
    port: int,
    workers: int,
    servers: int,
    ready: threading.Event | None = None,
    **changes: Any,
) -> float:
    """Push and pull as a worker, once the servers are ready; return the largest error."""
    node = Node(config(Role.WORKER, port, workers, servers, **changes))
    try:
        node.start()
        assert ready is None or ready.wait(LIMIT_S)
        worker = KVWorker(node)
        step = (2**64 - 1) // NUM_KEYS
        keys = np.arange(NUM_KEYS, dtype=np.uint64) * np.uint64(step) + np.uint64(100 + node.rank)
        vals = np.arange(NUM_KEYS, dtype=np.float32)
        for _ in range(5):
            worker.wait(worker.push(keys, vals))
        out = np.zeros_like(vals)
        worker.wait(worker.pull(keys, out))
        error = np.abs(out - 5 * vals).max()
        worker.wait(worker.push_pull(keys, vals, out))
        error = max(error, np.abs(out - 6 * vals).max())
        node.finalize(LIMIT_S)
    finally:
        node.close()
    return float(error)


def test_cpp_workers_on_python_scheduler_and_servers() -> None:
    """The C++ test program, which checks its own sums, runs against Python."""
    port, done = start_scheduler(2, 2)
    with ThreadPoolExecutor(2) as pool:
        stores = [pool.submit(serve, port, 2, 2) for _ in range(2)]
        with (
            cpp_node("kv_app_test", "worker", port, 2, 2),
            cpp_node("kv_app_test", "worker", port, 2, 2),
        ):
            done.result(LIMIT_S)
        for store in stores:
            assert store.result(LIMIT_S).pushes == 2 * 100


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("servers", [1, 2])
def test_python_workers_on_cpp_scheduler_and_servers(workers: int, servers: int) -> None:
    """Python pushes and pulls against the C++ scheduler and servers."""
    port = free_port()
    with ThreadPoolExecutor(workers) as pool, ExitStack() as stack:
        scheduler = stack.enter_context(
            cpp_node("kv_app_test", "scheduler", port, workers, servers)
        )
        for _ in range(servers):
            stack.enter_context(cpp_node("kv_app_test", "server", port, workers, servers))
        ready = scheduler.servers_ready
        errors = [pool.submit(work, port, workers, servers, ready) for _ in range(workers)]
        for error in errors:
            assert error.result(LIMIT_S) == 0


def test_cpp_and_python_workers_share_python_servers() -> None:
    """Under the C++ scheduler, both kinds of worker push to the same servers."""
    port = free_port()
    with (
        ThreadPoolExecutor(3) as pool,
        cpp_node("kv_app_test", "scheduler", port, 2, 2),
        cpp_node("kv_app_test", "worker", port, 2, 2),
    ):
        stores = [pool.submit(serve, port, 2, 2) for _ in range(2)]
        error = pool.submit(work, port, 2, 2)
        assert error.result(LIMIT_S) == 0
        for store in stores:
            assert store.result(LIMIT_S).pushes == 50 + 50 + 5 + 1


def test_simple_requests_of_cpp_scheduler() -> None:
    """The C++ scheduler asks a Python worker and server a hundred times each."""
    port = free_port()

    def answer(role: Role) -> int:
        node = Node(config(role, port, 1, 1))
        seen = []

        def handle(request, app):  # type: ignore[no-untyped-def]
            seen.append((request.head, request.body))
            app.simple_response(request)

        try:
            SimpleApp(node).set_simple_handle(handle)
            node.start()
            node.finalize(LIMIT_S)
        finally:
            node.close()
        assert set(seen) == {(1, b"test")}
        return len(seen)

    with ThreadPoolExecutor(2) as pool, cpp_node("simple_app_test", "scheduler", port, 1, 1):
        counts = [pool.submit(answer, role) for role in (Role.WORKER, Role.SERVER)]
        assert [count.result(LIMIT_S) for count in counts] == [100, 100]


RESEND = {"PS_RESEND": "1", "PS_RESEND_TIMEOUT": "1000"}


def test_cpp_worker_resends_what_a_python_server_lost() -> None:
    """Requests that never arrived come again, each counts once, and both ends acknowledge."""
    port, done = start_scheduler(1, 1, resend_timeout_s=1.0)
    with ThreadPoolExecutor(1) as pool:
        store = pool.submit(serve, port, 1, 1, lost=3, resend_timeout_s=1.0)
        with cpp_node("kv_app_test", "worker", port, 1, 1, **RESEND):
            done.result(LIMIT_S)
        assert store.result(LIMIT_S).pushes == 100


def test_python_worker_resends_beside_a_cpp_scheduler_and_server() -> None:
    """Every message of a Python worker is acknowledged by the C++ library."""
    port = free_port()
    with (
        ThreadPoolExecutor(1) as pool,
        cpp_node("kv_app_test", "scheduler", port, 1, 1, **RESEND) as scheduler,
        cpp_node("kv_app_test", "server", port, 1, 1, **RESEND),
    ):
        ready = scheduler.servers_ready
        error = pool.submit(work, port, 1, 1, ready, resend_timeout_s=1.0)
        assert error.result(LIMIT_S) == 0


def test_customers_of_a_cpp_process_on_python_scheduler_and_servers() -> None:
    """Two customers of one process register, push to the same servers, and end together."""
    port, done = start_scheduler(2, 2)
    with ThreadPoolExecutor(2) as pool:
        stores = [pool.submit(serve, port, 2, 2) for _ in range(2)]
        with cpp_node("kv_app_multi_workers_test", "worker", port, 2, 2):
            done.result(LIMIT_S)
        for store in stores:
            assert store.result(LIMIT_S).pushes == 2 * 100


def test_customers_of_a_python_process_on_a_cpp_scheduler() -> None:
    """The C++ scheduler takes a Python process of two customers for two workers."""
    port = free_port()
    with (
        ThreadPoolExecutor(2) as pool,
        cpp_node("kv_app_multi_workers_test", "scheduler", port, 2, 1),
    ):
        store = pool.submit(serve, port, 2, 1)
        assert pool.submit(work, port, 2, 1, customers=2).result(LIMIT_S) == 0
        assert store.result(LIMIT_S).pushes == 5 + 1


def test_cpp_benchmark_on_python_servers_over_unix_sockets() -> None:
    """Ten million keys each way, without a network."""
    port, done = start_scheduler(1, 1, local=True)
    pushed: list[Array] = []

    def keep(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
        if meta.push:
            pushed.append(kvs.vals)
        server.response(meta, None if meta.push else KVPairs(kvs.keys, pushed[0]))

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve, port, 1, 1, keep, local=True)
        with cpp_node("kv_app_benchmark_test", "worker", port, 1, 1, DMLC_LOCAL="1"):
            done.result(LIMIT_S)
        served.result(LIMIT_S)
    assert [vals.size for vals in pushed] == [10_000_000]


def test_cpp_nodes_tell_a_python_scheduler_that_they_live() -> None:
    """Their heartbeats are answered."""
    port, done = start_scheduler(1, 1, heartbeat_interval_s=1.0, heartbeat_timeout_s=60.0)
    with (
        cpp_node("kv_app_test", "server", port, 1, 1, PS_HEARTBEAT_INTERVAL="1"),
        cpp_node("kv_app_test", "worker", port, 1, 1, PS_HEARTBEAT_INTERVAL="1"),
    ):
        done.result(LIMIT_S)
