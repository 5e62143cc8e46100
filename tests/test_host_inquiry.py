"""A worker asks a silent server again, and over another connection before long."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import cast

import pytest

from host_stack import inquiry as module
from host_stack.control import Answer, Head, Kind, Known, Request
from host_stack.inquiry import EVERY_S, MAX_RECONNECT_S, RECONNECT_S, Inquiry
from host_stack.kv.ids import server_id
from host_stack.kv.worker import KVWorker
from tests.host_support import VirtualTime

REQUEST = Request(1, 0, 0, 0)
ANSWER = Answer(Kind.OPEN, 1, Known.NOTHING, 0, 0)
TICK_S = 0.05


class Answered:
    """An answer as the ps-lite worker hands it out."""

    def __init__(self, body: str) -> None:
        self.body = body


class Asked:
    """A server's end of questions, of which the last can be answered."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.open: set[int] = set()
        self.answered: set[int] = set()

    def request(self, head: Head, body: str, receiver: int) -> int:
        """A question."""
        assert (head, body, receiver) == (Head.STATUS, REQUEST.encode(), server_id(0))
        self.sent.append(len(self.sent))
        self.open.add(self.sent[-1])
        return self.sent[-1]

    def forget(self, timestamp: int) -> None:
        """A question that nobody waits for any more."""
        self.open.remove(timestamp)

    def done(self, timestamp: int) -> bool:
        """Whether it is answered."""
        return timestamp in self.answered

    def wait(self, timestamp: int, _timeout_s: float) -> dict[int, Answered]:
        """Its answer."""
        self.open.remove(timestamp)
        return {server_id(0): Answered(ANSWER.encode())}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualTime:
    """The time of the module under test."""
    clock = VirtualTime()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Silence:
    """A worker that waits, and notes when it asks and when it connects anew."""

    def __init__(self, clock: VirtualTime) -> None:
        self.clock = clock
        self.server = Asked()
        self.reconnected_at: list[float] = []
        self.asked_at: list[float] = []
        kv = cast(KVWorker, self.server)
        self.inquiry = Inquiry(
            kv, Counter(), lambda: self.reconnected_at.append(self.clock.now_s - self.begun)
        )
        self.begun = clock.now_s

    def poll(self, seconds: float) -> Answer | None:
        """Wait so long, or until there is an answer."""
        end = self.clock.now_s + seconds
        while self.clock.now_s < end:
            before = len(self.server.sent)
            answer = self.inquiry.poll(Head.STATUS, REQUEST, float("inf"))
            if len(self.server.sent) > before:
                self.asked_at.append(self.clock.now_s - self.begun)
            if answer is not None:
                return answer
            self.clock.now_s += TICK_S
        return None


def test_a_silent_server_is_connected_to_anew(clock: VirtualTime) -> None:
    """Questions and connections become rarer, and never cease."""
    silence = Silence(clock)
    assert silence.poll(120) is None
    gaps = [later - at for at, later in pairwise(silence.asked_at)]
    assert gaps[0] == pytest.approx(EVERY_S, abs=2 * TICK_S)
    assert max(gaps) <= module.MAX_EVERY_S + 2 * TICK_S
    times = silence.reconnected_at
    assert times[0] == pytest.approx(RECONNECT_S, abs=module.MAX_EVERY_S)
    waits = [later - at for at, later in pairwise(times)]
    assert waits == sorted(waits)
    assert waits[0] >= 2 * RECONNECT_S
    assert max(waits) <= MAX_RECONNECT_S + module.MAX_EVERY_S
    assert silence.server.open == set(silence.server.sent)
    silence.inquiry.cancel()
    assert silence.server.open == set()


def test_an_answer_may_take_longer_than_the_next_question(clock: VirtualTime) -> None:
    """As one with a placement does over a slow link: all workers ask again before it is there."""
    silence = Silence(clock)
    assert silence.poll(5) is None
    assert len(silence.server.sent) > 2
    silence.server.answered.add(silence.server.sent[0])
    assert silence.poll(1) == ANSWER
    assert silence.server.open == set()
    assert len(silence.asked_at) == len(silence.server.sent)


def test_a_server_that_answers_keeps_its_connection(clock: VirtualTime) -> None:
    """However often it is asked; after a silence all begins anew."""
    silence = Silence(clock)
    for _ in range(20):
        assert silence.poll(RECONNECT_S / 2) is None
        silence.server.answered.add(silence.server.sent[-1])
        assert silence.poll(1) == ANSWER
    assert silence.reconnected_at == []
    silence.poll(3 * RECONNECT_S)
    assert len(silence.reconnected_at) == 1


def test_answers_do_not_bring_quick_connections_back(clock: VirtualTime) -> None:
    """What is waited for is on its way meanwhile: only another wait begins anew."""
    silence = Silence(clock)
    for _ in range(4):
        assert silence.poll(2 * RECONNECT_S) is None
        silence.server.answered.add(silence.server.sent[-1])
        assert silence.poll(1) == ANSWER
    assert len(silence.reconnected_at) == 1
    silence.inquiry.cancel()
    assert silence.poll(2 * RECONNECT_S) is None
    assert len(silence.reconnected_at) == 2


def test_nothing_is_asked_while_things_move(clock: VirtualTime) -> None:
    """Only who has waited for a while asks."""
    silence = Silence(clock)
    assert silence.inquiry.poll(Head.STATUS, REQUEST, module.AFTER_S) is None
    assert silence.server.sent == []
