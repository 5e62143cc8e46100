"""Words about keys that fit nothing: in requests to a server, and in answers to a worker."""

import numpy as np
import pytest

from host_stack.kv import KVProtocolError, KVServer
from host_stack.kv.message import Array, Message
from host_stack.kv.requests import Again
from host_stack.kv.sparing import NO_KEYS, Exchange, Sparing
from host_stack.kv.wire import Meta
from host_stack.kv.word import MIN_KEYS, Name, Says, Word, word_of
from tests.kv_jobs import LIMIT_S, AddingStore, listen, running_job
from tests.test_kv_sparing import ROOM

NAME = Name(5, 0, 1)
SOME = np.arange(MIN_KEYS, dtype=np.uint64)
ONES = np.ones(MIN_KEYS, np.float32)


@pytest.mark.parametrize(
    ("body", "arrays", "reason"),
    [
        (Word(Says.KEEP, MIN_KEYS, NAME).encode()[:-1], (SOME, ONES), "that is none"),
        (Word(Says.LACKING, MIN_KEYS, NAME).encode(), (SOME, ONES), "that is none"),
        (Word(Says.VALUES, MIN_KEYS).encode(), (SOME, ONES), "that is none"),
        (Word(Says.KEEP, 2**64 - 1, NAME).encode(), (SOME, ONES), "other keys"),
        (Word(Says.NAMED, MIN_KEYS, NAME).encode(), (SOME, ONES), "other keys"),
        (Word(Says.NAMED, MIN_KEYS, NAME).encode(), (), "other keys"),
        (Word(Says.NAMED, MIN_KEYS, NAME).encode(), (ONES[:0], ONES), "other keys"),
        (Word(Says.KEEP, MIN_KEYS, NAME).encode(), (SOME[::-1], ONES), "not sorted"),
    ],
)
def test_words_that_do_not_fit_are_rejected(
    body: bytes, arrays: tuple[Array, ...], reason: str
) -> None:
    """Counted by reason, and their sender is told; nothing is kept."""
    with running_job(1, 1, **ROOM) as job:
        server = KVServer(job.servers[0])
        server.set_request_handle(lambda *_: pytest.fail("it was handled"))
        answers: list[Message] = []
        listen(job.workers[0], answers)
        meta = Meta(request=True, push=True, app_id=0, customer_id=0, timestamp=0, body=body)
        job.workers[0].send(server.node.id, meta, arrays)
        assert server.node.wait_until(lambda: server.rejected.total() == 1, LIMIT_S)
        assert reason in next(iter(server.rejected))
        assert server._kept.size_bytes == 0
        assert job.workers[0].wait_until(lambda: bool(answers), LIMIT_S)
        assert answers[0].meta.pull
        assert reason.encode() in answers[0].meta.body


def test_a_name_that_a_server_lacks_costs_it_nothing() -> None:
    """However many there are, and whatever number of keys they claim."""
    with running_job(1, 1, **ROOM) as job:
        server = KVServer(job.servers[0])
        server.set_request_handle(lambda *_: pytest.fail("it was handled"))
        node = job.workers[0]
        for number in range(1, 51):
            name = Name(number, number % 16, number)
            body = Word(Says.NAMED, 2**64 - 1, name).encode()
            meta = Meta(
                request=True, push=True, app_id=0, customer_id=number, timestamp=number, body=body
            )
            node.send(server.node.id, meta, (NO_KEYS, ONES))
        assert node.wait_until(lambda: node.stats.unknown_customer == 50, LIMIT_S)
        assert not server._kept._shelves
        assert not server.rejected


def test_bodies_of_others_are_nobodys_business() -> None:
    """As in the C++ library, which looks at none."""
    with running_job(1, 1, **ROOM) as job:
        store = AddingStore()
        KVServer(job.servers[0]).set_request_handle(store)
        answers: list[Message] = []
        listen(job.workers[0], answers)
        meta = Meta(request=True, push=True, app_id=0, customer_id=0, timestamp=0, body=b"keys/2 ")
        job.workers[0].send(job.servers[0].id, meta, (SOME, ONES))
        assert job.workers[0].wait_until(lambda: bool(answers), LIMIT_S)
        assert answers[0].meta.body == b""
        assert store.pushes == 1


def answer(says: Says, *arrays: Array, name: Name = NAME, count: int = MIN_KEYS) -> Message:
    """What server 0 answers to a request of both kinds."""
    body = Word(says, count, name).encode()
    return Message(Meta(push=True, pull=True, timestamp=0, body=body), 8, arrays)


def asked(says: Says, name: Name | None) -> Exchange:
    """A request that has said something, once its server knows words."""
    sparing = Sparing(is_on=True)
    if says & Says.NAMED:
        keep = Word(Says.KEEP, MIN_KEYS, NAME)
        sparing.answered(8, keep, keep)
    exchange = Exchange(sparing, name, lambda message, without_keys: (message, without_keys))
    meta = Meta(request=True, push=True, pull=True, timestamp=0)
    sent, arrays = exchange.spare(8, meta, (SOME, ONES))
    word = word_of(sent)
    assert word is not None
    assert word.says == says
    assert (arrays[0] is NO_KEYS) == bool(says & Says.NAMED)
    return exchange


@pytest.mark.parametrize(
    ("says", "name", "message"),
    [
        (Says.VALUES, None, answer(Says.KEEP, name=Name())),
        (Says.VALUES, None, answer(Says.LACKING, name=Name())),
        (Says.VALUES, None, answer(Says.VALUES)),
        (Says.VALUES | Says.KEEP, NAME, answer(Says.LACKING)),
        (Says.VALUES | Says.KEEP, NAME, answer(Says.VALUES | Says.KEEP, count=5)),
        (Says.VALUES | Says.KEEP, NAME, answer(Says.KEEP, name=Name(5, 1, 1))),
        (Says.VALUES | Says.NAMED, NAME, answer(Says.VALUES, NO_KEYS, ONES)),
        (Says.VALUES | Says.NAMED, NAME, answer(Says.LACKING, SOME, ONES)),
        (Says.VALUES | Says.NAMED, NAME, answer(Says.NAMED)),
        (Says.VALUES | Says.NAMED, NAME, Message(Meta(pull=True), 8, (SOME, ONES))),
    ],
)
def test_answers_that_fit_no_request_fail_it(
    says: Says, name: Name | None, message: Message
) -> None:
    """A server's word has to be about what was said."""
    with pytest.raises(KVProtocolError, match="server 0"):
        asked(says, name).take(message)


def test_a_second_answer_that_keys_are_lacking_fails_the_request() -> None:
    """For it was sent again with them."""
    exchange = asked(Says.VALUES | Says.NAMED, NAME)
    again = exchange.take(answer(Says.LACKING))
    assert isinstance(again, Again)
    assert again.arrays[0] is SOME
    assert not again.meta.body
    with pytest.raises(KVProtocolError, match="fits no request"):
        exchange.take(answer(Says.LACKING))
