"""Words of a text, and pairs of them, as hashed features.

A word is a longest run of ASCII letters and digits, letters in lower case; all other bytes
separate. The feature of a word is the FNV-1a hash of its bytes, that of two successive words the
hash of both with one space between, whatever stood there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.hashing import Int64Array, Uint64Array, fnv1a

MAX_WORDS = 2
"""The most words of a feature."""

_SEPARATOR = 0
_LETTERS_AND_DIGITS = b"abcdefghijklmnopqrstuvwxyz0123456789"
_FOLD = np.zeros(256, dtype=np.uint8)
_FOLD[list(_LETTERS_AND_DIGITS)] = list(_LETTERS_AND_DIGITS)
_FOLD[list(_LETTERS_AND_DIGITS.upper())] = list(_LETTERS_AND_DIGITS)


def word_features(texts: Sequence[bytes], words: int) -> tuple[Int64Array, Uint64Array]:
    """Return the distinct features of each text: their number, int64[texts], and their hashes.

    The hashes, uint64, come text by text and rise within each. Features are of one word, and of two
    as well where `words` is 2.
    """
    folded, owners_at = _fold(texts)
    starts, ends = _spans(folded)
    owner = np.searchsorted(owners_at, starts, side="right") - 1
    hashes = fnv1a(folded, starts, ends - starts)
    if words == 2:
        pair = np.flatnonzero(owner[1:] == owner[:-1])
        spaced = fnv1a(
            np.frombuffer(b" ", np.uint8),
            np.zeros(len(pair), np.int64),
            np.ones(len(pair), np.int64),
            hashes[pair],
        )
        second = pair + 1
        pairs = fnv1a(folded, starts[second], (ends - starts)[second], spaced)
        owner = np.concatenate([owner, owner[pair]])
        hashes = np.concatenate([hashes, pairs])
    order = np.lexsort((hashes, owner))
    owner, hashes = owner[order], hashes[order]
    first = np.ones(len(hashes), dtype=bool)
    first[1:] = (owner[1:] != owner[:-1]) | (hashes[1:] != hashes[:-1])
    return np.bincount(owner[first], minlength=len(texts)).astype(np.int64), hashes[first]


def _fold(texts: Sequence[bytes]) -> tuple[NDArray[np.uint8], Int64Array]:
    """All texts in one array, separated, and where each begins."""
    joined = np.frombuffer(bytes([_SEPARATOR]).join(texts), dtype=np.uint8)
    lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    return _FOLD[joined], np.cumsum(lengths) - lengths


def _spans(folded: NDArray[np.uint8]) -> tuple[Int64Array, Int64Array]:
    """Where each word starts and ends."""
    inside = np.zeros(len(folded) + 2, dtype=np.int8)
    inside[1:-1] = folded != _SEPARATOR
    edges = np.diff(inside)
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
