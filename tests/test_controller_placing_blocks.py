"""Rows of several jobs on one switch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.placing.blocks import block_rows, blocks_of
from host_stack.errors import BadInput
from host_stack.layout import Layout

LAYOUT = Layout(lanes=32, rows=64, window=256, program=1)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(used=st.lists(st.integers(0, 40), max_size=12))
def test_blocks(used: list[int]) -> None:
    """Aligned powers of two, large enough, apart from each other; refused only if too many."""
    sizes = [block_rows(rows) for rows in used]
    if sum(sizes) > LAYOUT.rows:
        with pytest.raises(BadInput, match=f"{sum(sizes)} in all, and the switch has 64"):
            blocks_of(used, LAYOUT)
        return
    taken: set[int] = set()
    for rows, block in zip(used, blocks_of(used, LAYOUT), strict=True):
        assert rows <= block.rows
        assert block.rows < 2 * max(1, rows)
        assert block.rows & (block.rows - 1) == block.row_base % block.rows == 0
        mine = set(range(block.row_base, block.row_base + block.rows))
        assert not mine & taken
        assert max(mine) < LAYOUT.rows
        taken |= mine


def test_blocks_by_hand() -> None:
    """The largest job comes first, whatever its place in the list."""
    blocks = blocks_of([3, 17, 1, 4], LAYOUT)
    assert [(block.row_base, block.rows) for block in blocks] == [
        (32, 4),
        (0, 32),
        (40, 1),
        (36, 4),
    ]
