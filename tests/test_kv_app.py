"""Workers and servers together: pushes, pulls, simple requests, held responses, dead peers."""

import socket
import threading

import numpy as np
import pytest
import zmq

from host_stack.kv import (
    ALL_GROUP,
    SERVER_GROUP,
    WORKER_GROUP,
    KVMeta,
    KVPairs,
    KVProtocolError,
    KVRefused,
    KVServer,
    KVTimeout,
    KVUsageError,
    KVWorker,
    Node,
    Role,
    SimpleApp,
    SimpleRequest,
    SimpleResponse,
)
from tests.kv_jobs import HOST, LIMIT_S, AddingStore, config, running_job, start_scheduler, together


def spread_keys(count: int, seed: int) -> np.ndarray:
    """Draw sorted unique keys from the whole key space."""
    random = np.random.default_rng(seed)
    return np.unique(random.integers(0, 2**64 - 8, count, dtype=np.uint64))


@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_sums_of_all_workers_are_pulled_back(workers: int, servers: int) -> None:
    """What all push, each pulls, in the order of its keys."""
    with running_job(workers, servers) as job:
        stores = [AddingStore() for _ in job.servers]
        for node, store in zip(job.servers, stores, strict=True):
            KVServer(node).set_request_handle(store)
        keys = spread_keys(1000, seed=workers * 10 + servers)
        vals = np.arange(keys.size, dtype=np.float32)

        def work(node: Node) -> None:
            worker = KVWorker(node)
            for _ in range(3):
                worker.wait(worker.push(keys, vals))
            node.barrier(WORKER_GROUP)
            out = np.empty_like(vals)
            pulled = worker.wait(worker.pull(keys, out))
            assert pulled.vals is out
            assert np.array_equal(out, 3 * workers * vals)
            some = slice(None, None, 7)
            assert np.array_equal(worker.wait(worker.pull(keys[some].copy())).vals, out[some])

        together(*(lambda node=node: work(node) for node in job.workers))
        assert sum(store.keys.size for store in stores) == keys.size
        assert all(store.pushes == 3 * workers for store in stores)


def test_push_pull_returns_the_sum_after_the_push() -> None:
    """One message each way does both."""
    with running_job(1, 2) as job:
        for node in job.servers:
            KVServer(node).set_request_handle(AddingStore())
        worker = KVWorker(job.workers[0])
        keys = spread_keys(100, seed=1)
        vals = np.ones(keys.size, np.float32)
        for times in (1, 2):
            assert (worker.wait(worker.push_pull(keys, vals)).vals == times).all()
        assert worker.node.stats.messages_received == 2 + 2 * 2


def test_a_million_keys() -> None:
    """Large arrays pass unharmed in both directions."""
    with running_job(1, 2) as job:
        for node in job.servers:
            KVServer(node).set_request_handle(AddingStore())
        worker = KVWorker(job.workers[0])
        keys = spread_keys(1_000_000, seed=2)
        vals = np.random.default_rng(3).standard_normal(keys.size).astype(np.float32)
        worker.wait(worker.push(keys, vals))
        assert np.array_equal(worker.wait(worker.pull(keys)).vals, vals)


def test_several_values_for_each_key() -> None:
    """Rows of d values travel with their key, from a matrix into a matrix."""
    with running_job(1, 3) as job:
        rows: dict[int, np.ndarray] = {}
        lock = threading.Lock()

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            with lock:
                if meta.push:
                    rows.update(
                        zip(kvs.keys.tolist(), kvs.vals.reshape(kvs.keys.size, -1), strict=True)
                    )
                    server.response(meta)
                else:
                    vals = np.concatenate([rows[key] for key in kvs.keys.tolist()])
                    server.response(meta, KVPairs(kvs.keys, vals))

        for node in job.servers:
            KVServer(node).set_request_handle(handle)
        worker = KVWorker(job.workers[0], val_dtype=np.float64)
        keys = spread_keys(200, seed=4)
        matrix = np.random.default_rng(5).standard_normal((keys.size, 6))
        worker.wait(worker.push(keys, matrix))
        out = np.zeros_like(matrix)
        worker.wait(worker.pull(keys, out))
        assert np.array_equal(out, matrix)


