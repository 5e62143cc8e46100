"""The software aggregator: a sum is a function of the gradients alone."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.aggregator import SoftwareAggregator
from host_stack.errors import BadInput
from host_stack.fixedpoint import to_fixed, to_float32

F = 40
NUM_KEYS = 8

gradient = st.floats(width=32, allow_nan=False, allow_infinity=False)
contribution = st.tuples(st.integers(0, 4), st.integers(0, NUM_KEYS - 1), gradient)


def add_one(aggregator: SoftwareAggregator, rank: int, key: int, value: float) -> None:
    """Add a single gradient."""
    aggregator.add(rank, np.array([key]), np.array([value], np.float32))


def reference(contributions: list[tuple[int, int, float]]) -> dict[int, bytes]:
    """Each touched key's float32 by the definition of section 3, one number at a time."""
    by_key = defaultdict(list)
    for _, key, value in sorted(contributions):
        by_key[key].append(np.float32(value))
    result = {}
    for key, values in by_key.items():
        fixed, escape = to_fixed(np.array(values, np.float32), F)
        total = int(fixed.sum())
        if escape.any():
            exact = np.float64(total) * np.float64(2.0) ** -F
            for value in np.array(values, np.float32)[escape]:
                exact = exact + np.float64(value)
            with np.errstate(over="ignore"):
                result[key] = np.float32(exact).tobytes()
        else:
            result[key] = to_float32(np.array([total]), F)[0].tobytes()
    return result


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    contributions=st.lists(contribution, max_size=24, unique_by=lambda c: c[:2]),
    order=st.randoms(use_true_random=False),
)
def test_order_does_not_matter(contributions: list[tuple[int, int, float]], order: object) -> None:
    """Any permutation of any gradients, escapes among them, gives the bits of the definition."""
    shuffled = list(contributions)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    aggregator = SoftwareAggregator(NUM_KEYS, F)
    for rank, key, value in shuffled:
        add_one(aggregator, rank, key, value)
    keys, sums = aggregator.take()
    got = {int(key): value.tobytes() for key, value in zip(keys, sums, strict=True)}
    assert got == reference(contributions)
    assert keys.tolist() == sorted(got)


def test_escapes_are_added_in_the_order_of_ranks() -> None:
    """Where float64 addition depends on the order, ranks decide and not arrival."""
    # 2^60 + 2^120 loses the first term, so that only one order leaves it in the sum.
    terms = {0: 2.0**120, 1: -(2.0**120), 2: 2.0**60}
    for arrival in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        aggregator = SoftwareAggregator(1, F)
        for rank in arrival:
            add_one(aggregator, rank, 0, terms[rank])
        _, sums = aggregator.take()
        assert sums.tolist() == [2.0**60]
    terms = {0: 2.0**60, 1: 2.0**120, 2: -(2.0**120)}
    aggregator = SoftwareAggregator(1, F)
    for rank in (1, 2, 0):
        add_one(aggregator, rank, 0, terms[rank])
    assert aggregator.take()[1].tolist() == [0.0]


def test_escapes_meet_the_fixed_point_sum() -> None:
    """A key with both kinds of gradients gets both; its neighbours are unaffected."""
    aggregator = SoftwareAggregator(3, F)
    aggregator.add(0, np.array([0, 1, 2]), np.array([0.5, 0.25, 0.125], np.float32))
    aggregator.add(1, np.array([1, 2]), np.array([1000.0, 0.125], np.float32))
    keys, sums = aggregator.take()
    assert keys.tolist() == [0, 1, 2]
    assert sums.tolist() == [0.5, 1000.25, 0.25]
    assert aggregator.escaped_count == 1


def test_infinity_and_nan_reach_the_sum() -> None:
    """What is no number is not lost silently."""
    aggregator = SoftwareAggregator(3, F)
    aggregator.add(0, np.array([0, 1, 2]), np.array([np.inf, np.nan, np.inf], np.float32))
    aggregator.add(1, np.array([0, 2]), np.array([1.0, -np.inf], np.float32))
    _, sums = aggregator.take()
    assert sums[0] == np.inf
    assert np.isnan(sums[1:]).all()


def test_float32_overflow_is_infinite_and_silent() -> None:
    """Two escapes beyond float32 make an infinity, without a warning."""
    aggregator = SoftwareAggregator(1, F)
    for rank in range(2):
        add_one(aggregator, rank, 0, 3e38)
    with np.errstate(all="raise"):
        _, sums = aggregator.take()
    assert sums.tolist() == [np.inf]


def test_a_key_may_occur_twice_in_one_call() -> None:
    """Repeated keys are summed, not overwritten."""
    aggregator = SoftwareAggregator(2, F)
    aggregator.add(0, np.array([1, 1, 1]), np.array([0.5, 0.25, 1.0], np.float32))
    assert aggregator.take()[1].tolist() == [1.75]


def test_take_ends_the_round() -> None:
    """Nothing of a round, escapes included, is left for the next."""
    aggregator = SoftwareAggregator(4, F)
    aggregator.add(0, np.array([1, 2]), np.array([0.5, 1e20], np.float32))
    assert aggregator.touched().tolist() == [False, True, True, False]
    aggregator.take()
    assert not aggregator.touched().any()
    keys, sums = aggregator.take()
    assert len(keys) == len(sums) == 0
    add_one(aggregator, 0, 2, 0.25)
    keys, sums = aggregator.take()
    assert (keys.tolist(), sums.tolist()) == ([2], [0.25])


def test_a_zero_gradient_touches_its_key() -> None:
    """A key with a sum of zero is in the aggregate: an optimiser may act on it."""
    aggregator = SoftwareAggregator(2, F)
    add_one(aggregator, 0, 1, 0.0)
    assert aggregator.take()[0].tolist() == [1]


@settings(max_examples=50, derandomize=True, deadline=None)
@given(
    values=st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20),
    split=st.integers(0, 20),
)
def test_sums_of_a_switch_are_worth_the_gradients(values: list[float], split: int) -> None:
    """Whichever share of the gradients a switch has summed, the result has the same bits."""
    keys = np.zeros(len(values), np.int64)
    floats = np.array(values, np.float32)
    alone = SoftwareAggregator(1, F)
    alone.add(0, keys, floats)
    shared = SoftwareAggregator(1, F)
    shared.add(0, keys[split:], floats[split:])
    fixed, _ = to_fixed(floats[:split], F)
    shared.add_sums(np.array([0]), np.array([fixed.sum()]))
    assert shared.take()[1].tobytes() == alone.take()[1].tobytes()


def test_bad_scale_is_refused() -> None:
    """F outside of the arithmetic's limits."""
    with pytest.raises(BadInput, match="F = 127"):
        SoftwareAggregator(1, 127)
