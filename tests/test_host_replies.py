"""What the server answers to its workers."""

from __future__ import annotations

import numpy as np
import pytest

from host_stack.control import Answer, Kind, Known, Request
from host_stack.incarnation import Incarnation
from host_stack.layout import make_tag
from host_stack.placement import Placement, heat_based
from host_stack.progress import BSP, Progress
from host_stack.replies import KEPT_ROUNDS, Replies
from tests.job_in_memory import LAYOUT

EPOCH, ROUNDS = 5, KEPT_ROUNDS + 3


def placement() -> Placement:
    """Of 64 keys."""
    return heat_based(np.arange(64, dtype=np.uint64), LAYOUT)


@pytest.fixture
def replies() -> Replies:
    """Of a job of one worker that has committed `ROUNDS` rounds, each with row `round % 2`."""
    progress = Progress(1, BSP, 0, [0])
    made = Replies(progress)
    made.enter(Incarnation(EPOCH, 0, 20, 1, placement()))
    for round_ in range(ROUNDS):
        progress.complete(0, round_, round_, 0.0, final=False)
        progress.commit()
        progress.release(0.0)
        made.commit(np.array([round_ % 2]))
    return made


def asking(committed: int, version: int = 1) -> Request:
    """What a worker says that has heard of so many commits."""
    return Request(make_tag(EPOCH, committed), version, committed, committed)


@pytest.mark.parametrize("missed", [0, 1, 2, KEPT_ROUNDS])
def test_go_names_the_rows_of_missed_rounds(replies: Replies, missed: int) -> None:
    """A row set for each round that the worker has not heard of, oldest first."""
    answer = Answer.decode(replies.go(0, asking(ROUNDS - missed)))
    assert (answer.kind, answer.tag) == (Kind.GO, make_tag(EPOCH, ROUNDS))
    assert (answer.steps, answer.committed) == (ROUNDS, ROUNDS)
    changed = [rows.tolist() for rows in answer.changed(placement().used_rows)]
    assert changed == [[round_ % 2] for round_ in range(ROUNDS - missed, ROUNDS)]


def test_go_has_no_rows_for_those_who_missed_too_much(replies: Replies) -> None:
    """Only the last rounds are kept; another incarnation keeps none of the one before."""
    assert Answer.decode(replies.go(0, asking(ROUNDS - KEPT_ROUNDS - 1))).bitmaps == 0
    replies.enter(Incarnation(EPOCH + 1, ROUNDS, 20, 1, placement()))
    assert Answer.decode(replies.go(0, asking(ROUNDS - 1))).bitmaps == 0


def test_stay_says_what_has_come(replies: Replies) -> None:
    """With the tag of the question."""
    asked = asking(ROUNDS)
    answer = Answer.decode(replies.stay(0, asked, Known.PUSH))
    assert (answer.kind, answer.tag, answer.known) == (Kind.OPEN, asked.tag, Known.PUSH)


def test_moved_brings_a_placement_to_those_who_lack_it(replies: Replies) -> None:
    """The incarnation begins where this worker goes on."""
    for version, known in ((1, placement()), (0, None)):
        answer = Answer.decode(replies.moved(0, asking(ROUNDS, version)))
        incarnation = Incarnation.decode(answer.incarnation, version, known)
        assert (answer.kind, incarnation.epoch, incarnation.round) == (Kind.MOVED, EPOCH, ROUNDS)
        assert np.array_equal(incarnation.placement.keys, placement().keys)
    assert len(replies.moved(0, asking(ROUNDS, 0))) > len(replies.moved(0, asking(ROUNDS, 1)))
