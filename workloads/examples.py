"""Sparse examples in compressed row form, the one shape that every data set takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.errors import WorkloadError

Int64Array = NDArray[np.int64]
Float32Array = NDArray[np.float32]

_PAIRS_AT_ONCE = 1 << 20
_DTYPES = {"indptr": np.int64, "features": np.int64, "values": np.float32, "labels": np.float32}


@dataclass(frozen=True, slots=True)
class Examples:
    """n labelled examples with nnz (feature, value) pairs between them.

    Example i owns the pairs `indptr[i]` up to `indptr[i + 1]`; it may own none.

    - `indptr`: int64[n + 1], not decreasing, from 0 to nnz
    - `features`: int64[nnz], feature ids from 0
    - `values`: float32[nnz]
    - `labels`: float32[n]
    """

    indptr: Int64Array
    features: Int64Array
    values: Float32Array
    labels: Float32Array

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def nnz(self) -> int:
        """The number of (feature, value) pairs."""
        return len(self.features)

    def row_lengths(self) -> Int64Array:
        """Pairs per example, int64[n]."""
        return np.diff(self.indptr)

    def row_of_pair(self) -> Int64Array:
        """Return the example that owns each pair, int64[nnz]."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.row_lengths())

    def take(self, rows: Int64Array) -> Examples:
        """Return the examples at positions `rows` (int64[m], repeats allowed), in that order."""
        lengths = self.row_lengths()[rows]
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=indptr[1:])
        # Pair j of output row i sits at indptr_in[rows[i]] + (j - indptr_out[i]).
        offsets = np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        pairs = offsets + np.arange(indptr[-1], dtype=np.int64)
        return Examples(indptr, self.features[pairs], self.values[pairs], self.labels[rows])

    def validate(self, num_features: int) -> None:
        """Raise `WorkloadError` unless all arrays agree with the class's description."""
        for name, dtype in _DTYPES.items():
            array = getattr(self, name)
            if array.dtype != dtype or array.ndim != 1:
                raise WorkloadError(
                    f"examples: {name} is {array.dtype} with {array.ndim} dimension(s); "
                    f"need {np.dtype(dtype)} with 1"
                )
        if len(self.indptr) != len(self) + 1 or len(self.values) != self.nnz:
            raise WorkloadError(
                f"examples: {len(self.indptr)} row bounds, {len(self)} labels, {self.nnz} "
                f"features and {len(self.values)} values do not fit together"
            )
        if self.indptr[0] != 0 or self.indptr[-1] != self.nnz or (self.row_lengths() < 0).any():
            raise WorkloadError(f"examples: row bounds do not rise from 0 to {self.nnz}")
        for start in range(0, self.nnz, _PAIRS_AT_ONCE):
            some = slice(start, start + _PAIRS_AT_ONCE)
            low, high = self.features[some].min(), self.features[some].max()
            if not 0 <= low <= high < num_features:
                raise WorkloadError(
                    f"examples: feature ids run from {low} to {high}; "
                    f"allowed: 0 to {num_features - 1}"
                )
            if not np.isfinite(self.values[some]).all():
                raise WorkloadError("examples: a value is not a finite number")
        if not np.isfinite(self.labels).all():
            raise WorkloadError("examples: a label is not a finite number")
