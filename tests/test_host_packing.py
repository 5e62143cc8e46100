"""Packing: each key once, no lane twice in a packet, and lanes levelled by second cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from controller.placing.pairs import pair_rows
from host_stack.layout import Layout
from host_stack.packing import Exchanges, ideal_packets, nth_of_lane, spread
from host_stack.placement import Placement, heat_based
from tests.placements import LAYOUT, pushes_of


@settings(max_examples=150, derandomize=True, deadline=None)
@given(case=pushes_of())
def test_packing(case: tuple[Placement, np.ndarray]) -> None:
    """Each key once, in a cell of its own; each lane once in a packet; no empty packet."""
    placement, index = case
    packing = placement.pack(index)
    assert placement.index_of(packing.lanes, packing.rows).tolist() == index.tolist()
    slots = list(zip(packing.packets.tolist(), packing.lanes.tolist(), strict=True))
    assert len(set(slots)) == len(slots) == len(index)
    assert set(packing.packets.tolist()) == set(range(packing.count))
    for lane in range(LAYOUT.lanes):
        mine = packing.packets[packing.lanes == lane]
        assert mine.tolist() == list(range(len(mine)))


@settings(max_examples=150, derandomize=True, deadline=None)
@given(case=pushes_of())
def test_second_cells_never_cost_a_packet(case: tuple[Placement, np.ndarray]) -> None:
    """With second cells a push takes at most as many packets as without, at least the ideal."""
    placement, index = case
    single = Placement(placement.keys, placement.lanes, placement.rows, placement.layout)
    ideal = ideal_packets(len(index), LAYOUT.lanes)
    assert ideal <= placement.pack(index).count <= single.pack(index).count


def test_nth_of_lane_by_hand() -> None:
    """Keys of a lane are counted in their order."""
    lanes = np.array([3, 1, 3, 3, 0, 1], np.uint8)
    nth, fullest = nth_of_lane(lanes, 8)
    assert nth.tolist() == [0, 0, 1, 2, 0, 1]
    assert fullest == 3
    assert nth_of_lane(lanes[:0], 8)[1] == 0


def test_spread_by_hand() -> None:
    """Lanes share over masks, and of the pairs of a mask the first ones give."""
    exchanges = Exchanges.of(np.array([1, 2, 1]), 4)
    assert exchanges.order.tolist() == [0, 2, 1]
    assert exchanges.others.tolist() == [[1, 0, 3, 2], [2, 3, 0, 1]]
    present = np.zeros((3, 4), np.bool_)
    present[:, 0] = True
    # Ideal are 2: lane 0 has two to give, lanes 1 and 2 take one each.
    moved = spread(np.array([4, 1, 1, 2]), present, exchanges)
    assert np.argwhere(moved).tolist() == [[0, 0], [2, 0]]
    # Level lanes are left alone, and keys that are not in the push do not move.
    assert not spread(np.array([2, 2, 2, 2]), present, exchanges).any()
    assert not spread(np.array([4, 1, 1, 2]), np.zeros_like(present), exchanges).any()


def test_spread_goes_through_other_lanes() -> None:
    """A lane may give keys by way of a third one, which gives away as many of its own."""
    present = np.zeros((2, 4), np.bool_)
    present[0, 0] = present[1, 1] = True
    # Lane 0 reaches lane 1 alone, and lane 1 lane 3, which is empty.
    moved = spread(np.array([4, 2, 2, 0]), present, Exchanges.of(np.array([1, 2]), 4))
    assert moved.tolist() == present.tolist()


@pytest.mark.parametrize("lanes", [8, 16, 32, 64])
def test_second_cells_fill_packets(lanes: int) -> None:
    """Where enough keys own two cells, packets of random pushes are nearly full."""
    layout = Layout(lanes, 1024, 256, 1)
    rng = np.random.default_rng(7)
    heat = heat_based(np.arange(200 * lanes, dtype=np.uint64), layout)
    paired = pair_rows(heat, 30)
    ratios = {}
    for name, placement in (("one", heat), ("two", paired)):
        counts = []
        for _ in range(20):
            index = np.flatnonzero(rng.random(len(heat)) < np.linspace(1, 0.1, len(heat)))
            counts.append((placement.pack(index).count, ideal_packets(len(index), lanes)))
        packets, ideal = np.sum(counts, axis=0)
        ratios[name] = packets / ideal
    assert ratios["one"] > 1.06
    assert ratios["two"] < 1.005
