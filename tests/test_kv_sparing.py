"""Jobs in which keys are left out: what travels, what the sums are, and who knows no words."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from host_stack.kv import (
    KVMeta,
    KVPairs,
    KVProtocolError,
    KVRefused,
    KVServer,
    KVWorker,
    Node,
)
from host_stack.kv.message import Message
from host_stack.kv.word import MIN_KEYS, Says, word_of
from tests.kv_jobs import LIMIT_S, AddingStore, Job, listen, lose, running_job, together

ROOM = {"keep_keys_bytes": 16 << 20}
COUNT = 2 * MIN_KEYS + 5000
"""Enough for two servers."""


def keys_again(count: int = COUNT, seed: int = 0) -> np.ndarray:
    """Keys all over the key space that a worker can be known to use again."""
    step = (2**64 - 1) // count
    noise = np.random.default_rng(seed).integers(0, step, count, dtype=np.uint64)
    keys = np.arange(count, dtype=np.uint64) * np.uint64(step) + noise // np.uint64(2)
    keys.flags.writeable = False
    return keys


def values(seed: int, count: int = COUNT) -> np.ndarray:
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-9, 9, count).astype(np.float32)


def serve(job: Job) -> list[AddingStore]:
    """Let all servers of a job add."""
    stores = [AddingStore() for _ in job.servers]
    for node, store in zip(job.servers, stores, strict=True):
        KVServer(node).set_request_handle(store)
    return stores


def measured(worker: KVWorker, timestamp: int, before: tuple[int, int]) -> tuple[int, int, Any]:
    """Bytes that a worker has sent and received when a request is complete, and its result."""
    result = worker.wait(timestamp)
    sent, received = traffic(worker)
    return sent - before[0], received - before[1], result


def traffic(worker: KVWorker) -> tuple[int, int]:
    """Bytes that a worker has sent and received."""
    return worker.node.stats.bytes_sent, worker.node.stats.bytes_received


def test_keys_travel_until_the_servers_have_them() -> None:
    """At the first use they may be used once, at the second they are kept, then left out."""
    with running_job(1, 2, **ROOM) as job:
        serve(job)
        worker = KVWorker(job.workers[0])
        keys, vals, out = keys_again(), values(1), np.empty(COUNT, np.float32)

        for size in (12, 12, 4, 4):
            before = traffic(worker)
            assert measured(worker, worker.push(keys, vals), before)[0] // COUNT == size
        before = traffic(worker)
        sent, received, _ = measured(worker, worker.pull(keys, out), before)
        assert sent < 1000
        assert received // COUNT == 4
        assert np.array_equal(out, 4 * vals)
        assert np.array_equal(worker.wait(worker.pull(keys)).keys, keys)


def test_answers_to_new_keys_leave_them_out() -> None:
    """Each pull asks for values alone; its keys are those of the worker."""
    with running_job(1, 2, **ROOM) as job:
        serve(job)
        worker = KVWorker(job.workers[0])
        keys, vals = keys_again(), values(2)
        worker.wait(worker.push(keys, vals))
        for _ in range(3):
            new, before = keys.copy(), traffic(worker)
            sent, received, pulled = measured(worker, worker.pull(new), before)
            assert (sent // COUNT, received // COUNT) == (8, 4)
            assert pulled.keys is new
            assert np.array_equal(pulled.vals, vals)


def test_few_keys_at_a_server_say_no_words() -> None:
    """It is the slice of each server that counts."""
    with running_job(1, 2, **ROOM) as job:
        heard: list[Message] = []
        serve(job)
        for node in job.servers:
            listen(node, heard)
        worker = KVWorker(job.workers[0])
        keys = keys_again(2 * MIN_KEYS - 100)
        vals = values(3, keys.size)
        for _ in range(4):
            assert (worker.wait(worker.push_pull(keys, vals)).vals != 0).any()
        assert len(heard) == 8
        assert not any(message.meta.body for message in heard)


def test_push_pull_and_lens_without_keys() -> None:
    """Values of each key's own number go and come; the handle sees full pairs each time."""
    with running_job(1, 2, **ROOM) as job:
        seen: list[KVPairs] = []

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            seen.append(kvs)
            server.response(meta, kvs)

        for node in job.servers:
            KVServer(node).set_request_handle(handle)
        worker = KVWorker(job.workers[0])
        keys = keys_again()
        lens = np.random.default_rng(4).integers(0, 3, COUNT).astype(np.int32)
        for turn in range(4):
            vals = values(turn, int(lens.sum()))
            pulled = worker.wait(worker.push_pull(keys, vals, lens=lens))
            assert np.array_equal(pulled.vals, vals)
            assert np.array_equal(pulled.lens, lens)
        assert all(kvs.keys.size in {seen[0].keys.size, seen[1].keys.size} for kvs in seen)
        assert all(kvs.keys.size == kvs.lens.size for kvs in seen if kvs.lens is not None)
        assert not any(kvs.keys.flags.writeable for kvs in seen)


