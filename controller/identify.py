"""Identify the hot keys: count the keys of a sample of batches, and rank them.

The sample is 4-8 % of the data, as in the paper. How many of the keys are worth a cell says
`controller.byte_model`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.placement import Keys


@dataclass(frozen=True)
class Heat:
    """How often each key was seen in the sample.

    Attributes:
        keys: uint64[n], the keys seen, hottest first; ties by key.
        share: float64[n], the share of batches in which each occurred.
        batches: number of batches sampled.
    """

    keys: Keys
    share: NDArray[np.float64]
    batches: int

    @classmethod
    def count(cls, batches: Iterable[Keys], num_keys: int) -> Heat:
        """Count uint64 key arrays, unique within each batch."""
        counts = np.zeros(num_keys, np.int64)
        seen = 0
        for keys in batches:
            counts[keys.astype(np.int64)] += 1
            seen += 1
        order = np.argsort(-counts, kind="stable")[: int(np.count_nonzero(counts))]
        return cls(order.astype(np.uint64), counts[order] / max(1, seen), seen)

    def coverage(self, hot: int) -> float:
        """The share of sampled updates that the `hot` hottest keys hold."""
        total = float(self.share.sum())
        return float(self.share[:hot].sum()) / total if total else 0.0

    def cumulative(self, points: int = 200) -> list[dict[str, float]]:
        """The curve of update share against rank, as at most `points` points."""
        if not len(self.share):
            return []
        total = np.cumsum(self.share)
        ranks = np.unique(np.geomspace(1, len(total), points).astype(np.int64))
        return [{"rank": int(r), "share": float(total[r - 1] / total[-1])} for r in ranks]
