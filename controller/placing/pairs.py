"""Second cells for the hottest keys, so that a push fills its packets (section 4 of the design).

Both cells of a key are drained, as digits where both were used: that is what fuller packets cost on
the server's link. The hottest keys are those that the most workers can level their lanes with, at
the same price. So as few rows as possible are paired, the hottest ones.
"""

from __future__ import annotations

import numpy as np

from controller.byte_model import touch_share
from controller.placing.cooccurrence import by_cooccurrence
from controller.placing.documents import Documents, deal, hottest
from controller.placing.measure import Round, measure, rounds_of
from host_stack.errors import BadInput
from host_stack.fixedpoint import IntArray
from host_stack.layout import Layout
from host_stack.packing import ideal_packets
from host_stack.placement import Keys, Placement, RowPairs, heat_based

GOOD_RATIO = 1.01
ENOUGH_RATIO = 1.018
"""Packets per push, as a multiple of the ideal: what pairs are to reach, and what they are to reach
where more of them would make a drain larger than that of the heat-based placement."""
MARGIN = 0.01
"""Share of the bytes by which a trial may be off."""
HELD_BACK = 10
"""One in so many documents is first left out, to choose the number of pairs with."""
TRIAL_ROUNDS = 6
MAX_PAIRS = 64
MIN_SHARE = 0.25
"""Second cells are for keys that at least this share of pushes has."""


def pair_rows(placement: Placement, count: int) -> Placement:
    """Give the keys of the first `count` rows a second cell each, in rows behind all others.

    Raises `BadInput` if there are fewer rows with keys, or no rows are left for second cells.
    """
    layout, used = placement.layout, placement.used_rows
    if not 0 <= count <= min(used, layout.rows - used):
        raise BadInput(
            f"{count} rows of second cells: {used} of {layout.rows} rows are in use, allowed are "
            f"0 to {min(used, layout.rows - used)}"
        )
    rows = np.arange(count, dtype=np.int64)
    pairs = RowPairs(rows, used + rows, lane_masks(count, layout.lanes))
    return Placement(placement.keys, placement.lanes, placement.rows, layout, pairs)


def lane_masks(count: int, lanes: int) -> IntArray:
    """int64[count]: how the lanes of successive pairs differ, so that any two lanes come to meet.

    Masks of one bit come first: with log2(LANES) of them, load can get from any lane to any other.
    """
    masks = sorted(range(1, lanes), key=lambda mask: (mask.bit_count(), mask))
    return np.resize(np.array(masks, np.int64), count)


def with_second_cells(
    hot: Keys, documents: list[Keys], draws: int, workers: int, layout: Layout, seed: int
) -> Placement:
    """Place by co-occurrence, and pair as few rows as fill packets (`GOOD_RATIO`, `ENOUGH_RATIO`).

    How many these are is found out on documents that a placement on trial was made without.

    Args:
        hot: uint64[n], the hot keys.
        documents: uint64[m] each, unique keys.
        draws: documents of a push.
        workers: pushes of a round.
        layout: of the switch.
        seed: of the pushes on trial.
    """
    known = Documents.of(hot, documents)
    present = touch_share(known.shares, draws)
    common = int((present >= MIN_SHARE).sum()) // layout.lanes
    spare = layout.rows - ideal_packets(len(hot), layout.lanes)
    front = max(0, min(common, spare, MAX_PAIRS))
    placement = by_cooccurrence(known, draws, layout, front)
    if not front or len(documents) < HELD_BACK:
        return placement
    fitted = [keys for at, keys in enumerate(documents) if at % HELD_BACK]
    trial_keys = hottest(fitted, len(hot))
    trial = by_cooccurrence(Documents.of(trial_keys, fitted), draws, layout, front)
    pushes = deal(documents[::HELD_BACK], draws, workers * TRIAL_ROUNDS, seed)
    rounds = rounds_of(pushes, workers)
    allowed = (1 - MARGIN) * measure(heat_based(trial_keys, layout), rounds).hot_bytes
    return pair_rows(placement, fewest_pairs(trial, rounds, front, allowed))


def fewest_pairs(placement: Placement, rounds: list[Round], limit: int, allowed: float) -> int:
    """The fewest pairs that fill the packets of `rounds`, up to `limit`.

    `allowed` are bytes of a round, above which less full packets have to do.
    """
    good = _fewest(placement, rounds, limit, GOOD_RATIO)
    if measure(pair_rows(placement, good), rounds).hot_bytes <= allowed:
        return good
    return _fewest(placement, rounds, good, ENOUGH_RATIO)


def _fewest(placement: Placement, rounds: list[Round], limit: int, ratio: float) -> int:
    low, high = 0, limit
    while low < high:
        middle = (low + high) // 2
        if measure(pair_rows(placement, middle), rounds).packets_ratio <= ratio:
            high = middle
        else:
            low = middle + 1
    return low