def test_a_handle_may_answer_with_other_arrays() -> None:
    """A copy of the keys travels and is checked, other keys are an error as ever."""
    with running_job(1, 1, **ROOM) as job:
        shift = [0]

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            answered = kvs.keys + np.uint64(shift[0])
            server.response(meta, KVPairs(answered, np.ones(kvs.keys.size, np.float32)))

        KVServer(job.servers[0]).set_request_handle(handle)
        worker = KVWorker(job.workers[0])
        keys = keys_again()
        for _ in range(3):
            before = traffic(worker)
            sent, received, _ = measured(worker, worker.pull(keys), before)
        assert sent < 1000
        assert received // COUNT == 12
        shift[0] = 1
        with pytest.raises(KVProtocolError, match="keys it was not asked for"):
            worker.wait(worker.pull(keys))


@pytest.mark.parametrize("is_on_at", ["worker", "server"])
def test_a_node_without_words_is_left_alone(is_on_at: str) -> None:
    """A server that answers without one is asked once; a worker without them never asks."""
    with running_job(1, 1, **ROOM) as job:
        requests: list[Message] = []
        answers: list[Message] = []
        server = KVServer(job.servers[0])
        server.set_request_handle(AddingStore())
        listen(job.servers[0], requests)
        listen(job.workers[0], answers)
        off = replace(job.workers[0].config, keep_keys_bytes=0)
        if is_on_at == "worker":
            server._keeps = False
        else:
            job.workers[0].config = off
        worker = KVWorker(job.workers[0])
        keys, vals = keys_again(), values(5)
        for turn in range(4):
            assert np.array_equal(worker.wait(worker.push_pull(keys, vals)).vals, (turn + 1) * vals)
        said = [word_of(message.meta) is not None for message in requests]
        assert said == [is_on_at == "worker", False, False, False]
        assert not any(message.meta.body for message in answers)
        assert all(message.data[0].size == COUNT for message in requests + answers)


def test_a_pull_comes_behind_the_pushes_before_it() -> None:
    """Nobody waits for them, and some of them are with keys and some without."""
    with running_job(1, 2, **ROOM) as job:
        serve(job)
        worker = KVWorker(job.workers[0])
        keys, others, vals = keys_again(), keys_again(seed=1), values(14)
        for turn in range(8):
            worker.push(keys, vals)
            if turn % 3:
                worker.push(others, vals)
            pulled = worker.wait(worker.pull(keys[:-1].copy()))
            assert np.array_equal(pulled.vals, (turn + 1) * vals[:-1])


