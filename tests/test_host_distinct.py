"""Distinct values of arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.distinct import distinct


@settings(max_examples=60, derandomize=True, deadline=None)
@given(values=st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**64 - 1)), max_size=20))
def test_distinct_values_rise(values: list[int]) -> None:
    """As a sorted set has them, in the dtype of the input, which is left alone."""
    given_values = np.array(values, np.uint64)
    found = distinct(given_values)
    assert found.dtype == np.uint64
    assert found.tolist() == sorted(set(values))
    assert given_values.tolist() == values
