"""Strategies that make placements and pushes, for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from host_stack.layout import Layout
from host_stack.placement import Placement, RowPairs

LAYOUT = Layout(lanes=8, rows=16, window=256, program=1)


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    """Any placement of up to 60 keys, some of which may own a second cell."""
    rows = np.array(draw(st.permutations(range(LAYOUT.rows))), np.int64)
    pairs = draw(st.integers(0, 6))
    firsts = rows[: LAYOUT.rows - pairs]
    cells = draw(st.lists(st.integers(0, LAYOUT.lanes * len(firsts) - 1), max_size=60, unique=True))
    keys = draw(
        st.lists(st.integers(0, 2**64 - 1), min_size=len(cells), max_size=len(cells), unique=True)
    )
    masks = draw(st.lists(st.integers(1, LAYOUT.lanes - 1), min_size=pairs, max_size=pairs))
    at = np.array(cells, np.int64)
    return Placement(
        np.array(keys, np.uint64),
        at // len(firsts),
        firsts[at % len(firsts)],
        LAYOUT,
        RowPairs(firsts[:pairs], rows[LAYOUT.rows - pairs :], np.array(masks, np.int64)),
    )


@st.composite
def pushes_of(draw: st.DrawFn) -> tuple[Placement, np.ndarray]:
    """A placement, and some of its keys (intp[n], unique) in any order."""
    placement = draw(placements())
    if not len(placement):
        return placement, np.zeros(0, np.intp)
    chosen = draw(st.lists(st.sampled_from(range(len(placement))), unique=True))
    return placement, np.array(chosen, np.intp)