def test_keys_that_a_server_lacks_are_sent_again_once() -> None:
    """Under the timestamp that the caller has; nothing is done twice, and they are kept anew."""
    with running_job(1, 2, **ROOM) as job:
        stores = [AddingStore() for _ in job.servers]
        servers = [KVServer(node) for node in job.servers]
        for server, store in zip(servers, stores, strict=True):
            server.set_request_handle(store)
        worker = KVWorker(job.workers[0])
        keys, vals = keys_again(), values(6)
        called: list[int] = []
        for turn in range(12):
            if turn in {4, 8}:
                servers[0].peer_returned(worker.node.id)
            before = worker.node.stats.messages_sent
            worker.wait(worker.push(keys, vals, callback=lambda: called.append(1)))
            assert worker.node.stats.messages_sent - before == 2 + (turn in {4, 8})
        assert worker.node.stats.keys_lacking == 2
        assert [store.pushes for store in stores] == [12, 12]
        assert len(called) == 12
        assert not worker._requests._requests
        for kept_turn in range(2):
            if kept_turn:
                servers[1].peer_returned(worker.node.id)
            pulled = worker.wait(worker.push_pull(keys, vals))
            assert np.array_equal(pulled.vals, (13 + kept_turn) * vals)
        assert not worker._requests._requests


def test_a_request_that_is_given_up_is_not_sent_again() -> None:
    """The answer that it lacks its keys comes to nobody."""
    with running_job(1, 1, **ROOM) as job:
        server, store = KVServer(job.servers[0]), AddingStore()
        server.set_request_handle(store)
        worker = KVWorker(job.workers[0])
        keys, vals = keys_again(), values(7)
        for _ in range(3):
            worker.wait(worker.push(keys, vals))
        server.peer_returned(worker.node.id)
        with worker.node.condition:
            worker.forget(worker.push(keys, vals))
        stats = worker.node.stats
        assert worker.node.wait_until(lambda: stats.unexpected_response == 1, LIMIT_S)
        assert (stats.keys_lacking, store.pushes) == (0, 3)


def test_a_server_that_is_started_anew_is_given_the_keys_again() -> None:
    """It has other words to show, or none."""
    with running_job(1, 1, **ROOM) as job:
        serve(job)
        worker = KVWorker(job.workers[0])
        keys, vals = keys_again(), values(8)
        for _ in range(3):
            worker.wait(worker.push(keys, vals))
        for is_on in (False, True):
            job.servers[0].close()
            changes = {} if is_on else {"keep_keys_bytes": 0}
            new = Node(replace(job.servers[0].config, **(ROOM | changes)))
            job.servers[0] = new
            heard: list[Message] = []
            listen(new, heard)
            (store,) = serve(job)
            new.start(LIMIT_S)
            assert worker.node.wait_until(lambda new=new: new.info in worker.node.roster, LIMIT_S)
            for _ in range(4):
                worker.wait(worker.push(keys, vals))
            says = [word and word.says for word in (word_of(each.meta) for each in heard)]
            expected = [Says.KEEP] + ([Says.NAMED] * 3 if is_on else [None] * 3)
            assert says == expected
            assert store.pushes == 4
        assert worker.node.stats.keys_lacking == 0


def test_a_worker_that_is_started_anew_has_other_names() -> None:
    """What its forerunner left is dropped."""
    with running_job(1, 1, **ROOM) as job:
        server = KVServer(job.servers[0])
        server.set_request_handle(AddingStore())
        keys, vals = keys_again(), values(9)
        for restarts in range(2):
            worker = KVWorker(job.workers[0])
            for turn in range(3):
                pulled = worker.wait(worker.push_pull(keys, vals))
                assert np.array_equal(pulled.vals, (1 + turn + 3 * restarts) * vals)
            assert server._kept.size_bytes == keys.nbytes
            if not restarts:
                job.workers[0].close()
                job.workers[0] = Node(job.workers[0].config)
                job.workers[0].start(LIMIT_S)
                assert server.node.wait_until(lambda: not server._kept.size_bytes, LIMIT_S)


