"""Some of the examples of a data set, read from it when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workloads.examples import Examples, Float32Array, Int64Array

PAIRS_AT_ONCE = 1 << 20
"""About how many pairs a block of examples has."""


class Part:
    """The examples at given positions of a whole, which may be larger than memory.

    Nothing of the whole is copied but the examples that are taken.
    """

    def __init__(self, whole: Examples, rows: Int64Array) -> None:
        """Hold the examples at `rows`, int64[n], of `whole`, in that order."""
        self._whole = whole
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def labels(self) -> Float32Array:
        """The labels, float32[n]."""
        labels: Float32Array = self._whole.labels[self._rows]
        return labels

    def take(self, rows: Int64Array) -> Examples:
        """Return the examples at positions `rows` (int64[m]) of this part, in that order."""
        return self._whole.take(self._rows[rows])

    def select(self, rows: Int64Array) -> Part:
        """Return the part of this part at positions `rows`, int64[m]."""
        return Part(self._whole, self._rows[rows])

    def blocks(self) -> Iterator[Examples]:
        """Return all examples, in their order, some at a time."""
        mean = self._whole.nnz / max(1, len(self._whole))
        size = max(1, int(PAIRS_AT_ONCE / max(1.0, mean)))
        return (
            self._whole.take(self._rows[start : start + size])
            for start in range(0, len(self), size)
        )

    def feature_counts(self, num_features: int) -> Int64Array:
        """Return how many pairs each feature has, int64[num_features]."""
        counts = np.zeros(num_features, dtype=np.int64)
        for block in self.blocks():
            counts += np.bincount(block.features, minlength=num_features)
        return counts
