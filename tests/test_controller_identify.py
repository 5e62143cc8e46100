"""Identifying the hot keys and choosing how many."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.identify import Heat, hot_set_size, saved_bytes
from host_stack.layout import Layout
from tests.host_support import LAYOUT


def zipf_heat(exponent: float = 1.1, keys: int = 20000) -> Heat:
    """Heat in which the share of batches falls with the rank."""
    share = np.minimum(1.0, 3.0 * np.arange(1, keys + 1, dtype=np.float64) ** -exponent)
    return Heat(np.arange(keys, dtype=np.uint64), share, 1000)


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


def test_nothing_sampled_places_nothing() -> None:
    """Without heat there is no hot set."""
    assert hot_set_size(Heat.count([], 10), 8, LAYOUT) == 0


def test_zero_when_nothing_pays() -> None:
    """Keys that hardly anyone touches cost more rows than they save."""
    heat = Heat(np.arange(5000, dtype=np.uint64), np.full(5000, 1e-3), 1000)
    assert hot_set_size(heat, 2, LAYOUT) == 0


def test_every_key_when_all_are_hot() -> None:
    """Keys of every batch all pay, up to the cells of the switch."""
    heat = Heat(np.arange(5000, dtype=np.uint64), np.ones(5000), 100)
    assert hot_set_size(heat, 4, LAYOUT) == 5000
    small = Layout(lanes=32, rows=64, window=256, program=1)
    assert hot_set_size(heat, 4, small) == small.cells


@pytest.mark.parametrize("exponent", [0.7, 0.9, 1.1, 1.4])
def test_more_workers_place_more(exponent: float) -> None:
    """Each worker pays for a cold key, all share a hot one."""
    sizes = [hot_set_size(zipf_heat(exponent), workers, LAYOUT) for workers in (1, 2, 4, 8, 16, 32)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_the_size_is_the_best(workers: int) -> None:
    """No other size saves more bytes, and the chosen one saves some."""
    heat = zipf_heat()
    saved = saved_bytes(heat, workers, LAYOUT)
    size = hot_set_size(heat, workers, LAYOUT)
    assert saved[size - 1] == saved[: LAYOUT.cells].max() > 0


def test_saved_bytes_of_one_key_by_hand() -> None:
    """A key of every batch: 32 bytes a worker saved, a cell and a lane's share of a row spent."""
    heat = Heat(np.zeros(1, np.uint64), np.ones(1), 10)
    saved = saved_bytes(heat, 4, LAYOUT)
    assert saved.tolist() == pytest.approx([4 * 32 - 8 - 130 / 32], abs=1e-6)
