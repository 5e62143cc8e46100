"""What a server counts of its rounds for the controller."""

from __future__ import annotations

import numpy as np

from controller.jobapi.standing import from_message, to_message
from host_stack.control import Request
from host_stack.standing import GOODPUT_COMMITS, OpenRound, Tally


def closed(gradients: int, sampled: bytes = b"") -> OpenRound:
    """A round of two workers with half of the gradients each."""
    round_ = OpenRound()
    for rank in range(2):
        done = Request(1, 1, gradients=gradients // 2, sampled=sampled)
        round_.complete(rank, np.array([rank]), done)
    return round_


def test_goodput_is_that_of_the_last_rounds() -> None:
    """32 bits a committed gradient, over as many rounds as are remembered."""
    clock = [0.0]
    tally = Tally(lambda: clock[0])
    tally.commit(closed(1000))
    assert tally.standing(1, 0).goodput_bps == 0
    for _ in range(3 * GOODPUT_COMMITS):
        clock[0] += 10.0
        tally.commit(closed(1000))
    for _ in range(GOODPUT_COMMITS):
        clock[0] += 0.5
        tally.commit(closed(2000))
    standing = tally.standing(9, 7)
    assert standing.goodput_bps == 2000 * 32 / 0.5
    assert (standing.round, standing.escaped) == (9, 7)
    assert standing.gradients == 1000 * (1 + 3 * GOODPUT_COMMITS) + 2000 * GOODPUT_COMMITS


def test_a_standing_comes_back() -> None:
    """As a message of the job API."""
    tally = Tally(lambda: 0.0)
    tally.commit(closed(10, bytes([0, 127, 127, 255])))
    standing = tally.standing(3, 1)
    assert standing.exponents[[0, 127, 255]].tolist() == [2, 4, 2]
    again = from_message(to_message(standing))
    assert again.exponents.tolist() == standing.exponents.tolist()
    assert (again.round, again.gradients, again.escaped) == (3, 10, 1)
