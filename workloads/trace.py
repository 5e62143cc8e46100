"""The trace of a job: which keys each of its pushes updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_stack.npz import reading_npz, require_schema, require_size, vector, whole
from workloads.errors import WorkloadError
from workloads.examples import Int64Array

SCHEMA_VERSION = 1
MAX_FILE_BYTES = 1 << 31
"""Of a trace file, unpacked: about 2.7 · 10^8 keys."""


@dataclass(frozen=True)
class KeyTrace:
    """The keys of n pushes, in the order in which they happen.

    Attributes:
        indptr: int64[n + 1]; push i owns `keys` from `indptr[i]` up to `indptr[i + 1]`.
        keys: uint64, sorted and unique within a push.
        num_keys: all keys are below this number.
    """

    indptr: Int64Array
    keys: NDArray[np.uint64]
    num_keys: int

    def __post_init__(self) -> None:
        """Raise `WorkloadError` unless all agrees with the class's description."""
        bounds = self.indptr
        if (
            not (len(bounds) and bounds[0] == 0 and bounds[-1] == len(self.keys))
            or (bounds[1:] < bounds[:-1]).any()
        ):
            raise WorkloadError(f"trace: bounds of pushes do not rise from 0 to {len(self.keys)}")
        falls = self.keys[1:] <= self.keys[:-1]
        falls[bounds[(bounds > 0) & (bounds < len(self.keys))] - 1] = False
        if falls.any():
            raise WorkloadError("trace: keys of a push do not rise")
        if len(self.keys) and int(self.keys.max()) >= self.num_keys:
            raise WorkloadError(
                f"trace: key {self.keys.max()}; allowed are 0 to {self.num_keys - 1}"
            )

    @classmethod
    def of(cls, pushes: Iterable[NDArray[np.uint64]], num_keys: int) -> KeyTrace:
        """Collect the keys of pushes, each uint64[m], sorted and unique."""
        parts = [np.empty(0, dtype=np.uint64), *pushes]
        indptr = np.cumsum([len(keys) for keys in parts], dtype=np.int64)
        return cls(indptr, np.concatenate(parts), num_keys)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __iter__(self) -> Iterator[NDArray[np.uint64]]:
        return (self.keys[start:end] for start, end in pairwise(self.indptr))

    def save(self, path: Path) -> None:
        """Write the trace as .npz (schema 1: `schema`, `indptr`, `keys`, `num_keys`).

        Raises `BadInput` if it is longer than `load` reads.
        """
        require_size("trace of keys", MAX_FILE_BYTES, self.indptr, self.keys)
        np.savez_compressed(
            path,
            schema=np.int64(SCHEMA_VERSION),
            indptr=self.indptr,
            keys=self.keys,
            num_keys=np.int64(self.num_keys),
        )

    @classmethod
    def load(cls, path: Path) -> KeyTrace:
        """Read a trace written by `save`; `BadInput` if the file is none."""
        with reading_npz(path, "trace of keys", MAX_FILE_BYTES) as file:
            require_schema(file, SCHEMA_VERSION)
            indptr, keys = vector(file, "indptr", np.int64), vector(file, "keys", np.uint64)
            return cls(indptr, keys, whole(file, "num_keys"))
