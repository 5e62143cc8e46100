"""Jobs mixed from this implementation and the C++ library.

Set PSLITE_DIR to a build folder of ps-lite that has tests/kv_app_test, tests/simple_app_test.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product

import pytest

from host_stack.kv import KVMeta, KVPairs, KVServer, Node, Role, SimpleApp
from host_stack.kv.message import Array
from tests.kv_cpp import cpp_node, free_port, needs_pslite, serve, work
from tests.kv_jobs import LIMIT_S, config, start_scheduler

pytestmark = needs_pslite

CPP, PYTHON = "C++", "Python"
MANY_KEYS = 35_001
"""Enough to be left out at each of two servers; none of them is one of a C++ worker."""

KINDS = ((CPP,), (PYTHON,), (CPP, PYTHON))


@pytest.mark.parametrize("scheduler", [CPP, PYTHON])
@pytest.mark.parametrize(("servers", "workers"), list(product(KINDS, KINDS)))
def test_roles_mix(scheduler: str, servers: tuple[str, ...], workers: tuple[str, ...]) -> None:
    """Every combination of C++ and Python roles; each worker checks the sums that it pulls."""
    sizes = len(workers), len(servers)
    with ThreadPoolExecutor(4) as pool, ExitStack() as stack:
        if scheduler == CPP:
            port = free_port()
            stack.enter_context(cpp_node("kv_app_test", "scheduler", port, *sizes))
        else:
            port, done = start_scheduler(*sizes)
        cpp = [
            stack.enter_context(cpp_node("kv_app_test", "server", port, *sizes))
            for kind in servers
            if kind == CPP
        ]
        stores = [pool.submit(serve, port, *sizes) for kind in servers if kind == PYTHON]
        errors = [pool.submit(work, port, *sizes, cpp) for kind in workers if kind == PYTHON]
        for kind in workers:
            if kind == CPP:
                stack.enter_context(cpp_node("kv_app_test", "worker", port, *sizes))
        assert [error.result(LIMIT_S) for error in errors] == [0.0] * len(errors)
        pushes = {CPP: 50 + 50, PYTHON: 5 + 1}
        for store in stores:
            assert store.result(LIMIT_S).pushes == sum(pushes[kind] for kind in workers)
        if scheduler == PYTHON:
            done.result(LIMIT_S)


def test_keys_are_left_out_beside_cpp_servers_and_workers() -> None:
    """Of one worker's keys, one server keeps its half, and the C++ library is sent its own."""
    port, done = start_scheduler(2, 2)
    room = {"keep_keys_bytes": 1 << 20}
    with (
        ThreadPoolExecutor(2) as pool,
        cpp_node("kv_app_test", "server", port, 2, 2) as cpp,
        cpp_node("kv_app_test", "worker", port, 2, 2),
    ):
        store = pool.submit(serve, port, 2, 2, **room)
        error = pool.submit(work, port, 2, 2, [cpp], num_keys=MANY_KEYS, **room)
        assert error.result(LIMIT_S) == 0
        assert store.result(LIMIT_S).pushes == 100 + 5 + 1
        done.result(LIMIT_S)


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
    """Every message of a Python worker is acknowledged by the C++ library.

    Whose own resender aborts if it finds anything due when its node has just stopped: so it looks
    when the job has long ended.
    """
    port = free_port()
    patient = RESEND | {"PS_RESEND_TIMEOUT": "10000"}
    with (
        ThreadPoolExecutor(1) as pool,
        cpp_node("kv_app_test", "scheduler", port, 1, 1, **patient),
        cpp_node("kv_app_test", "server", port, 1, 1, **patient) as server,
    ):
        error = pool.submit(work, port, 1, 1, [server], resend_timeout_s=1.0)
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
