"""Nodes against the wire: start-up failures, hostile frames, strangers, heartbeats."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import zmq

from host_stack.kv import (
    KVConnectError,
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
)
from host_stack.kv.wire import EMPTY, Command, Control, Meta, NodeInfo, decode, encode
from host_stack.kv.word import MIN_KEYS, Name, Says, Word
from tests.kv_jobs import (
    HOST,
    LIMIT_S,
    AddingStore,
    Job,
    config,
    running_job,
    start_scheduler,
    together,
)


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    """One worker and one server that adds, shared by tests that leave them working."""
    with running_job(1, 1) as running:
        KVServer(running.servers[0]).set_request_handle(AddingStore())
        yield running


@pytest.fixture(scope="module")
def worker(job: Job) -> KVWorker:
    """The app of the shared job's worker."""
    return KVWorker(job.workers[0])


_STRANGERS = itertools.count(1000)


def stranger() -> bytes:
    """Return an identity that no peer has had.

    A ROUTER ignores a second peer of an identity until it knows that the first is gone.
    """
    return b"ps%d" % next(_STRANGERS)


@contextlib.contextmanager
def raw_peer(port: int, identity: bytes | None = None) -> Iterator["zmq.Socket[bytes]"]:
    """Open a bare DEALER to a node, with any identity."""
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    if identity is not None:
        dealer.set(zmq.IDENTITY, identity)
    dealer.set(zmq.LINGER, 2000)
    dealer.connect(f"tcp://{HOST}:{port}")
    try:
        yield dealer
    finally:
        dealer.close()
        context.term()


def data_meta(**changes: object) -> bytes:
    """Build the metadata of a push of float32 with some fields changed."""
    fields: dict[str, object] = {
        "head": 0,
        "request": True,
        "push": True,
        "app_id": 0,
        "customer_id": 0,
        "timestamp": 0,
        "data_types": (8, 9),
    }
    return encode(Meta(**(fields | changes)))  # type: ignore[arg-type]


def test_identity_follows_from_the_roster(job: Job) -> None:
    """Ranks and ids come from the scheduler, and every node sees the same roster."""
    worker, server = job.workers[0], job.servers[0]
    assert (worker.id, worker.rank, worker.role) == (9, 0, Role.WORKER)
    assert (server.id, server.rank, server.role) == (8, 0, Role.SERVER)
    assert worker.roster == server.roster
    assert {info.id for info in worker.roster} == {1, 8, 9}


@pytest.mark.parametrize(
    "frames",
    [
        [b"\xff"],
        [b"\x08\x00", b"12345678"],
        [data_meta(), b"1234567", b"1234"],
        [data_meta(), b"12345678"],
        [data_meta(data_types=(8, 9, 3)), b"12345678", b"1234", b"1234", b"1234"],
        [data_meta()] + [b"x"] * 50,
        [data_meta(data_types=(8, 11)), b"12345678", b"1234"],
    ],
)
def test_malformed_messages_are_counted_and_change_nothing(
    job: Job, worker: KVWorker, frames: list[bytes]
) -> None:
    """The server goes on serving after every kind of garbage."""
    server = job.servers[0]
    before = server.stats.malformed
    with raw_peer(server.info.port, stranger()) as peer:
        peer.send_multipart(frames)
        assert server.wait_until(lambda: server.stats.malformed > before, LIMIT_S)
    keys = np.array([77], np.uint64)
    worker.wait(worker.push(keys, np.ones(1, np.float32)))


def test_frames_above_the_limit_never_arrive() -> None:
    """ZeroMQ drops the connection of a peer that sends more than is allowed; senders know it."""
    with running_job(1, 1, max_frame_bytes=4096) as job:
        KVServer(job.servers[0]).set_request_handle(AddingStore())
        worker = KVWorker(job.workers[0])
        keys = np.arange(1000, dtype=np.uint64)
        with pytest.raises(KVUsageError, match="max_frame_bytes = 4096"):
            worker.push(keys, np.ones(1000, np.float32))
        with raw_peer(job.servers[0].info.port, stranger()) as peer:
            monitor = peer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            peer.send(b"x" * 5000)
            try:
                assert monitor.poll(LIMIT_S * 1000)
            finally:
                peer.disable_monitor()
                monitor.close(0)
        assert job.servers[0].stats.malformed == 0
        worker.wait(worker.push(keys[:100], np.ones(100, np.float32)))


