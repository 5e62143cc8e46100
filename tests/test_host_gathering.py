"""What a server has gathered of its open rounds."""

from __future__ import annotations

import numpy as np

from host_stack.control import Request
from host_stack.gathering import Gathering
from host_stack.kv.message import KVPairs

F = 20


def gathering() -> Gathering:
    """Of 16 keys, with rounds 3 and 4 open."""
    made = Gathering(16, F)
    made.begin(3, F)
    return made


def pairs(keys: list[int], values: list[float]) -> KVPairs:
    """A cold push."""
    return KVPairs(np.array(keys, np.uint64), np.array(values, np.float32))


def test_two_rounds_are_open_and_apart() -> None:
    """What is pushed into one is not in the other."""
    made = gathering()
    assert [round_ in made for round_ in (2, 3, 4, 5)] == [False, True, True, False]
    made.add_push(3, 0, 7, pairs([1, 5], [0.5, 2.0]))
    made.add_push(3, 1, 7, pairs([5], [0.25]))
    made.add_push(4, 0, 8, pairs([9], [1.0]))
    assert made.has_push(3, 1, 7)
    assert not made.has_push(4, 1, 7)
    assert not made.has_push(5, 0, 8)
    aggregate = made.sums(3, [])
    assert aggregate.keys.tolist() == [1, 5]
    assert aggregate.sums.tolist() == [0.5, 2.25]


def test_sums_of_the_switch_are_sorted_in() -> None:
    """Those that a drain has finished, of other keys."""
    made = gathering()
    made.add_push(3, 0, 7, pairs([5], [2.0]))
    finished = [(np.array([12, 2]), np.array([3.0, 4.0], np.float32))]
    aggregate = made.sums(3, finished)
    assert aggregate.keys.tolist() == [2, 5, 12]
    assert aggregate.sums.tolist() == [4.0, 2.0, 3.0]


def test_rows_are_those_of_all_workers() -> None:
    """Each once; none where nobody has pushed through a switch."""
    made = gathering()
    assert made.rows(3).tolist() == []
    for rank, rows in enumerate(([4, 1], [1, 2])):
        made[3].complete(rank, np.array(rows), Request(0, 0, 7, 3))
    assert made.rows(3).tolist() == [1, 2, 4]


def test_a_committed_round_makes_room_for_another() -> None:
    """Which begins empty."""
    made = gathering()
    made.add_push(4, 0, 8, pairs([9], [1.0]))
    assert made.close(3).pushed == set()
    assert [round_ in made for round_ in (3, 4, 5)] == [False, True, True]
    assert made.has_push(4, 0, 8)
    assert not made.has_push(5, 0, 8)


def test_another_epoch_forgets_what_has_come() -> None:
    """And sums at its own scale."""
    made = gathering()
    made.add_push(3, 0, 7, pairs([5], [2.0]))
    made.begin(3, 4)
    assert not made.has_push(3, 0, 7)
    made.add_push(3, 0, 7, pairs([6], [0.3]))
    aggregate = made.sums(3, [])
    assert aggregate.keys.tolist() == [6]
    assert aggregate.sums.tolist() == [0.25]  # sixteenths, cut
