"""The hash of features, against published values and its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.hashing import OFFSET_BASIS, PRIME, fnv1a, fnv1a_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"b", 0xAF63DF4C8601F1A5),
        (b"foobar", 0x85944171F73967E8),
        (b"chongo was here!\n", 0x46810940EFF5F915),
    ],
)
def test_published_values(text: bytes, value: int) -> None:
    """The test vectors of the authors of the hash."""
    assert fnv1a_of(text) == value


@settings(max_examples=60, derandomize=True, deadline=None)
@given(texts=st.lists(st.binary(max_size=20), max_size=8), split=st.integers(0, 20))
def test_many_at_once_are_each_its_own(texts: list[bytes], split: int) -> None:
    """Against the definition, byte by byte; and in two parts, the second from where one stopped."""
    wanted = []
    for text in texts:
        value = OFFSET_BASIS
        for byte in text:
            value = (value ^ byte) * PRIME % 2**64
        wanted.append(value)
    data = np.frombuffer(b"".join(texts), np.uint8)
    lengths = np.array([len(text) for text in texts], np.int64)
    starts = np.cumsum(lengths) - lengths
    assert fnv1a(data, starts, lengths).tolist() == wanted
    first = np.minimum(lengths, split)
    state = fnv1a(data, starts, first)
    assert fnv1a(data, starts + first, lengths - first, state).tolist() == wanted