@pytest.mark.parametrize(
    "identity", [None, b"ps99", b"ps", b"ps-8", b"ps099", b"sp8", b"ps9999999999"]
)
def test_strangers_are_not_served(job: Job, identity: bytes | None) -> None:
    """Data from a node that the roster does not name is counted and dropped."""
    server = job.servers[0]
    before = server.stats.unknown_sender
    with raw_peer(server.info.port, identity) as peer:
        peer.send_multipart([data_meta(), b"\0" * 8, b"\0" * 4])
        assert server.wait_until(lambda: server.stats.unknown_sender > before, LIMIT_S)


def test_requests_that_cannot_be_answered_are_dropped() -> None:
    """Of a server, which no other one is connected to, and without a timestamp to answer to."""
    body = Word(Says.NAMED, MIN_KEYS, Name(1, 0, 1)).encode()
    requests = [
        (b"ps10", data_meta(), "unknown_sender"),
        (b"ps010", data_meta(push=False, timestamp=1), "unknown_sender"),
        (b"ps0010", data_meta(body=body, timestamp=2), "unknown_sender"),
        (b"ps00010", data_meta(simple_app=True, timestamp=3), "unknown_sender"),
        (b"ps009", data_meta(timestamp=EMPTY), "malformed"),
        (b"ps0009", data_meta(timestamp=EMPTY, customer_id=1), "malformed"),
    ]
    with running_job(1, 2, resend_timeout_s=1.0) as job:
        node = job.servers[0]
        server = KVServer(node)
        server.set_request_handle(AddingStore())
        server.set_simple_handle(lambda request, app: app.simple_response(request))
        for identity, meta, counter in requests:
            before = getattr(node.stats, counter)
            with raw_peer(node.info.port, identity) as peer:
                peer.send_multipart([meta, b"\0" * 8, b"\0" * 4])
                assert node.wait_until(
                    lambda counter=counter, before=before: getattr(node.stats, counter) > before,
                    LIMIT_S,
                )
        worker = KVWorker(job.workers[0])
        worker.wait(worker.push(np.array([77], np.uint64), np.ones(1, np.float32)))


def test_the_resender_remembers_no_strangers() -> None:
    """Whatever number they give, and however many they are."""
    with running_job(1, 1, resend_timeout_s=1.0) as job:
        server = job.servers[0]
        for count in range(1, 6):
            with raw_peer(server.info.port, stranger()) as peer:
                peer.send_multipart([data_meta(), b"\0" * 8, b"\0" * 4])
                assert server.wait_until(
                    lambda count=count: server.stats.unknown_sender == count, LIMIT_S
                )
        assert server._resender._seen.keys() <= {1, 8, 9}


def test_second_peer_of_an_identity_does_not_cut_off_the_first() -> None:
    """A process left over from another job may reconnect under the id of a live node."""
    with (
        running_job(1, 1, lifetime_s=5.0, barrier_timeout_s=5.0) as job,
        raw_peer(job.port, b"ps9") as impostor,
    ):
        monitor = impostor.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        try:
            impostor.connect(f"tcp://{HOST}:{job.port}")
            assert monitor.poll(LIMIT_S * 1000)
        finally:
            impostor.disable_monitor()
            monitor.close(0)
        together(*(lambda n=node: n.barrier(6) for node in job.workers + job.servers))