def test_values_of_different_lengths() -> None:
    """With lens every key has its own number of values, zero included."""
    with running_job(1, 2) as job:
        stored: dict[int, KVPairs] = {}

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            if meta.push:
                stored[server.node.id] = kvs
                server.response(meta)
            else:
                server.response(meta, stored[server.node.id])

        for node in job.servers:
            KVServer(node).set_request_handle(handle)
        worker = KVWorker(job.workers[0])
        keys = spread_keys(50, seed=6)
        lens = np.random.default_rng(7).integers(0, 5, keys.size).astype(np.int32)
        vals = np.arange(lens.sum(), dtype=np.float32)
        worker.wait(worker.push(keys, vals, lens))
        pulled = worker.wait(worker.pull(keys))
        assert np.array_equal(pulled.vals, vals)
        assert np.array_equal(pulled.lens, lens)
        with pytest.raises(KVProtocolError, match="vals_out has room"):
            worker.wait(worker.pull(keys, np.zeros(keys.size, np.float32)))


def test_no_keys_complete_at_once() -> None:
    """An empty request is sent to nobody, and its callback runs."""
    with running_job(1, 2) as job:
        worker = KVWorker(job.workers[0])
        called: list[str] = []
        none, vals = np.empty(0, np.uint64), np.empty(0, np.float32)
        pushed = worker.push(none, vals, callback=lambda: called.append("push"))
        pulled = worker.pull(none, callback=lambda: called.append("pull"))
        assert worker.done(pushed)
        assert worker.done(pulled)
        assert worker.wait(pulled).vals.size == 0
        assert worker.wait(pushed) is None
        assert called == ["push", "pull"]


def test_requests_carry_command_and_priority_and_call_back() -> None:
    """The command reaches the handle; the callback runs before wait returns."""
    with running_job(1, 1) as job:
        seen: list[KVMeta] = []

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            seen.append(meta)
            server.response(meta)

        KVServer(job.servers[0]).set_request_handle(handle)
        worker = KVWorker(job.workers[0])
        called = threading.Event()
        keys, vals = np.array([3], np.uint64), np.ones(1, np.float32)
        worker.wait(worker.push(keys, vals, cmd=-5, priority=9, callback=called.set))
        assert called.is_set()
        assert seen == [KVMeta(-5, True, False, 9, 0, 0, 9)]


def test_apps_and_customers_do_not_mix() -> None:
    """Two apps on one job, two customers of one app on one worker."""
    with running_job(1, 1) as job:
        stores = [AddingStore(), AddingStore()]
        for app_id, store in enumerate(stores):
            KVServer(job.servers[0], app_id).set_request_handle(store)
        node = job.workers[0]
        customers = [KVWorker(node, 0, 0), KVWorker(node, 0, 1), KVWorker(node, 1, 0)]
        keys = np.array([5], np.uint64)
        for amount, customer in enumerate(customers, 1):
            customer.wait(customer.push(keys, np.full(1, amount, np.float32)))
        assert [store.vals.tolist() for store in stores] == [[3.0], [3.0]]
        with pytest.raises(KVUsageError, match="already has a customer 1"):
            KVWorker(node, 0, 1)


def test_requests_wait_for_a_handle_that_comes_late() -> None:
    """A push that arrives before the server has an app is kept, not lost."""
    with running_job(1, 1) as job:
        worker = KVWorker(job.workers[0])
        keys, vals = np.array([5], np.uint64), np.ones(1, np.float32)
        pushes = [worker.push(keys, vals) for _ in range(5)]
        server_node = job.servers[0]
        assert server_node.wait_until(lambda: server_node.stats.messages_received == 7, LIMIT_S)
        assert not any(map(worker.done, pushes))
        store = AddingStore()
        KVServer(server_node).set_request_handle(store)
        for push in pushes:
            worker.wait(push)
        assert store.vals.tolist() == [5.0]


