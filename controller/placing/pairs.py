"""Second cells for the hottest keys, so that a push fills its packets (section 4 of the design)."""

from __future__ import annotations

import numpy as np

from host_stack.errors import BadInput
from host_stack.fixedpoint import IntArray
from host_stack.placement import Placement, RowPairs


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