def test_a_server_follows_a_worker_that_connects_anew() -> None:
    """Once each time, and the worker does not follow in turn; nothing else changes."""
    with running_job(1, 1) as job:
        worker, server = job.workers[0], job.servers[0]
        KVServer(server).set_request_handle(AddingStore())
        kv = KVWorker(worker)
        keys, ones = np.array([7], np.uint64), np.ones(1, np.float32)
        kv.wait(kv.push(keys, ones))
        opened: list[tuple[int, int]] = []
        for node in (worker, server):
            connect = node._van.connect

            def counted(peer: int, *rest: Any, node=node, connect=connect) -> None:
                opened.append((node.id, peer))
                connect(peer, *rest)

            node._van.connect = counted  # type: ignore[method-assign]
        for _ in range(3):
            worker.reconnect(server.id)
            for _ in range(2):
                kv.wait(kv.push(keys, ones))
        assert opened == 3 * [(worker.id, server.id), (server.id, worker.id)]
        timestamp = kv.pull(keys)
        assert kv.wait(timestamp).vals.tolist() == [7.0]


@pytest.mark.parametrize("command", [Command.TERMINATE, Command.ACK, 6, -1, 2**31 - 1])
def test_commands_without_meaning_are_counted(job: Job, command: int) -> None:
    """Nobody can terminate a node over the network, and unknown commands are harmless."""
    node = job.servers[0]
    before = node.stats.unknown_command
    with raw_peer(node.info.port, stranger()) as peer:
        peer.send(encode(Meta(control=Control(command))))
        assert node.wait_until(lambda: node.stats.unknown_command > before, LIMIT_S)


@pytest.mark.parametrize(
    "control",
    [
        Control(Command.ADD_NODE, (NodeInfo(Role.SERVER, HOST, 1, 8),)),
        Control(Command.BARRIER, barrier_group=7),
    ],
)
def test_control_from_strangers_is_counted(job: Job, control: Control) -> None:
    """Only the scheduler may send a roster or end a barrier, and only when asked."""
    server = job.servers[0]
    before = server.stats.unexpected_control
    with raw_peer(server.info.port, stranger()) as peer:
        peer.send(encode(Meta(control=control)))
        assert server.wait_until(lambda: server.stats.unexpected_control > before, LIMIT_S)
    assert server.id == 8


KEYS = np.array([1, 2], np.uint64)
VALS = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("flags", "arrays", "reason"),
    [
        ({"push": False}, (KEYS, VALS), "neither push nor pull"),
        ({}, (), "no keys and values"),
        ({}, (KEYS,), "no keys and values"),
        ({}, (KEYS.view(np.int64), VALS), "keys are not uint64, or none"),
        ({}, (KEYS[:0], VALS), "keys are not uint64, or none"),
        ({}, (KEYS[::-1], VALS), "keys are not sorted and unique"),
        ({}, (KEYS[[1, 1]], VALS), "keys are not sorted and unique"),
        ({}, (KEYS, VALS[:1]), "values do not fit the keys"),
        ({}, (KEYS, VALS, np.ones(1, np.int32)), "lens do not fit keys and values"),
        ({}, (KEYS, VALS, VALS), "lens do not fit keys and values"),
        ({"push": False, "pull": True}, (KEYS, VALS), "values in a pull"),
    ],
)
def test_invalid_requests_are_rejected_by_reason(flags, arrays, reason) -> None:  # type: ignore[no-untyped-def]
    """A request that could corrupt the sums never reaches the handle."""
    with running_job(1, 1) as job:
        node = job.servers[0]
        server = KVServer(node)
        handled: list[KVMeta] = []

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            handled.append(meta)
            server.response(meta)

        server.set_request_handle(handle)
        fields = {"request": True, "push": True, "app_id": 0, "customer_id": 0, "timestamp": 0}
        job.workers[0].send(node.id, Meta(**(fields | flags)), arrays)
        assert node.wait_until(lambda: server.rejected.total() == 1, LIMIT_S)
        assert server.rejected == {reason: 1}
        assert not handled


