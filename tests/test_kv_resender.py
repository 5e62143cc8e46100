"""Acknowledgements: golden bytes, lost and repeated messages, nodes that are given up."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_stack.kv import KVNodeLost, KVServer, KVTimeout, KVWorker, Node, NodeStats
from host_stack.kv import resender as module
from host_stack.kv.liveness import Liveness
from host_stack.kv.message import Message
from host_stack.kv.resender import Resender, signature
from host_stack.kv.wire import EMPTY, Command, Control, Meta, decode, encode
from tests.kv_jobs import LIMIT_S, AddingStore, lose, running_job

PUSH = Meta(head=0, request=True, push=True, app_id=0, customer_id=0, timestamp=3)


def test_acknowledgement_bytes() -> None:
    """Those that the C++ library sent for the first answer of server 8 to worker 9."""
    frame = bytes.fromhex(
        "08ffffffff07 1a0a 0804 2080808080908102 2000 2800 3000 50ffffffff07 6000 6800"
    )
    sig = signature(PUSH._replace(request=False, timestamp=0), 8, 9)
    meta = Meta(control=Control(Command.ACK, msg_sig=sig))
    assert encode(meta).hex(" ") == frame.hex(" ")
    assert decode(frame) == meta


@given(st.integers(0, 2**31 - 2), st.booleans(), st.sampled_from([0, 7, EMPTY]))
def test_signatures_name_a_message(timestamp: int, request: bool, app: int) -> None:
    """Its app, both ends, its timestamp and direction; 8 bits of an id, as in ps-lite."""
    meta = Meta(app_id=app, timestamp=timestamp, request=request)
    sig = signature(meta, 300, 9)
    assert sig < 1 << 64
    assert sig >> 48 == (0xFFFF if app == EMPTY else app)
    assert (sig >> 40 & 0xFF, sig >> 32 & 0xFF) == (300 & 0xFF, 9)
    assert sig & 0xFFFFFFFF == timestamp * 2 + request


class Wire:
    """A node as a resender sees it, which notes what is sent."""

    def __init__(self, identifier: int) -> None:
        self.id = identifier
        self.config = type("Config", (), {"resend_timeout_s": 1.0})
        self.roster = ("somebody",)
        self.stats = NodeStats()
        self.liveness = Liveness(self)  # type: ignore[arg-type]
        self.sent: list[tuple[int, Meta]] = []

    def send_once(self, peer: int, meta: Meta, arrays: Any = ()) -> None:
        """Note it."""
        self.sent.append((peer, meta))


def test_messages_are_sent_again_until_they_are_acknowledged() -> None:
    """Ever later, and a node that acknowledges none of eleven is given up."""
    node = Wire(9)
    resender = Resender(node)  # type: ignore[arg-type]
    resender.sent(8, PUSH, ())
    resender.sent(10, PUSH._replace(timestamp=4), ())
    now = 1e9
    resender.tick(now)
    assert [peer for peer, _ in node.sent] == [8, 10]
    ack = Meta(control=Control(Command.ACK, msg_sig=signature(PUSH, 9, 8)))
    assert resender.received(Message(ack, 8))
    resender.tick(now + 0.5)
    assert len(node.sent) == 2
    for retry in range(2, module.MAX_RETRIES + 5):
        resender.tick(now := now + 1000 * retry)
    assert [peer for peer, _ in node.sent] == [8] + [10] * module.MAX_RETRIES
    assert node.liveness.lost == {10}
    node.liveness.heard(10)
    assert not node.liveness.lost


def test_an_answer_settles_its_request() -> None:
    """It says as much as an ACK, and is acknowledged itself."""
    node = Wire(9)
    resender = Resender(node)  # type: ignore[arg-type]
    resender.sent(8, PUSH, ())
    answer = PUSH._replace(request=False)
    assert not resender.received(Message(answer, 8))
    assert [meta.control.msg_sig for _, meta in node.sent if meta.control] == [
        signature(answer, 8, 9)
    ]
    resender.tick(1e9)
    assert len(node.sent) == 1


def other_customer(meta: Meta) -> Meta:
    """The same of another customer, which has the same signature."""
    return meta._replace(customer_id=1)


def test_customers_with_the_same_timestamp_are_settled_one_by_one() -> None:
    """By an answer, and by the ACK of a node of ours, which bears the customer."""
    peer = Wire(8)
    assert not Resender(peer).received(Message(other_customer(PUSH), 9))  # type: ignore[arg-type]
    (_, ack), answer = peer.sent[0], other_customer(PUSH)._replace(request=False)
    assert ack.control is not None
    assert ack.control.msg_sig == signature(PUSH, 9, 8)
    for settling in (ack, answer):
        node = Wire(9)
        resender = Resender(node)  # type: ignore[arg-type]
        for sent in (PUSH, other_customer(PUSH)):
            resender.sent(8, sent, ())
        for _ in range(2):
            resender.received(Message(settling, 8))
        resender.tick(1e9)
        assert [meta for _, meta in node.sent if meta.control is None] == [PUSH]


def test_control_messages_have_timestamps_of_their_own() -> None:
    """A barrier and a request with the same one are both taken, and settled one by one."""
    barrier = PUSH._replace(push=False, control=Control(Command.BARRIER))
    receiver, sender = Wire(1), Wire(9)
    taking, keeping = (Resender(node) for node in (receiver, sender))  # type: ignore[arg-type]
    for meta in (PUSH, barrier):
        keeping.sent(1, meta, ())
        assert not taking.received(Message(meta, 9))
        assert taking.received(Message(meta, 9))
    _, ack = next(each for each in reversed(receiver.sent))
    keeping.received(Message(ack, 1))  # of the barrier; that of the push is lost
    keeping.tick(1e12)
    assert [meta for _, meta in sender.sent] == [PUSH]


def test_repeated_messages_are_acknowledged_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each customer and process of a peer; what lies far back is forgotten."""
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    node = Wire(8)
    resender = Resender(node)  # type: ignore[arg-type]
    assert not resender.received(Message(PUSH, 9))
    assert resender.received(Message(PUSH, 9))
    assert not resender.received(Message(PUSH._replace(customer_id=1), 9))
    assert not resender.received(Message(PUSH, 11))
    resender.forget(9)
    assert not resender.received(Message(PUSH, 9))
    for timestamp in (4, 5):
        assert not resender.received(Message(PUSH._replace(timestamp=timestamp), 9))
    assert not resender.received(Message(PUSH, 9))
    assert node.stats.repeated == 1
    assert len(node.sent) == 8
    assert not resender.received(Message(PUSH, None))
    assert len(node.sent) == 8


