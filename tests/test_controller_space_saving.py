"""Space-Saving against exact counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.space_saving import SpaceSaving
from host_stack.errors import BadInput


def fed(counters: int, batches: list[list[int]]) -> SpaceSaving:
    """A summary of a stream."""
    summary = SpaceSaving(counters)
    for keys in batches:
        summary.update(np.array(keys, np.uint64))
    return summary


def test_exact_while_all_keys_have_a_counter() -> None:
    """No error, ties by key, the largest keys of 64 bits included."""
    summary = fed(3, [[5, 2**64 - 1], [5], [], [9, 9, 5]])
    keys, counts, errors = summary.ranked()
    assert keys.tolist() == [5, 9, 2**64 - 1]
    assert counts.tolist() == [3, 2, 1]
    assert errors.tolist() == [0, 0, 0]
    assert (summary.error_bound, summary.updates) == (0, 6)


def test_a_known_stream() -> None:
    """By hand: one counter too few, so that a new key inherits what was given up."""
    summary = fed(2, [[1, 1, 1, 2, 2], [3, 1]])
    keys, counts, errors = summary.ranked()
    assert (keys.tolist(), counts.tolist(), errors.tolist()) == ([1, 2], [4, 2], [0, 0])
    assert summary.error_bound == 1
    summary.update(np.array([3, 3], np.uint64))
    keys, counts, errors = summary.ranked()
    assert (keys.tolist(), counts.tolist(), errors.tolist()) == ([1, 3], [4, 3], [0, 1])
    assert summary.error_bound == 2


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    counters=st.integers(1, 12),
    batches=st.lists(st.lists(st.integers(0, 20).map(lambda x: x * x // 20), max_size=15)),
)
def test_the_bounds_of_the_algorithm(counters: int, batches: list[list[int]]) -> None:
    """Counts bracket the truth; nothing above N / k is missed; the bound is at most N / k."""
    summary = fed(counters, batches)
    truth = Counter(key for keys in batches for key in keys)
    keys, counts, errors = summary.ranked()
    assert len(keys) <= counters
    for key, count, error in zip(keys.tolist(), counts.tolist(), errors.tolist(), strict=True):
        assert count - error <= truth[key] <= count
        assert error <= summary.error_bound
    assert summary.error_bound * counters <= summary.updates == sum(truth.values())
    missed = truth.keys() - set(keys.tolist())
    assert all(truth[key] <= summary.error_bound for key in missed)


def test_counts_stand_for_repeats() -> None:
    """A key with a count of three is one that comes three times."""
    one, other = SpaceSaving(4), SpaceSaving(4)
    for keys, counts in (([7, 1, 7], [2, 1, 1]), ([3, 9, 8], [1, 5, 2]), ([2], [1])):
        one.update(np.array(keys, np.uint64), np.array(counts, np.int64))
        other.update(np.repeat(np.array(keys, np.uint64), counts))
        for a, b in zip(one.ranked(), other.ranked(), strict=True):
            np.testing.assert_array_equal(a, b)
    assert one.updates == other.updates == 13


def test_heavy_keys_of_a_long_stream_are_found() -> None:
    """Of 100,000 keys under a Zipf law, 500 counters find the hottest 50."""
    random = np.random.default_rng(1)
    summary = SpaceSaving(500)
    for _ in range(40):
        summary.update(random.zipf(1.3, 5000).astype(np.uint64))
    assert set(range(1, 51)) <= set(summary.ranked()[0].tolist())


def test_no_counters() -> None:
    """Nothing can be found with nothing."""
    with pytest.raises(BadInput, match="0 counters"):
        SpaceSaving(0)
