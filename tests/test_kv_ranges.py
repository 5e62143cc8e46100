"""Key slices of the servers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.kv.errors import KVUsageError
from host_stack.kv.ranges import (
    MAX_KEY,
    boundaries,
    check_keys,
    same_keys,
    slice_positions,
)


@settings(derandomize=True, max_examples=200)
@given(st.sets(st.integers(0, MAX_KEY), max_size=50), st.integers(1, 7))
def test_slices_agree_with_integer_division(keys: set[int], servers: int) -> None:
    """Server i owns [kMax/n·i, kMax/n·(i+1)), in exact integers."""
    step = MAX_KEY // servers
    owned = sorted(key for key in keys if key < step * servers)
    array = np.array(owned, np.uint64)
    positions = slice_positions(array, boundaries(servers))
    for rank in range(servers):
        expected = [key for key in owned if key // step == rank]
        assert array[positions[rank] : positions[rank + 1]].tolist() == expected


@pytest.mark.parametrize("servers", [1, 2, 3, 4, 5])
def test_keys_at_the_edges(servers: int) -> None:
    """The first key of a slice belongs to it, the one before does not."""
    bounds = boundaries(servers)
    assert bounds[0] == 0
    inner = bounds[1:-1]
    keys = np.unique(np.concatenate([inner - np.uint64(1), inner])) if inner.size else bounds[:1]
    positions = slice_positions(keys, bounds)
    for rank, bound in enumerate(bounds[1:-1].tolist(), 1):
        assert keys[positions[rank]] == bound
        assert keys[positions[rank] - 1] == bound - 1


def test_key_without_owner_is_refused() -> None:
    """Integer division leaves the topmost keys to nobody."""
    with pytest.raises(KVUsageError, match="no owner"):
        slice_positions(np.array([0, MAX_KEY], np.uint64), boundaries(1))


@pytest.mark.parametrize(
    "keys",
    [
        np.array([1, 2]),
        np.array([1, 2], np.uint32),
        np.array([[1, 2]], np.uint64),
        np.array([2, 1], np.uint64),
        np.array([1, 1], np.uint64),
        np.array([2**64 - 1, 0], np.uint64),
    ],
)
def test_bad_keys_are_refused(keys: np.ndarray) -> None:
    """Keys must be one dimension of strictly increasing uint64."""
    with pytest.raises(KVUsageError, match="keys must be"):
        check_keys(keys)


def test_good_keys_pass() -> None:
    """None, one and many."""
    for count in (0, 1, 5):
        check_keys(np.arange(count, dtype=np.uint64))


ANY_KEYS = st.lists(st.integers(0, 3), max_size=4)


@given(ANY_KEYS, ANY_KEYS, st.sampled_from(["<u8", "<i8", "<f8"]), st.booleans())
def test_same_keys_are_equal_in_type_and_number(
    some: list[int], others: list[int], dtype: str, scattered: bool
) -> None:
    """Also where an array is no contiguous one."""
    keys = np.array(some, np.uint64)
    theirs = np.array(others, dtype)
    if scattered:
        theirs = np.repeat(theirs, 2)[::2]
    assert same_keys(keys, theirs) == (some == others and dtype == "<u8")