def test_simple_requests_reach_groups_and_single_nodes() -> None:
    """Each member answers once, with its own body."""
    with running_job(2, 2) as job:
        nodes = job.workers + job.servers
        apps = {node.id: SimpleApp(node) for node in nodes}

        def handle(request: SimpleRequest, app: SimpleApp) -> None:
            app.simple_response(request, request.body + b" from %d" % app.node.id)

        for app in apps.values():
            app.set_simple_handle(handle)
        app = apps[9]
        answers = app.wait(app.request(7, b"hello", SERVER_GROUP))
        assert answers == {
            8: SimpleResponse(7, b"hello from 8"),
            10: SimpleResponse(7, b"hello from 10"),
        }
        assert app.wait(app.request(-1, b"", 10)) == {10: SimpleResponse(-1, b" from 10")}
        back = apps[8].wait(apps[8].request(1, b"x", WORKER_GROUP))
        assert sorted(back) == [9, 11]
        itself = apps[8].wait(apps[8].request(1, b"x", 8))
        assert itself[8].body == b"x from 8"
        with pytest.raises(KVUsageError, match="no connection to worker 1"):
            app.request(1, b"", 11)
        with pytest.raises(KVUsageError, match="32 signed bits"):
            app.request(1 << 31, b"", 8)


def test_held_responses_release_all_workers_together() -> None:
    """A server may keep pulls and DONE messages and answer them when the round is complete."""
    with running_job(3, 1) as job:
        server = KVServer(job.servers[0])
        held_pulls: list[tuple[KVMeta, KVPairs]] = []
        done: list[SimpleRequest] = []

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            held_pulls.append((meta, kvs))

        def on_done(request: SimpleRequest, app: SimpleApp) -> None:
            done.append(request)
            if len(done) == 3:
                for meta, kvs in held_pulls:
                    server.response(meta, KVPairs(kvs.keys, np.full(1, 42, np.float32)))
                for held in done:
                    server.simple_response(held, b"committed")

        server.set_simple_handle(on_done)
        server.set_request_handle(handle)

        def work(node: Node) -> None:
            worker = KVWorker(node)
            pull = worker.pull(np.array([1], np.uint64))
            if node.rank == 0:
                with pytest.raises(KVTimeout) as caught:
                    worker.wait(pull, 0.05)
                assert caught.value.missing == (8,)
                assert not worker.done(pull)
            node.barrier(WORKER_GROUP)
            assert worker.wait(worker.request(1, b"round 0", 8))[8].body == b"committed"
            assert worker.wait(pull).vals.tolist() == [42.0]

        together(*(lambda node=node: work(node) for node in job.workers))
        with pytest.raises(KVUsageError, match="answered already"):
            server.response(held_pulls[0][0], held_pulls[0][1])
        with pytest.raises(KVUsageError, match="answered already"):
            server.simple_response(done[0])


def test_one_thread_serves_the_node_and_a_udp_socket() -> None:
    """A server without a receiving thread polls the node beside its own socket."""
    port, scheduler = start_scheduler(1, 1)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((HOST, 0))
    threads: set[int] = set()

    def serve() -> float:
        node = Node(config(Role.SERVER, port, 1, 1), threaded=False)
        server = KVServer(node)
        total = 0.0
        held: list[SimpleRequest] = []

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            nonlocal total
            threads.add(threading.get_ident())
            total += float(kvs.vals.sum())
            server.response(meta)

        server.set_request_handle(handle)
        server.set_simple_handle(lambda request, app: held.append(request))
        node.start()
        poller = zmq.Poller()
        poller.register(node.socket, zmq.POLLIN)
        poller.register(udp, zmq.POLLIN)
        while not (held and total >= 1000):
            for ready, _ in poller.poll(LIMIT_S * 1000):
                if ready == udp.fileno():
                    total += float(udp.recv(100))
                else:
                    assert node.process() > 0
        server.simple_response(held[0], str(total).encode())
        node.finalize()
        threads.add(threading.get_ident())
        return total

    def work() -> bytes:
        node = Node(config(Role.WORKER, port, 1, 1), threaded=False)
        worker = KVWorker(node)
        node.start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hot:
            hot.sendto(b"1000", udp.getsockname())
        worker.wait(worker.push(np.arange(4, dtype=np.uint64), np.ones(4, np.float32)))
        answer = worker.wait(worker.request(2, b"DONE", 8))[8].body
        node.finalize()
        return bytes(answer)

    with udp:
        total, answer = together(serve, work)
    scheduler.result(LIMIT_S)
    assert total == 1004.0
    assert answer == b"1004.0"
    assert len(threads) == 1