def test_the_sender_of_an_invalid_request_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here of one whose own check is missing."""
    monkeypatch.setattr("host_stack.kv.known.check_keys", lambda keys: None)
    with running_job(1, 1) as job:
        KVServer(job.servers[0]).set_request_handle(lambda *_: pytest.fail("it was handled"))
        worker = KVWorker(job.workers[0])
        with pytest.raises(KVRefused, match="refuses: keys are not sorted and unique"):
            worker.wait(worker.push(KEYS[::-1], VALS))


def test_responses_that_nobody_waits_for_are_counted() -> None:
    """A late or second response completes nothing, and workers serve no pushes."""
    with running_job(1, 1) as job:
        node, server_node = job.workers[0], job.servers[0]
        worker = KVWorker(node)
        push = worker.push(np.array([1], np.uint64), np.ones(1, np.float32))

        def tell(timestamp: int, request: bool = False) -> None:
            meta = Meta(request=request, push=True, app_id=0, customer_id=0, timestamp=timestamp)
            server_node.send(node.id, meta)

        tell(12345)
        assert node.wait_until(lambda: node.stats.unexpected_response == 1, LIMIT_S)
        assert not worker.done(push)
        tell(push)
        tell(push)
        tell(0, request=True)
        assert node.wait_until(lambda: node.stats.unexpected_request == 1, LIMIT_S)
        assert node.stats.unexpected_response == 2
        assert worker.done(push)


def test_scheduler_answers_heartbeats_and_refuses_late_nodes() -> None:
    """A heartbeat comes back with the scheduler's own address; a surplus node is counted."""
    with running_job(1, 1) as job:
        worker = job.workers[0]
        worker.send(1, Meta(control=Control(Command.HEARTBEAT, (worker.info,))))
        assert worker.wait_until(lambda: worker.stats.heartbeats == 1, LIMIT_S)
        late = Node(config(Role.WORKER, job.port, 1, 1))
        with pytest.raises(KVTimeout, match=r"no roster has come.*and not one more"):
            late.start(0.3)
        late.close()


def test_registration_bytes_of_a_node() -> None:
    """A node registers with exactly the bytes of the C++ library."""
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    port = router.bind_to_random_port(f"tcp://{HOST}")
    node = Node(config(Role.WORKER, port, 1, 1))
    try:
        node.bind()
        with pytest.raises(KVTimeout, match="no roster has come"):
            node.start(0.2)
        assert router.poll(LIMIT_S * 1000)
        identity, frame = router.recv_multipart()
        assert not identity.startswith(b"ps")
        assert decode(frame) == Meta(
            control=Control(Command.ADD_NODE, (NodeInfo(Role.WORKER, HOST, node.info.port),)),
            timestamp=0,
        )
    finally:
        node.close()
        router.close(0)
        context.term()


def test_missing_scheduler_is_a_timeout_that_names_it() -> None:
    """Nobody at the address: the error says where and what is expected."""
    node = Node(config(Role.SERVER, 1, 3, 2))
    try:
        with pytest.raises(KVTimeout, match=r"127\.0\.0\.1:1: .* all 3 workers and 2 servers"):
            node.start(0.2)
        with pytest.raises(KVUsageError, match="no id yet"):
            _ = node.id
    finally:
        node.close()


def test_missing_nodes_are_counted_by_the_scheduler() -> None:
    """The scheduler says how many of each role have not come."""
    node = Node(config(Role.SCHEDULER, 0, 2, 1))
    try:
        with pytest.raises(KVTimeout, match="2 of 2 workers and 1 of 1 servers"):
            node.start(0.2)
    finally:
        node.close()


def test_port_in_use_is_a_typed_error() -> None:
    """The address is in the message."""
    first = Node(config(Role.SCHEDULER, 0, 1, 1))
    port = first.bind()
    second = Node(config(Role.SCHEDULER, port, 1, 1))
    try:
        with pytest.raises(KVConnectError, match=f"cannot listen on {HOST}:{port}"):
            second.bind()
    finally:
        first.close()
        second.close()


