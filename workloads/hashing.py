"""FNV-1a in 64 bits: the hash that names features which a data set gives as text.

h ← 14695981039346656037; for each byte b: h ← (h xor b) · 1099511628211 mod 2^64. It is the
published function (Fowler, Noll, Vo; RFC 9923), the same on every machine, and it goes on where it
stopped: the hash of `ab` is that of `b` started from the hash of `a`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Uint64Array = NDArray[np.uint64]
Int64Array = NDArray[np.int64]

OFFSET_BASIS = 0xCBF29CE484222325
PRIME = 0x00000100000001B3


def fnv1a(
    data: NDArray[np.uint8],
    starts: Int64Array,
    lengths: Int64Array,
    state: Uint64Array | None = None,
) -> Uint64Array:
    """Hash n pieces of `data`, the i-th from `starts[i]` and `lengths[i]` bytes long, uint64[n].

    `state`, uint64[n], are the hashes of what comes before the pieces; nothing, unless given.
    """
    if state is None:
        state = np.full(len(starts), OFFSET_BASIS, dtype=np.uint64)
    # All pieces advance by a byte at a time; the longest first, so that those not at their end are
    # always the first few.
    order = np.argsort(-lengths, kind="stable")
    hashes, at = state[order], starts[order]
    longest = int(lengths.max(initial=0))
    going_on = len(lengths) - np.cumsum(np.bincount(lengths, minlength=longest + 1))
    prime = np.uint64(PRIME)
    for byte, count in enumerate(going_on[:longest].tolist()):
        hashes[:count] = (hashes[:count] ^ data[at[:count] + byte]) * prime
    result = np.empty_like(hashes)
    result[order] = hashes
    return result


def fnv1a_of(text: bytes) -> int:
    """Return the hash of one text."""
    data = np.frombuffer(text, dtype=np.uint8)
    return int(fnv1a(data, np.zeros(1, np.int64), np.array([len(text)], np.int64))[0])
