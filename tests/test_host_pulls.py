"""Pulls at the server: values after a number of rounds, and those that the last one found."""

from __future__ import annotations

from typing import Any

import numpy as np

from host_stack.kv.message import KVPairs
from host_stack.kv.server import KVMeta
from host_stack.layout import MAX_ROUND
from host_stack.pulls import BEFORE_COMMIT, Pulls, asks_before

KEYS = np.array([1, 3, 4], np.uint64)


class Answers:
    """Takes the place of a `KVServer`, and keeps what it is told to say."""

    def __init__(self) -> None:
        self.said: list[list[float] | str] = []

    def response(self, _request: KVMeta, pairs: KVPairs) -> None:
        """Keep values."""
        self.said.append(pairs.vals.tolist())

    def refuse(self, _request: KVMeta, reason: str) -> None:
        """Keep a reason."""
        self.said.append(reason)


def pull(cmd: int) -> KVMeta:
    """A pull of the first worker."""
    return KVMeta(cmd, False, True, 9, 0, 0, 0)


def test_the_values_that_the_last_round_found() -> None:
    """They are those before it where it changed something, and only of that round."""
    parameters = np.arange(6, dtype=np.float32)
    answers: Any = Answers()
    pulls = Pulls(answers, parameters)
    pulls.take(pull(BEFORE_COMMIT), KEYS, 0)
    pulls.keep(np.array([0, 3, 4]))
    parameters[[0, 3, 4]] += 10
    pulls.take(pull(BEFORE_COMMIT | 1), KEYS, 1)
    pulls.take(pull(1), KEYS, 1)
    pulls.take(pull(BEFORE_COMMIT | 1), KEYS, 2)
    pulls.take(pull(BEFORE_COMMIT | 2), KEYS, 1)
    assert answers.said == [
        "the values before round 0 are not known",
        [1, 3, 4],
        [1, 13, 14],
        "the values before round 2 are not known",
        "the values before round 1 are not known",
    ]


def test_a_pull_waits_for_its_round() -> None:
    """It is answered with what is there when enough rounds are committed."""
    parameters = np.zeros(6, np.float32)
    answers: Any = Answers()
    pulls = Pulls(answers, parameters)
    pulls.take(pull(2), KEYS, 1)
    pulls.release(1)
    assert answers.said == []
    parameters[3] = 5
    pulls.release(2)
    assert answers.said == [[0, 5, 0]]


def test_no_number_of_rounds_asks_for_values_before_a_commit() -> None:
    """Of the last round there can be, a worker asks for the values behind it."""
    assert not asks_before(MAX_ROUND + 1)
    assert asks_before(MAX_ROUND | BEFORE_COMMIT)
