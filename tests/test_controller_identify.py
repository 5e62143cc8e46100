"""Identifying the hot keys."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.identify import Heat
from tests.heats import zipf_heat


def test_count() -> None:
    """Hottest first, ties by key, keys that were never seen left out."""
    batches = [[1, 5, 7], [5, 7], [7, 0], [7]]
    heat = Heat.count([np.array(keys, np.uint64) for keys in batches], 10)
    assert heat.keys.tolist() == [7, 5, 0, 1]
    assert heat.share.tolist() == [1.0, 0.5, 0.25, 0.25]
    assert heat.batches == 4
    assert heat.keys.dtype == np.uint64


@settings(max_examples=100, derandomize=True, deadline=None)
@given(batches=st.lists(st.sets(st.integers(0, 30)), max_size=12), hot=st.integers(0, 40))
def test_coverage_is_the_share_of_updates(batches: list[set[int]], hot: int) -> None:
    """Against a count of the updates themselves."""
    heat = Heat.count([np.array(sorted(keys), np.uint64) for keys in batches], 31)
    chosen = set(heat.keys[:hot].tolist())
    total = sum(len(keys) for keys in batches)
    covered = sum(len(keys & chosen) for keys in batches)
    assert heat.coverage(hot) == pytest.approx(covered / total if total else 0.0)


def test_the_curve_of_update_shares() -> None:
    """It rises from the hottest key to all updates, with few points."""
    heat = zipf_heat()
    curve = heat.cumulative(50)
    assert len(curve) <= 50
    assert curve[0]["rank"] == 1
    assert curve[-1] == {"rank": len(heat.keys), "share": pytest.approx(1.0)}
    assert all(a["share"] < b["share"] for a, b in pairwise(curve))
    for point in curve:
        assert point["share"] == pytest.approx(heat.coverage(int(point["rank"])))


def test_the_curve_of_nothing() -> None:
    """A sample without keys has no curve."""
    assert Heat.count([], 10).cumulative() == []
