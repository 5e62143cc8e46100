"""Names of the features of data in fields.

A feature is a value of a field. Its name has the number of the field in the highest 8 bits; the
others are from the FNV-1a hash of `FIELD=VALUE`: its highest 56 bits, or, where the number of
features of a field is bounded, its bits folded to so many. So features of a field have consecutive
numbers once they are numbered by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workloads.columns import Columns
from workloads.hashing import Int64Array, Uint64Array, fnv1a, fnv1a_of

_HASH_BITS = 56
MAX_FIELDS = 1 << (64 - _HASH_BITS)
MAX_BITS = 32
"""Of the hash, where it is folded."""


def number_names(field: int, count: int) -> Uint64Array:
    """Return the names of `count` numeric features of a field, uint64[count]."""
    return np.uint64(field << _HASH_BITS) | np.arange(count, dtype=np.uint64)


def value_names(
    columns: Columns, titles: Sequence[str], first_field: int, bits: int
) -> Uint64Array:
    """Return the names of values, uint64[n, k]; column j is field `first_field` + j, `titles[j]`.

    `bits`, up to `MAX_BITS`, is the number of bits to fold hashes to, 0 for none.
    """
    states = np.array([fnv1a_of(f"{title}=".encode()) for title in titles], dtype=np.uint64)
    shape = columns.starts.shape
    hashes = fnv1a(
        columns.data,
        columns.starts.ravel(),
        columns.lengths.ravel(),
        np.broadcast_to(states, shape).ravel(),
    ).reshape(shape)
    fields = np.arange(first_field, first_field + len(titles), dtype=np.uint64)
    kept = _fold(hashes, bits) if bits else hashes >> np.uint64(64 - _HASH_BITS)
    return fields << np.uint64(_HASH_BITS) | kept


def _fold(hashes: Uint64Array, bits: int) -> Uint64Array:
    """Fold hashes to `bits` bits by exclusive or, as RFC 9923 advises."""
    return (hashes >> np.uint64(bits) ^ hashes) & np.uint64((1 << bits) - 1)


def field_starts(names: Uint64Array, fields: int) -> Int64Array:
    """Return where the features of each field start, int64[fields + 1]; `names` rise."""
    firsts = np.arange(fields, dtype=np.uint64) << np.uint64(_HASH_BITS)
    return np.append(np.searchsorted(names, firsts), len(names)).astype(np.int64)