def test_dead_server_is_named() -> None:
    """A wait ends at its deadline and says which server is silent; others have answered."""
    with running_job(1, 3, lifetime_s=1.0, linger_s=0.0) as job:
        for node in job.servers:
            KVServer(node).set_request_handle(AddingStore())
        job.servers[1].close()
        worker = KVWorker(job.workers[0])
        keys = spread_keys(100, seed=8)
        push = worker.push(keys, np.ones(keys.size, np.float32))
        with pytest.raises(KVTimeout, match=r"push 0: .* server 1 \(id 10\)") as caught:
            worker.wait(push, 0.5)
        assert caught.value.missing == (10,)
        worker.forget(push)
        assert worker.done(push)
        with pytest.raises(KVTimeout, match="barrier on group 7"):
            job.workers[0].finalize(0.2)
        job.abandon()
        failure = job.scheduler_done.exception(LIMIT_S)
        assert isinstance(failure, KVTimeout)
        assert failure.missing == (8, 10, 12)


def test_queue_of_a_dead_server_is_bounded() -> None:
    """A worker that goes on pushing to a dead server gets an error, not a full memory."""
    with running_job(
        1, 1, lifetime_s=0.5, linger_s=0.0, queue_messages=4, send_timeout_s=0.1
    ) as job:
        job.servers[0].close()
        worker = KVWorker(job.workers[0])
        keys, vals = np.array([1], np.uint64), np.ones(1, np.float32)
        with pytest.raises(KVTimeout, match="queue of 4 is full") as caught:
            for _ in range(10_000):
                worker.push(keys, vals)
        assert caught.value.missing == (8,)
        job.abandon()
        assert isinstance(job.scheduler_done.exception(LIMIT_S), KVTimeout)


def test_waiting_in_a_callback_is_refused() -> None:
    """It could never end, so it is an error, and the node says so wherever it is used next."""
    with running_job(1, 1, lifetime_s=0.5) as job:
        KVServer(job.servers[0]).set_request_handle(AddingStore())
        worker = KVWorker(job.workers[0])
        keys, vals = np.array([1], np.uint64), np.ones(1, np.float32)
        push = worker.push(keys, vals, callback=lambda: worker.wait(0))
        with pytest.raises(KVUsageError, match="inside a handler"):
            worker.wait(push)
        job.abandon()
        job.scheduler_done.exception(LIMIT_S)


