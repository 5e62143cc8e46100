"""Hot sets followed along a trace."""

from __future__ import annotations

import numpy as np

from controller.drift import Policy
from controller.drift_trace import follow


def pushes(number: int, first: int) -> list[np.ndarray]:
    """Pushes of eight of ten keys, of which `first` is the lowest."""
    random = np.random.default_rng(first)
    return [
        np.sort(first + random.choice(10, 8, replace=False)).astype(np.uint64)
        for _ in range(number)
    ]


def test_a_trace_that_moves() -> None:
    """The first set covers the first half; the one that follows nearly everything."""
    hot = np.arange(10, dtype=np.uint64)
    followed = follow(pushes(80, 0) + pushes(80, 50), 2, hot, 100, Policy(window=4, half_life=8))
    assert followed.rounds == 80
    assert followed.kept == 0.5
    assert followed.followed >= 0.8
    assert len(followed.proposals) >= 1
    assert 40 < followed.proposals[0].round <= 60


def test_a_trace_that_stays() -> None:
    """Nothing is proposed, and the last, short round counts as well."""
    hot = np.arange(10, dtype=np.uint64)
    followed = follow(pushes(41, 0), 2, hot, 100, Policy(window=4))
    assert (followed.rounds, followed.proposals) == (21, [])
    assert followed.kept == followed.followed == 1.0


def test_no_trace() -> None:
    """There is nothing to cover."""
    followed = follow([], 2, np.arange(3, dtype=np.uint64), 10, Policy())
    assert (followed.rounds, followed.kept) == (0, 0.0)
