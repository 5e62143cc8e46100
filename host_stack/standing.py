"""How a job stands, as its server tells the controller: round, goodput, scale of gradients."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from host_stack.control import Request
from host_stack.exponents import EXPONENTS, ExponentCounts
from host_stack.fixedpoint import IntArray

GOODPUT_COMMITS = 16
"""Commits over which goodput is measured."""

GRADIENT_BITS = 32


def _no_counts() -> NDArray[np.int64]:
    return np.zeros(EXPONENTS, np.int64)


@dataclass(frozen=True)
class Standing:
    """A job's progress and its gradients, since its server's process was started.

    Attributes:
        round: the lowest that is not committed.
        gradients: committed ones.
        escaped: of them, those that did not fit in fixed point.
        goodput_bps: bits of committed gradients a second, over the last rounds; 0 before the
            second one.
        exponents: int64[256], counts of sampled gradients by biased exponent.
    """

    round: int
    gradients: int = 0
    escaped: int = 0
    goodput_bps: float = 0.0
    exponents: IntArray = field(default_factory=_no_counts)


def together(standings: Sequence[Standing]) -> Standing:
    """The standing of a job with several servers, from those of its shards."""
    return Standing(
        min(each.round for each in standings),
        sum(each.gradients for each in standings),
        sum(each.escaped for each in standings),
        sum(each.goodput_bps for each in standings),
        np.sum([each.exponents for each in standings], axis=0),
    )


@dataclass
class OpenRound:
    """What has come for an open round besides GRADs.

    Attributes:
        pushed: (rank, step) of the cold pushes.
        rows: of each rank, the rows in which a switch holds something of it.
        gradients: of the steps that are complete.
        sampled: exponents of some of them, a byte each.
    """

    pushed: set[tuple[int, int]] = field(default_factory=set)
    rows: dict[int, IntArray] = field(default_factory=dict)
    gradients: int = 0
    sampled: bytes = b""

    def complete(self, rank: int, rows: IntArray, done: Request) -> None:
        """Take what a worker says of a step that is complete."""
        self.rows[rank] = rows
        self.gradients += done.gradients
        self.sampled += done.sampled


class Tally:
    """Counts the gradients of committed rounds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._gradients = 0
        self._exponents = ExponentCounts()
        self._commits: deque[tuple[float, int]] = deque(maxlen=GOODPUT_COMMITS + 1)

    def commit(self, closed: OpenRound) -> None:
        """Count a round that is committed now."""
        self._gradients += closed.gradients
        self._exponents.add(closed.sampled)
        self._commits.append((self._now(), closed.gradients))

    def standing(self, round_: int, escaped: int) -> Standing:
        """How the job stands; `escaped` gradients of committed rounds did not fit."""
        return Standing(
            round_, self._gradients, escaped, self._goodput_bps(), self._exponents.counts.copy()
        )

    def _goodput_bps(self) -> float:
        if len(self._commits) < 2:
            return 0.0
        elapsed_s = self._commits[-1][0] - self._commits[0][0]
        gradients = sum(count for _, count in islice(self._commits, 1, None))
        return gradients * GRADIENT_BITS / elapsed_s if elapsed_s > 0 else 0.0
