"""What a placement costs, counted another way."""

from __future__ import annotations

import numpy as np
import pytest

from controller.byte_model import cold_bytes
from controller.placing.measure import conflicts, measure, rounds_of
from controller.placing.pairs import pair_rows
from host_stack.codec import DRAIN, Codec
from host_stack.drain import MAX_RUN
from host_stack.layout import Layout
from host_stack.placement import Placement, heat_based

LAYOUT = Layout(lanes=8, rows=64, window=256, program=1)
FRAME = 14 + 20 + 8


def test_conflicts_by_hand() -> None:
    """Of those of a packet that want one lane, all but one are in conflict."""
    assert conflicts(np.arange(6) // 4, np.array([0, 1, 2, 3, 0, 0]), 4) == 1
    assert conflicts(np.arange(9) // 8, np.array([5, 5, 5, 5, 1, 2, 3, 4, 5]), 8) == 3
    assert conflicts(np.arange(0), np.array([], np.int64), 8) == 0


def test_conflicts_are_counted_as_packed() -> None:
    """Of a push as it travels; packing by lanes leaves none, filling in order many."""
    placement = pair_rows(heat_based(np.arange(100, dtype=np.uint64), LAYOUT), 3)
    keys = np.arange(0, 96, 3, dtype=np.uint64)
    cost = measure(placement, [[keys]])
    assert cost.conflicts == 0
    assert cost.arrival_conflicts == conflicts(np.arange(32) // 8, np.arange(0, 96, 3) % 8, 8)


def drained_bytes(placement: Placement, used: set[tuple[int, int]]) -> tuple[int, int, int]:
    """Rows, DRAINs and bytes of a drain, from the cells (row, lane) in which something is.

    Paired rows are the first ones; a DRAIN asks for up to 32 rows that follow each other.
    """
    pairs = placement.pairs
    first = dict(zip(pairs.seconds.tolist(), pairs.rows.tolist(), strict=True))
    mask = dict(zip(pairs.seconds.tolist(), pairs.masks.tolist(), strict=True))
    merged = {(first.get(row, row), lane ^ mask.get(row, 0)) for row, lane in used}
    rows = sorted({row for row, _ in merged})
    requests, length = 0, 0
    for at, row in enumerate(rows):
        follows = at and rows[at - 1] == row - 1 and row != len(pairs) and length < MAX_RUN
        length = length + 1 if follows else 1
        requests += length == 1
    total = requests * (FRAME + DRAIN.itemsize)
    total += len(rows) * (FRAME + Codec(LAYOUT).drained_prefix) + 4 * len(merged)
    return len(rows), requests, total


@pytest.mark.parametrize("pairs", [0, 3, 13])
def test_bytes_of_a_round(pairs: int) -> None:
    """As the packets of drains and updates have them, and the cold keys of all workers."""
    placement = pair_rows(heat_based(np.arange(100, dtype=np.uint64), LAYOUT), pairs)
    rng = np.random.default_rng(5)
    pushes = [np.sort(rng.choice(400, 40, replace=False)).astype(np.uint64) for _ in range(3)]
    used: set[tuple[int, int]] = set()
    for keys in pushes:
        packing = placement.pack(placement.find(keys)[1])
        used |= set(zip(packing.rows.tolist(), packing.lanes.tolist(), strict=True))
    rows, requests, drained = drained_bytes(placement, used)
    changed = np.unique(np.concatenate(pushes))
    changed = changed[changed < 100].astype(np.int64)
    updated = len(np.unique(changed // 8)) * (FRAME + Codec(LAYOUT).update_prefix)
    cold = sum(int((keys >= 100).sum()) for keys in pushes)
    cost = measure(placement, [pushes, pushes])
    assert cost.rows_touched == rows
    assert cost.requests == requests
    assert cost.hot_bytes == drained + updated + 4 * len(changed)
    assert cost.server_bytes == pytest.approx(cost.hot_bytes + cold_bytes(cold))
    assert cost.cold_keys == pytest.approx(cold / 3)


def test_rounds() -> None:
    """What is left after the last whole round is left out."""
    pushes = [np.array([number], np.uint64) for number in range(7)]
    assert [[int(keys[0]) for keys in each] for each in rounds_of(pushes, 3)] == [
        [0, 1, 2],
        [3, 4, 5],
    ]
    assert rounds_of(pushes[:2], 3) == []
