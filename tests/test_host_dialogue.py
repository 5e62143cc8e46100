"""How long a worker waits for the server."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from host_stack import dialogue as module
from host_stack.control import Answer, Head, Kind, Known, Request
from host_stack.dialogue import Dialogue
from host_stack.errors import PushFailed
from host_stack.kv.node import Node
from host_stack.kv.worker import KVWorker
from tests.host_support import ScriptedTransport, VirtualTime
from tests.job_in_memory import make_job

QUESTION = Request(1, 0, 0, committed=2)
EVERY_S = 25.0
"""Between two questions."""


class Answering(Dialogue):
    """Waits in virtual time for a server that tells how many rounds are committed."""

    def __init__(self, clock: VirtualTime, committed: list[int]) -> None:
        job = make_job(1, 10, 20, 1)
        kv = cast(KVWorker, None)
        super().__init__(job, cast(Node, None), kv, cast(Any, ScriptedTransport()), Counter())
        self.patience_s = job.timeouts_s["commit"]
        self._clock = clock
        self._committed = committed
        self._inquiry = cast(Any, self)

    def cancel(self) -> None:
        """The inquiry: begin to wait."""

    def poll(self, head: Head, _question: Request, _stalled_s: float) -> Answer | None:
        """The inquiry: each question is answered, if any is; the last answer over and over."""
        assert head is Head.STATUS
        if not self._committed:
            return None
        committed = self._committed.pop(0) if len(self._committed) > 1 else self._committed[0]
        return Answer(Kind.OPEN, 1, Known.DONE, 0, committed)

    def receive(self, timeout_s: float = 0.0) -> None:
        """Nothing comes."""
        self._clock.now_s += EVERY_S


def waits_s(monkeypatch: pytest.MonkeyPatch, committed: list[int]) -> tuple[float, float]:
    """How long a worker waits that hears of so many rounds; its patience."""
    clock = VirtualTime()
    monkeypatch.setattr(module, "time", clock)
    dialogue = Answering(clock, committed)
    began = clock.now_s
    with pytest.raises(PushFailed, match="did not let it go on"):
        dialogue.until(QUESTION, lambda: False, lambda _answer: False, "let it go on")
    return clock.now_s - began, dialogue.patience_s


def test_gives_up_where_nothing_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is not progress."""
    waited_s, patience_s = waits_s(monkeypatch, [2])
    assert patience_s < waited_s <= patience_s + EVERY_S


def test_waits_for_others_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has ended waits for the steps of slower ones, as long as rounds are committed.

    Out of step it may have to for much longer than for one round.
    """
    waited_s, patience_s = waits_s(monkeypatch, [2, *range(3, 13)])
    commits_s = 11 * EVERY_S
    assert commits_s + patience_s < waited_s <= commits_s + patience_s + EVERY_S


@pytest.mark.parametrize(
    ("committed", "heard"),
    [
        ([4], r"its last answer, after \d+ s, was OPEN: DONE known, 4 rounds committed"),
        ([], "it answered no question"),
    ],
)
def test_the_error_says_what_the_server_said(
    monkeypatch: pytest.MonkeyPatch, committed: list[int], heard: str
) -> None:
    """Whether it waits for somebody else, or does not answer at all."""
    clock = VirtualTime()
    monkeypatch.setattr(module, "time", clock)
    with pytest.raises(PushFailed, match=heard):
        Answering(clock, committed).until(QUESTION, lambda: False, lambda _answer: False, "go on")
