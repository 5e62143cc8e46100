"""Second cells: which rows get them, and what they bring."""

from __future__ import annotations

import numpy as np
import pytest

from controller.placing.documents import deal, hottest
from controller.placing.measure import measure, rounds_of
from controller.placing.methods import Data, place
from controller.placing.pairs import lane_masks, pair_rows
from host_stack.drain import runs
from host_stack.errors import BadInput
from host_stack.layout import Layout
from host_stack.placement import heat_based, next_masks
from tests.documents import topics

LAYOUT = Layout(lanes=8, rows=1024, window=256, program=1)


def test_pairs_are_behind_all_rows() -> None:
    """The first rows are paired with as many rows behind the last one."""
    placement = pair_rows(heat_based(np.arange(70, dtype=np.uint64), LAYOUT), 3)
    assert placement.pairs.rows.tolist() == [0, 1, 2]
    assert placement.pairs.seconds.tolist() == [9, 10, 11]
    assert placement.used_rows == 12


@pytest.mark.parametrize("count", [-1, 10])
def test_more_pairs_than_rows(count: int) -> None:
    """A row has keys before it can be paired."""
    placement = heat_based(np.arange(70, dtype=np.uint64), LAYOUT)
    with pytest.raises(BadInput, match="9 of 1024 rows are in use, allowed are 0 to 9"):
        pair_rows(placement, count)


@pytest.mark.parametrize("lanes", [8, 16, 32, 64])
def test_masks_connect_all_lanes(lanes: int) -> None:
    """Each bit in turn, as the masks of a DRAIN follow each other."""
    layout = Layout(lanes, 1024, 256, 1)
    masks = lane_masks(9, layout)
    assert np.bitwise_or.reduce(masks[: layout.lane_bits]) == lanes - 1
    assert next_masks(masks[:-1], layout).tolist() == masks[1:].tolist()


@pytest.mark.parametrize(("keys", "paired"), [(0, 0), (9, 2), (8 * 200, 64), (8 * 1010, 14)])
def test_as_many_pairs_as_two_drains_ask_for(keys: int, paired: int) -> None:
    """But no more than there are rows with keys, and rows without."""
    hot = np.arange(keys, dtype=np.uint64)
    placement = place("two-cells", hot, LAYOUT, Data([hot] * 20, 1, 4, 1))
    assert len(placement.pairs) == paired
    if paired:
        rows = placement.pairs.rows
        begins, counts = runs(rows, placement.second_cells(rows), rows < 0, LAYOUT)
        assert counts.tolist() == [min(paired, 32)] * (1 + paired // 64)
        assert begins.tolist() == [0, 32][: len(counts)]


def test_rows_by_heat_where_keys_do_not_meet() -> None:
    """Keys that occur together by chance alone share rows by their heat, as in the paper."""
    rng = np.random.default_rng(3)
    chance = np.linspace(0.5, 0.02, 1600)
    documents = [np.flatnonzero(rng.random(1600) < chance).astype(np.uint64) for _ in range(400)]
    hot = hottest(documents, 1600)
    ours, heat = (
        place(method, hot, LAYOUT, Data(documents, 2, 4, 1)) for method in ("two-cells", "heat")
    )
    row = dict(zip(heat.keys.tolist(), heat.rows.tolist(), strict=True))
    assert [row[key] for key in ours.keys.tolist()] == ours.rows.tolist()
    assert len(ours.pairs) == 64


def test_full_packets_at_the_price_of_heat() -> None:
    """On unseen pushes of keys that meet: packets nearly full, with fewer bytes than by heat."""
    documents = topics(1)
    keys = hottest(documents, 2400)
    rounds = rounds_of(deal(topics(2, 300), 4, 64, seed=1), 4)
    heat, ours = (
        measure(place(method, keys, LAYOUT, Data(documents, 4, 4, 1)), rounds)
        for method in ("heat", "two-cells")
    )
    assert heat.packets_ratio > 1.05
    assert ours.packets_ratio <= 1.01
    assert ours.hot_bytes < heat.hot_bytes
