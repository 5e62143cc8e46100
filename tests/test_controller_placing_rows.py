"""Rows that are full, or end with a group of keys."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.placing.measure import measure
from controller.placing.pairs import with_second_cells
from controller.placing.rows import fill_rows
from host_stack.layout import Layout
from host_stack.placement import heat_based

LAYOUT = Layout(lanes=8, rows=1024, window=256, program=1)


def rows_of(sizes: list[int], chances: list[float], layout: Layout, front: int) -> list[int]:
    """The rows of groups of some sizes."""
    groups = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes)
    return fill_rows(groups, np.repeat(chances, sizes), layout, front).tolist()


@given(
    st.lists(st.tuples(st.integers(1, 20), st.floats(0, 1)), max_size=60),
    st.integers(0, 4),
)
def test_rows_are_filled_in_order(parts: list[tuple[int, float]], front: int) -> None:
    """One after the other, none with too many keys, the first ones full, and within the block."""
    sizes = [size for size, _ in parts]
    rows = np.array(rows_of(sizes, [chance for _, chance in parts], LAYOUT, front), np.int64)
    count = sum(sizes)
    full = np.arange(count) // 8
    assert np.isin(np.diff(rows, prepend=0), [0, 1]).all()
    assert (np.bincount(rows) <= 8).all()
    assert rows[: front * 8].tolist() == full[: front * 8].tolist()
    if count:
        assert rows[-1] + front < 1 << int(full[-1] + front).bit_length()


def test_groups_that_are_seldom_touched_stay_whole() -> None:
    """Of five keys each, one a row; those that are always touched share rows."""
    rows = rows_of([5] * 16, [1.0] * 8 + [0.1] * 8, LAYOUT, 0)
    assert rows[:40] == (np.arange(40) // 8).tolist()
    assert rows[40:] == (5 + np.arange(40) // 5).tolist()


def test_single_keys_fill_their_rows() -> None:
    """There is nothing to keep whole."""
    assert rows_of([1] * 50, [0.01] * 50, LAYOUT, 0) == (np.arange(50) // 8).tolist()


def test_a_job_takes_no_larger_block() -> None:
    """Nine full rows make a block of sixteen: thirteen may be whole; of 22 groups, the last six."""
    assert rows_of([5] * 12, [0.05] * 12, LAYOUT, 0) == (np.arange(60) // 8).tolist()
    assert rows_of([5] * 13, [0.05] * 13, LAYOUT, 0)[-1] == 12
    rows = rows_of([5] * 22, [0.05] * 22, LAYOUT, 0)
    assert rows[-1] == 15
    assert rows[:80] == (np.arange(80) // 8).tolist()
    small = Layout(lanes=8, rows=16, window=256, program=1)
    assert rows_of([5] * 22, [0.05] * 22, small, 0) == rows
    assert rows_of([5] * 22, [0.05] * 22, small, 2) == (np.arange(110) // 8).tolist()


def test_fewer_bytes_than_by_heat() -> None:
    """Embeddings of five keys that are chosen independently, on rounds that were not seen."""
    rng = np.random.default_rng(4)
    chance = np.geomspace(0.2, 0.002, 400)

    def document() -> np.ndarray:
        chosen = np.flatnonzero(rng.random(400) < chance)[:, np.newaxis]
        return (chosen * 5 + np.arange(5)).ravel().astype(np.uint64)

    hot = np.arange(2000, dtype=np.uint64)
    ours = with_second_cells(hot, [document() for _ in range(2000)], 2, 4, LAYOUT, 1)
    rounds = [
        [np.unique(np.concatenate([document(), document()])) for _ in range(4)] for _ in range(60)
    ]
    cost, heat = measure(ours, rounds), measure(heat_based(hot, LAYOUT), rounds)
    assert cost.rows_touched < 0.95 * heat.rows_touched
    assert cost.hot_bytes < heat.hot_bytes
