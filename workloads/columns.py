"""Lines of separated columns, taken apart all at once; no quoting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.hashing import Int64Array

_NEWLINE = 10
MAX_DIGITS = 18
"""Of an integer: any such fits in 64 bits."""


@dataclass(frozen=True)
class Columns:
    """The fields of n lines of k columns: `lengths[i, j]` bytes of `data` from `starts[i, j]`."""

    data: NDArray[np.uint8]
    starts: Int64Array
    lengths: Int64Array

    def select(self, first: int, end: int) -> Columns:
        """Return columns `first` up to `end`."""
        return Columns(self.data, self.starts[:, first:end], self.lengths[:, first:end])

    def inside(self, allowed: NDArray[np.bool_]) -> bool:
        """Whether every byte of every field is among those that `allowed`, bool[256], has."""
        # All bytes of a field lie between its ends in a running count of those not allowed.
        bad = np.concatenate([[0], np.cumsum(~allowed[self.data])])
        return bool((bad[self.starts] == bad[self.starts + self.lengths]).all())


def split(text: bytes, separator: int, columns: int) -> Columns | None:
    """Take apart lines that each end with a line feed; None unless all have `columns` columns."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero((data == separator) | (data == _NEWLINE))
    if len(ends) % columns:
        return None
    at_end = (data[ends] == _NEWLINE).reshape(-1, columns)
    if not at_end[:, -1].all() or at_end[:, :-1].any():
        return None
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    shape = (len(ends) // columns, columns)
    return Columns(data, starts.reshape(shape), (ends - starts).reshape(shape))


def integers(fields: Columns) -> Int64Array | None:
    """Return the decimal integers of fields, int64, 0 where a field is empty; None if one is none.

    They may have a minus sign, and at most `MAX_DIGITS` digits.
    """
    starts, lengths = fields.starts, fields.lengths
    last = max(0, len(fields.data) - 1)
    negative = (lengths > 0) & (fields.data[np.minimum(starts, last)] == ord("-"))
    starts, lengths = starts + negative, lengths - negative
    if (negative & (lengths == 0)).any() or lengths.max(initial=0) > MAX_DIGITS:
        return None
    values = np.zeros(starts.shape, dtype=np.int64)
    for place in range(int(lengths.max(initial=0))):
        there = lengths > place
        digits = fields.data[np.minimum(starts + place, last)].astype(np.int64) - ord("0")
        if (there & ((digits < 0) | (digits > 9))).any():
            return None
        values = np.where(there, values * 10 + digits, values)
    signed: Int64Array = np.where(negative, -values, values)
    return signed