@pytest.mark.parametrize(
    ("keys", "vals", "lens", "words"),
    [
        ([1, 2], [1.0], None, "1 values for 2 keys"),
        ([], [1.0], None, "1 values for 0 keys"),
        ([2, 1], [1.0, 2.0], None, "sorted and unique"),
        ([1, 2], [1.0], [1, 1], "add up to 2"),
        ([1, 2], [1.0], [2, -1], "0 or more"),
        ([1, 2], [1.0], [1], "2 int32"),
        ([2**64 - 1], [1.0], None, "no owner"),
        ([1], [1j], None, "complex"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(keys, vals, lens, words) -> None:  # type: ignore[no-untyped-def]
    """Nothing is sent when the arrays of a push contradict each other."""
    node = Node(config(Role.WORKER, 1, 1, 2))
    try:
        worker = KVWorker(node)
        array = np.array(vals)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        sizes = None if lens is None else np.array(lens, np.int32)
        with pytest.raises(KVUsageError, match=words):
            worker.push(np.array(keys, np.uint64), array, sizes)
        with pytest.raises(KVUsageError, match="0 have been made"):
            worker.wait(0)
    finally:
        node.close()


@pytest.mark.parametrize(
    ("name", "given"), [("keys", [1]), ("vals", [1.0]), ("lens", [1]), ("vals_out", [0.0])]
)
def test_what_is_no_array_is_refused(name: str, given: list[float]) -> None:
    """A list has no type that the other end would know."""
    node = Node(config(Role.WORKER, 1, 1, 1))
    arrays = {
        "keys": np.array([1], np.uint64),
        "vals": np.ones(1, np.float32),
        "vals_out": np.zeros(1, np.float32),
        "lens": np.ones(1, np.int32),
    }
    try:
        worker = KVWorker(node)
        with pytest.raises(KVUsageError, match=f"{name} must be a numpy array, list was given"):
            worker.push_pull(**(arrays | {name: given}))
        if name in {"keys", "vals_out"}:
            with pytest.raises(KVUsageError, match=f"{name} must be a numpy array"):
                worker.pull(**({"keys": arrays["keys"]} | {name: given}))
    finally:
        node.close()


@pytest.mark.parametrize("name", ["cmd", "priority"])
@pytest.mark.parametrize(
    ("number", "words"), [(1 << 31, "32 signed"), (-(1 << 31) - 1, "32 signed"), (1.5, "integer")]
)
def test_numbers_without_a_place_in_a_message_are_refused(
    name: str, number: float, words: str
) -> None:
    """They would reach the other end as other numbers."""
    node = Node(config(Role.WORKER, 1, 1, 1))
    try:
        with pytest.raises(KVUsageError, match=f"{name} = {number} .*{words}"):
            KVWorker(node).pull(np.array([1], np.uint64), **{name: number})
    finally:
        node.close()


def test_a_refusal_ends_the_request_and_says_why() -> None:
    """Of a push, a pull, or both; what comes behind it is served."""
    with running_job(1, 1) as job:
        server, store = KVServer(job.servers[0]), AddingStore()

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            if kvs.keys[-1] > 9:
                server.refuse(meta, f"key {kvs.keys[-1]} is\nabove 9")
                with pytest.raises(KVUsageError, match="answered already"):
                    server.refuse(meta, "again")
            else:
                store(meta, kvs, server)

        server.set_request_handle(handle)
        worker = KVWorker(job.workers[0])
        keys, others, ones = np.array([1], np.uint64), np.array([1, 10], np.uint64), np.ones(1)
        called: list[int] = []
        for timestamp in (
            worker.push(others, np.ones(2), callback=lambda: called.append(1)),
            worker.pull(others),
            worker.push_pull(others, np.ones(2)),
        ):
            with pytest.raises(KVRefused, match=r"server 0 \(id 8\) refuses: key 10 is above 9"):
                worker.wait(timestamp)
        assert not called
        worker.wait(worker.push(keys, ones))
        assert worker.wait(worker.pull(keys)).vals.tolist() == [1.0]
        assert store.keys.tolist() == [1]


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.zeros(3, np.float32), "3 places for 2 keys"),
        (np.zeros(4, np.float32)[::2], "contiguous"),
        (np.broadcast_to(np.float32(0), (2,)), "contiguous and writeable"),
        (np.zeros(2, np.complex64), "complex64"),
    ],
)
def test_output_arrays_that_do_not_fit_are_refused(out: np.ndarray, words: str) -> None:
    """A pull needs a place for every value."""
    node = Node(config(Role.WORKER, 1, 1, 1))
    try:
        with pytest.raises(KVUsageError, match=words):
            KVWorker(node).pull(np.arange(2, dtype=np.uint64), out)
    finally:
        node.close()


def test_answers_that_contradict_the_pull_fail_it() -> None:
    """Other keys or other types than asked for are an error of the pull."""
    with running_job(1, 1) as job:
        answers = [
            KVPairs(np.array([2], np.uint64), np.ones(1, np.float32)),
            KVPairs(np.array([1], np.uint64), np.ones(1, np.float64)),
            KVPairs(np.array([1], np.uint64), np.ones(3, np.float32)),
        ]
        KVServer(job.servers[0]).set_request_handle(
            lambda meta, kvs, server: server.response(meta, answers.pop(0))
        )
        worker = KVWorker(job.workers[0])
        out = np.zeros(1, np.float32)
        for words in ("not asked for", "float64", "3 values"):
            pull = worker.pull(np.array([1], np.uint64), out)
            with pytest.raises(KVProtocolError, match=words):
                worker.wait(pull)
        assert out.tolist() == [0.0]


def test_barriers_of_roles() -> None:
    """Workers pass their barrier without servers, and all pass the common one."""
    with running_job(3, 2) as job:
        together(*(lambda n=node: n.barrier(WORKER_GROUP) for node in job.workers))
        together(*(lambda n=node: n.barrier(SERVER_GROUP) for node in job.servers))
        nodes = job.workers + job.servers
        together(*(lambda n=node: n.barrier(ALL_GROUP - 1) for node in nodes))
        with pytest.raises(KVUsageError, match="not a member"):
            job.workers[0].barrier(SERVER_GROUP)
