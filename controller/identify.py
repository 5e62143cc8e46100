"""Identify the hot keys: count the keys of a sample of batches, rank them, choose how many.

The sample is 4-8 % of the data, as in the paper. How many keys are worth a cell follows from the
bytes that each saves on the server's link (section 6 of the design).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.layout import Layout
from host_stack.placement import Keys

KV_PUSH_BYTES = 12
"""A cold key in a push: uint64 key and float32 value."""
KV_PULL_BYTES = 8 + 12
"""A cold key in a pull: the key asked for, key and value answered."""
CELL_BYTES = 4 + 4
"""A hot key in DRAINED and UPDATE."""
ROW_BYTES = (42 + 24) + (42 + 22)
"""The headers of the DRAINED and the UPDATE of one row, Ethernet, IPv4 and UDP included."""


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


def saved_bytes(heat: Heat, workers: int, layout: Layout) -> NDArray[np.float64]:
    """Bytes per round that a hot set of the first 1…n keys saves on the server's link, float64[n].

    A cold key costs a push and a pull of every worker that touches it; a hot one costs a cell of
    DRAINED and UPDATE if anyone does, and its share of the row's headers.
    """
    cold = workers * heat.share * (KV_PUSH_BYTES + KV_PULL_BYTES)
    touched = 1 - (1 - np.minimum(heat.share, 1)) ** workers
    hot = touched * CELL_BYTES
    # Keys are placed by heat, so that a row is touched about as often as its first key is not
    # left alone: by any of its lanes.
    untouched = np.cumsum(np.log1p(-np.minimum(touched, 1 - 1e-9)))
    starts = np.arange(len(touched)) // layout.lanes * layout.lanes
    before = np.concatenate([[0.0], untouched])[starts]
    ends = np.minimum(starts + layout.lanes, len(touched)) - 1
    row_touched = 1 - np.exp(untouched[ends] - before)
    saved: NDArray[np.float64] = np.cumsum(cold - hot - row_touched * ROW_BYTES / layout.lanes)
    return saved


def hot_set_size(heat: Heat, workers: int, layout: Layout) -> int:
    """How many of the hottest keys to place, so that the server's link carries fewest bytes."""
    saved = saved_bytes(heat, workers, layout)[: layout.cells]
    if not len(saved) or saved.max() <= 0:
        return 0
    return int(np.argmax(saved)) + 1
