"""Names of features in fields: known values, folding, starts."""

from __future__ import annotations

import numpy as np

from workloads.columns import split
from workloads.fields import field_starts, number_names, value_names
from workloads.hashing import fnv1a_of


def test_names_are_hashes_behind_the_number_of_the_field() -> None:
    """By the definition, unfolded and folded."""
    columns = split(b"68fd1e64\tx\n\ty\n", 9, 2)
    assert columns is not None
    names = value_names(columns, ["C1", "C2"], 3, 0)
    hashes = [fnv1a_of(text) for text in (b"C1=68fd1e64", b"C2=x", b"C1=", b"C2=y")]
    wanted = [(3 + i % 2) << 56 | value >> 8 for i, value in enumerate(hashes)]
    assert names.ravel().tolist() == wanted
    folded = value_names(columns, ["C1", "C2"], 3, 5)
    wanted = [(3 + i % 2) << 56 | (value >> 5 ^ value) & 31 for i, value in enumerate(hashes)]
    assert folded.ravel().tolist() == wanted


def test_starts_of_fields() -> None:
    """A field without features is empty, not absent."""
    names = np.sort(np.concatenate([number_names(0, 3), number_names(2, 2), number_names(255, 1)]))
    assert field_starts(names, 4).tolist() == [0, 3, 3, 5, 6]
    assert number_names(1, 2).tolist() == [1 << 56, (1 << 56) + 1]