def test_disagreement_about_the_size_of_the_job_is_named() -> None:
    """A node that expects more servers than the scheduler refuses the roster."""
    port, done = start_scheduler(1, 1, lifetime_s=0.2)
    good = Node(config(Role.SERVER, port, 1, 1))
    bad = Node(config(Role.WORKER, port, 1, 2))

    def start_bad() -> None:
        with pytest.raises(KVProtocolError, match="1 workers and 2 servers"):
            bad.start(LIMIT_S)

    def start_good() -> None:
        with pytest.raises(KVTimeout, match="barrier on group 7"):
            good.start(1.0)

    try:
        together(start_bad, start_good)
    finally:
        good.close()
        bad.close()
    done.cancel()


def test_barrier_can_be_waited_for_again_after_a_timeout() -> None:
    """A late node does not spoil the barrier, and another group cannot be mixed in."""
    with running_job(2, 1) as job:
        first, second = job.workers
        with pytest.raises(KVTimeout, match="barrier on group 4"):
            first.barrier(4, 0.05)
        with pytest.raises(KVUsageError, match="group 4 is still pending"):
            first.barrier(6, 0.05)
        together(lambda: first.barrier(4), lambda: second.barrier(4))


def test_errors_of_a_handle_come_out_of_process() -> None:
    """Without a thread, the owner of the loop gets the exception itself."""
    port, done = start_scheduler(1, 1, lifetime_s=0.3)
    server_node = Node(config(Role.SERVER, port, 1, 1), threaded=False)
    worker_node = Node(config(Role.WORKER, port, 1, 1))

    def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
        raise RuntimeError("store is broken")

    try:
        together(server_node.start, worker_node.start)
        KVServer(server_node).set_request_handle(handle)
        KVWorker(worker_node).push(np.array([1], np.uint64), np.ones(1, np.float32))
        assert server_node.socket.poll(LIMIT_S * 1000)
        with pytest.raises(RuntimeError, match="store is broken"):
            server_node.process()
    finally:
        server_node.close()
        worker_node.close()
    done.exception(LIMIT_S)


def test_closed_nodes_refuse_everything() -> None:
    """Each call after close says so, and close may be repeated."""
    node = Node(config(Role.WORKER, 1, 1, 1), threaded=False)
    node.close()
    node.close()
    for call in (node.bind, node.start, node.process):
        with pytest.raises(KVUsageError, match="closed"):
            call()


def test_modes_of_reception_are_not_mixed(job: Job) -> None:
    """A node with a thread of its own cannot be driven."""
    with pytest.raises(KVUsageError, match="threaded=False"):
        job.workers[0].process()
    with pytest.raises(KVUsageError, match="started already"):
        job.workers[0].start()


def test_a_restarted_node_gets_its_id_back() -> None:
    """A process that takes the place of a dead one is met again by all that talked to it."""
    with running_job(1, 1) as job:
        old = job.workers[0]
        KVServer(job.servers[0]).set_request_handle(AddingStore())
        old.close()
        new = job.workers[0] = Node(old.config)
        new.start(LIMIT_S)
        assert (new.id, new.info.is_recovery) == (old.id, True)
        app = KVWorker(new)
        app.wait(app.push(np.array([1], np.uint64), np.ones(1, np.float32)), LIMIT_S)
        assert new.roster == job.servers[0].roster


def test_a_restarted_server_is_met_at_its_new_address() -> None:
    """Workers go on with a server that came back, on the connection that the scheduler names."""
    with running_job(2, 1) as job:
        apps = [KVWorker(node) for node in job.workers]
        job.servers[0].close()
        new = job.servers[0] = Node(job.servers[0].config)
        KVServer(new).set_request_handle(AddingStore())
        new.start(LIMIT_S)
        for node in job.workers:
            assert node.wait_until(lambda node=node: new.info in node.roster, LIMIT_S)
        for app in apps:
            app.wait(app.push(np.array([1], np.uint64), np.ones(1, np.float32)), LIMIT_S)
