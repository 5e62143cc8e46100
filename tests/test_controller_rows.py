"""Rows for jobs: aligned, disjoint, and refused with what is free."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.daemon.rows import RowAllocator
from controller.errors import NoRoom
from controller.placing.blocks import Block, block_rows
from host_stack.errors import BadInput

ROWS = 64
STEPS = st.lists(st.one_of(st.integers(1, ROWS), st.integers(-20, -1)), max_size=40)


@given(STEPS)
def test_blocks_are_disjoint_and_nothing_is_lost(steps: list[int]) -> None:
    """Whatever is taken and given back (negative: which one), rows add up and never overlap."""
    taken: list[Block] = []
    for step in steps:
        allocator = RowAllocator(ROWS, taken)
        free = allocator.free()
        if step < 0:
            if taken:
                taken.pop(-step % len(taken))
            continue
        size = block_rows(step)
        if max((block.rows for block in free), default=0) < size:
            with pytest.raises(NoRoom, match=f"{allocator.free_rows} rows are free"):
                allocator.find(step)
            continue
        block = allocator.find(step)
        assert block.rows == size
        assert not any(block.overlaps(other) for other in taken)
        taken.append(block)
        covered = sorted([*taken, *RowAllocator(ROWS, taken).free()])
        assert [
            row for each in covered for row in range(each.row_base, each.row_base + each.rows)
        ] == list(range(ROWS))


@given(STEPS)
def test_free_blocks_are_maximal(steps: list[int]) -> None:
    """Two halves of an aligned block are never both free beside each other."""
    taken: list[Block] = []
    for step in steps:
        try:
            taken.append(RowAllocator(ROWS, taken).find(abs(step)))
        except NoRoom:
            taken.pop(0)
    free = set(RowAllocator(ROWS, taken).free())
    for block in free:
        buddy = Block(block.row_base ^ block.rows, block.rows) if block.rows < ROWS else None
        assert buddy not in free


def test_the_smallest_fitting_block_is_cut() -> None:
    """Large blocks stay whole."""
    taken = [Block(8, 8)]
    assert RowAllocator(ROWS, taken).find(7) == Block(0, 8)
    assert RowAllocator(ROWS, [*taken, Block(0, 8)]).find(9) == Block(16, 16)


def test_fragmentation() -> None:
    """Of what is free, the share outside of the largest block."""
    assert RowAllocator(ROWS, []).fragmentation == 0.0
    assert RowAllocator(ROWS, [Block(0, 64)]).fragmentation == 0.0
    assert RowAllocator(ROWS, [Block(16, 16)]).fragmentation == pytest.approx(1 - 32 / 48)
    with pytest.raises(NoRoom, match="48 rows are free, the largest block has 32"):
        RowAllocator(ROWS, [Block(16, 16)]).find(33)


def test_what_cannot_be() -> None:
    """More rows than there are, and blocks that are none."""
    with pytest.raises(BadInput, match="the switch has 64"):
        RowAllocator(ROWS, []).find(65)
    for base, rows in ((1, 2), (0, 3), (0, 0), (-4, 4)):
        with pytest.raises(BadInput, match="power-of-two"):
            Block(base, rows)
