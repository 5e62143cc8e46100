"""Second cells: which rows get them, and what they bring."""

from __future__ import annotations

import numpy as np
import pytest

from controller.placing.documents import deal, hottest
from controller.placing.measure import measure, rounds_of
from controller.placing.methods import Data, place
from controller.placing.pairs import lane_masks, pair_rows
from host_stack.errors import BadInput
from host_stack.layout import Layout
from host_stack.placement import heat_based
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
    """Masks of one bit come first, all come once before one comes again."""
    masks = lane_masks(lanes + 3, lanes).tolist()
    assert sorted(masks[: lanes - 1]) == list(range(1, lanes))
    assert masks[: lanes.bit_length() - 1] == [1 << bit for bit in range(lanes.bit_length() - 1)]
    assert masks[lanes - 1 :] == masks[:4]


def test_full_packets_at_the_price_of_heat() -> None:
    """On unseen pushes of keys that meet: packets nearly full, with no more bytes than by heat."""
    documents = topics(1)
    keys = hottest(documents, 2400)
    rounds = rounds_of(deal(topics(2, 300), 4, 64, seed=1), 4)
    heat, ours = (
        measure(place(method, keys, LAYOUT, Data(documents, 4, 4, 1)), rounds)
        for method in ("heat", "two-cells")
    )
    assert heat.packets_ratio > 1.05
    assert ours.packets_ratio <= 1.02
    assert ours.hot_bytes <= heat.hot_bytes
