"""Drift over a whole trace: hot sets as a server would follow them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from controller.drift import DriftDetector, Policy, Proposal
from host_stack.placement import Keys


@dataclass(frozen=True)
class Followed:
    """What became of a hot set along a trace.

    Attributes:
        rounds: rounds of the trace.
        kept: share of all updates that the first hot set holds.
        followed: share that the set held which was current at each time.
        proposals: those made; each was accepted.
    """

    rounds: int
    kept: float
    followed: float
    proposals: list[Proposal]


def follow(
    pushes: Iterable[Keys], workers: int, hot: Keys, num_keys: int, policy: Policy
) -> Followed:
    """Go through pushes, `workers` of them a round, and accept every proposal.

    `pushes` are uint64 arrays of the keys of each push, `hot` is the hot set to begin with.
    """
    detector = DriftDetector(hot, num_keys, policy)
    first, current = (_membership(hot, num_keys) for _ in range(2))
    total = kept = followed = 0
    proposals = []
    left = iter(pushes)
    while round_ := list(islice(left, workers)):
        keys, counts = np.unique(np.concatenate(round_), return_counts=True)
        at, times = keys.astype(np.int64), counts.astype(np.int64)
        total += int(times.sum())
        kept += int(times[first[at]].sum())
        followed += int(times[current[at]].sum())
        proposal = detector.observe(keys, times)
        if proposal is not None:
            proposals.append(proposal)
            detector.adopt(proposal.keys)
            current = _membership(proposal.keys, num_keys)
    whole = max(1, total)
    return Followed(detector.rounds, kept / whole, followed / whole, proposals)


def _membership(hot: Keys, num_keys: int) -> np.ndarray:
    member = np.zeros(num_keys, np.bool_)
    member[hot.astype(np.int64)] = True
    return member