def test_what_a_server_has_no_room_for_is_sent_each_time() -> None:
    """Its answers leave keys out all the same."""
    with running_job(1, 1, keep_keys_bytes=8 * COUNT) as job:
        server = KVServer(job.servers[0])
        server.set_request_handle(AddingStore())
        worker = KVWorker(job.workers[0])
        arrays, vals = [keys_again(seed=seed) for seed in (1, 2)], values(10)
        for turn in range(5):
            for number, keys in enumerate(arrays):
                before = traffic(worker)
                sent, received, pulled = measured(worker, worker.push_pull(keys, vals), before)
                assert np.array_equal(pulled.vals, (turn + 1) * vals)
                assert sent // COUNT == (4 if turn > 1 and number == 0 else 12)
                assert received // COUNT == 4
        assert server._kept.size_bytes == 8 * COUNT
        assert worker.node.stats.keys_lacking == 0


def test_keys_that_changed_meanwhile_are_sent() -> None:
    """Of an array that is made writeable, and read-only again or not."""
    with running_job(1, 1, **ROOM) as job:
        (store,) = serve(job)
        worker = KVWorker(job.workers[0])
        keys, vals = keys_again(), values(11)
        for _ in range(3):
            worker.wait(worker.push(keys, vals))
        for shift, writeable in ((1, True), (2, False), (3, False)):
            before = store.pushes
            keys.flags.writeable = True
            keys += np.uint64(1)
            keys.flags.writeable = writeable
            for _ in range(3):
                worker.wait(worker.push(keys, vals))
            assert store.pushes == before + 3
            assert np.array_equal(worker.wait(worker.pull(keys)).vals, 3 * vals), shift


def test_customers_and_workers_have_keys_of_their_own() -> None:
    """Two processes of two customers each, at two servers."""
    with running_job(2, 2, customers=2, **ROOM) as job:
        serve(job)

        def work(node: Node, customer: int) -> None:
            worker = KVWorker(node, customer_id=customer)
            seed = 2 * node.rank + customer
            keys, vals = keys_again(seed=seed), values(seed)
            for turn in range(5):
                pulled = worker.wait(worker.push_pull(keys, vals))
                assert np.array_equal(pulled.vals, (turn + 1) * vals)

        together(
            *(
                lambda node=node, customer=customer: work(node, customer)
                for node in job.workers
                for customer in range(2)
            )
        )


def test_sums_are_right_however_much_is_lost_repeated_or_lacking() -> None:
    """With the resender: each push counts once, whatever the servers have forgotten."""
    with running_job(2, 2, resend_timeout_s=0.05, **ROOM) as job:
        stores = [AddingStore() for _ in job.servers]
        servers = [KVServer(node) for node in job.servers]
        for server, store in zip(servers, stores, strict=True):
            server.set_request_handle(store)
        for seed, node in enumerate(job.workers + job.servers):
            lose(node, 0.1, seed)
        keys, vals = keys_again(), values(12)
        workers = [KVWorker(node) for node in job.workers]
        for turn in range(10):
            pushes = [worker.push(keys, vals) for worker in workers]
            for worker, push in zip(workers, pushes, strict=True):
                worker.wait(push)
            servers[turn % 2].peer_returned(workers[turn % 3 % 2].node.id)
        assert np.array_equal(workers[0].wait(workers[0].pull(keys)).vals, 20 * vals)
        assert sum(store.pushes for store in stores) == 40
        assert sum(worker.node.stats.keys_lacking for worker in workers) > 0
        assert sum(node.stats.resent for node in job.workers + job.servers) > 0
        for node in job.workers + job.servers:
            del node._van.receive  # type: ignore[method-assign]


def test_a_refusal_is_one_whatever_was_said() -> None:
    """Of a server that knows words."""
    with running_job(1, 1, **ROOM) as job:
        handled: list[int] = []

        def handle(meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
            handled.append(kvs.keys.size)
            if len(handled) in {2, 4}:
                server.refuse(meta, "not now")
            else:
                server.response(meta)

        KVServer(job.servers[0]).set_request_handle(handle)
        worker = KVWorker(job.workers[0])
        keys, vals = keys_again(), values(13)
        for turn in range(1, 7):
            push = worker.push(keys, vals)
            if turn in {2, 4}:
                with pytest.raises(KVRefused, match="not now"):
                    worker.wait(push)
            else:
                worker.wait(push)
        assert handled == [COUNT] * 6
