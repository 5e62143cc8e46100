"""Drift of the hot set: tells when other keys are updated more than those on the switch.

A set chosen from the very updates it is judged by always looks better than one chosen before. So a
*challenger*, the set of the same size that the latest updates suggest, is judged by the updates of
the next window, which it was not chosen from, beside the current set. A challenger is chosen anew
after each window; only when challengers win by a margin in several windows on end is one proposed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.errors import BadInput
from host_stack.placement import Keys

_LARGEST_WEIGHT = 1e100
"""Of an update, before all are scaled down; far from where float64 ends."""


@dataclass(frozen=True)
class Policy:
    """When a new hot set is proposed.

    Attributes:
        window: rounds between judgements.
        half_life: rounds after which an update counts half in the choice of a challenger.
        margin: share of updates by which a challenger has to be better.
        patience: windows on end in which it has to be.
    """

    window: int = 16
    half_life: float = 64.0
    margin: float = 0.02
    patience: int = 2

    def __post_init__(self) -> None:
        if self.window < 1 or self.patience < 1:
            raise BadInput(
                f"drift: window {self.window}, patience {self.patience}: at least 1 each"
            )
        if not 0 < self.half_life <= 1e9:
            raise BadInput(f"drift: half-life {self.half_life}: allowed is above 0, up to 1e9")
        if not 0 <= self.margin < 1:
            raise BadInput(f"drift: margin {self.margin}: allowed is from 0 to below 1")


@dataclass(frozen=True)
class Proposal:
    """A hot set to take the place of the current one.

    Attributes:
        round: rounds observed so far.
        keys: uint64[n], hottest first; as many as in the current set.
        coverage: share of the last window's updates that the current set holds.
        proposed_coverage: the share that the challenger held; `keys` are chosen as it was, with
            the updates of this window known as well.
        entering: how many of `keys` are not in the current set.
    """

    round: int
    keys: Keys
    coverage: float
    proposed_coverage: float
    entering: int


class DriftDetector:
    """Watches the updates of each round; holds 10 bytes for each key of the model."""

    def __init__(self, hot: Keys, num_keys: int, policy: Policy | None = None) -> None:
        """Start with hot set `hot` (uint64[n]) of a model of `num_keys` keys."""
        self.policy = policy or Policy()
        self.num_keys = num_keys
        self.rounds = 0
        self.last_window: tuple[float, float | None] | None = None
        """Shares of the last window's updates that the current set and the challenger held."""
        self._recent = np.zeros(num_keys, np.float64)
        self._weight = 1.0
        self._growth = 2.0 ** (1.0 / self.policy.half_life)
        self._challenger: NDArray[np.bool_] | None = None
        self._streak = 0
        self._begin_window()
        self.adopt(hot)

    def adopt(self, hot: Keys) -> None:
        """Take `hot` (uint64[n]) as the current set; `BadInput` for keys that are not the model's.

        Whoever accepts a proposal says so here; one that is not accepted may come again.
        """
        if len(hot) and int(hot.max()) >= self.num_keys:
            raise BadInput(f"hot key {hot.max()}; allowed are 0 to {self.num_keys - 1}")
        self._current = np.zeros(self.num_keys, np.bool_)
        self._current[hot.astype(np.int64)] = True
        self._size = int(np.count_nonzero(self._current))
        self._challenger = None
        self._streak = 0
        self._begin_window()

    def observe(self, keys: Keys, counts: NDArray[np.int64] | None = None) -> Proposal | None:
        """Take in a round: uint64[n] keys, each once, and how many workers updated each (or one).

        Returns a proposal where it is time for one.
        """
        at = keys.astype(np.int64)
        times = np.ones(len(at), np.int64) if counts is None else counts
        self._weight *= self._growth
        self._recent[at] += self._weight * times
        if self._weight > _LARGEST_WEIGHT:
            self._recent /= self._weight
            self._weight = 1.0
        self._total += int(times.sum())
        self._held += int(times[self._current[at]].sum())
        if self._challenger is not None:
            self._held_by_challenger += int(times[self._challenger[at]].sum())
        self.rounds += 1
        self._in_window += 1
        return self._judge() if self._in_window == self.policy.window else None

    def _begin_window(self) -> None:
        self._in_window = self._total = self._held = self._held_by_challenger = 0

    def _judge(self) -> Proposal | None:
        """End a window: propose a new set if challengers have won often enough on end."""
        total = max(1, self._total)
        held = self._held / total
        proposed = None if self._challenger is None else self._held_by_challenger / total
        self.last_window = (held, proposed)
        self._begin_window()
        self._challenger = best = self._choose()
        won = proposed is not None and proposed - held >= self.policy.margin
        self._streak = self._streak + 1 if won else 0
        if proposed is None or self._streak < self.policy.patience:
            return None
        self._streak = 0
        keys = np.flatnonzero(best)
        ranked = keys[np.argsort(-self._recent[keys], kind="stable")].astype(np.uint64)
        entering = int(np.count_nonzero(best & ~self._current))
        return Proposal(self.rounds, ranked, held, proposed, entering)

    def _choose(self) -> NDArray[np.bool_]:
        """The keys with most recent updates; of equal ones those that are hot, then by number."""
        chosen = np.zeros(self.num_keys, np.bool_)
        if self._size:
            least = np.partition(self._recent, -self._size)[-self._size]
            chosen = self._recent > least
            tied = np.flatnonzero(self._recent == least)
            tied = tied[np.argsort(~self._current[tied], kind="stable")]
            chosen[tied[: self._size - int(np.count_nonzero(chosen))]] = True
        return chosen