def test_sums_are_right_however_much_is_lost() -> None:
    """Each push counts once, each pull is answered, and the job ends in order."""
    with running_job(2, 2, resend_timeout_s=0.05) as job:
        stores = [AddingStore() for _ in job.servers]
        for node, store in zip(job.servers, stores, strict=True):
            KVServer(node).set_request_handle(store)
        for seed, node in enumerate(job.workers + job.servers):
            lose(node, 0.2, seed)
        keys = np.linspace(0, 2**63, 50).astype(np.uint64)
        workers = [KVWorker(node) for node in job.workers]
        for _ in range(10):
            pushes = [worker.push(keys, np.ones(50, np.float32)) for worker in workers]
            for worker, push in zip(workers, pushes, strict=True):
                worker.wait(push)
        assert workers[0].wait(workers[0].pull(keys)).vals.tolist() == [20.0] * 50
        assert sum(store.pushes for store in stores) == 40
        assert sum(node.stats.resent for node in job.workers + job.servers) > 0
        for node in job.workers + job.servers:
            del node._van.receive  # type: ignore[method-assign]


def test_a_server_that_acknowledges_nothing_is_lost_before_the_deadline() -> None:
    """The error names it, long before the wait would end."""
    with running_job(1, 1, resend_timeout_s=0.002) as job:
        lose(job.servers[0], 1.0, 1)
        worker = KVWorker(job.workers[0])
        push = worker.push(np.array([1], np.uint64), np.ones(1, np.float32))
        with pytest.raises(KVNodeLost, match=r"push 0: server 0 \(id 8\) is lost") as caught:
            worker.wait(push, LIMIT_S)
        assert caught.value.missing == (8,)
        assert job.workers[0].lost == {8}
        job.abandon()


def test_heartbeats_tell_the_scheduler_who_lives() -> None:
    """A silent node is lost to it until something comes from it again."""
    with running_job(1, 1, heartbeat_interval_s=0.02, heartbeat_timeout_s=30.0) as job:
        worker = job.workers[0]
        assert worker.wait_until(lambda: worker.stats.heartbeats > 2, LIMIT_S)
        assert not worker.lost


def test_a_silent_scheduler_ends_the_wait_for_a_barrier() -> None:
    """Its heartbeats stop coming, and nobody waits for ever."""
    with running_job(1, 1, heartbeat_interval_s=0.02, heartbeat_timeout_s=0.2) as job:
        worker = job.workers[0]
        lose(worker, 1.0, 1)
        with pytest.raises(KVTimeout, match="the scheduler is lost in the barrier on group 6"):
            worker.barrier(6, LIMIT_S)
        job.abandon()


def test_customers_of_one_process_count_as_workers() -> None:
    """Two apps of one node, which registers and arrives at barriers as two."""
    with running_job(1, 1, customers=2) as job:
        KVServer(job.servers[0]).set_request_handle(AddingStore())
        node = job.workers[0]
        assert len(node.roster) == 4
        assert node.members(4) == (9,)
        keys = np.array([5, 6], np.uint64)
        workers = [KVWorker(node, 0, customer) for customer in range(2)]
        for worker in workers:
            worker.wait(worker.push(keys, np.ones(2, np.float32)))
        assert workers[1].wait(workers[1].pull(keys)).vals.tolist() == [2, 2]
        node.barrier(4)


def test_jobs_of_one_machine_need_no_network() -> None:
    """With `local`, nodes meet at Unix-domain sockets."""
    with running_job(1, 2, local=True) as job:
        for node in job.servers:
            KVServer(node).set_request_handle(AddingStore())
        worker = KVWorker(job.workers[0])
        keys = np.array([5, 2**63 + 1], np.uint64)
        worker.wait(worker.push(keys, np.ones(2, np.float32)))
        assert worker.wait(worker.pull(keys)).vals.tolist() == [1, 1]


def test_a_request_to_a_server_that_is_started_anew_is_lost() -> None:
    """It fails at once, by name; the next one is answered by the new process."""
    with running_job(1, 1, resend_timeout_s=0.2) as job:
        app = KVWorker(job.workers[0])
        keys, ones = np.array([1], np.uint64), np.ones(1, np.float32)
        KVServer(job.servers[0]).set_request_handle(lambda meta, pairs, server: None)
        pushed = app.push(keys, ones)
        job.servers[0].close()
        new = job.servers[0] = Node(job.servers[0].config)
        KVServer(new).set_request_handle(AddingStore())
        new.start(LIMIT_S)
        with pytest.raises(KVNodeLost, match=r"server 0 .* was started anew"):
            app.wait(pushed)
        app.wait(app.push(keys, ones))
