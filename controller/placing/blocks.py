"""Rows of several jobs on one switch: to each a power-of-two block, which no other job reaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from host_stack.errors import BadInput
from host_stack.layout import Layout
from host_stack.placement import Placement


@dataclass(frozen=True, order=True)
class Block:
    """The rows of a job (`controller.tables.Membership`).

    Attributes:
        row_base: the first one, a multiple of `rows`.
        rows: how many, a power of two.
    """

    row_base: int
    rows: int

    def __post_init__(self) -> None:
        aligned = (
            self.rows > 0 and not self.rows & (self.rows - 1) and not self.row_base % self.rows
        )
        if not aligned or self.row_base < 0:
            raise BadInput(
                f"rows {self.row_base}…+{self.rows}: a job has an aligned power-of-two block"
            )

    def overlaps(self, other: Block) -> bool:
        """Whether a row is in both."""
        return (
            self.row_base < other.row_base + other.rows
            and other.row_base < self.row_base + self.rows
        )

    def halves(self) -> tuple[Block, Block]:
        """The lower and the upper half; only of two rows or more."""
        half = self.rows // 2
        return Block(self.row_base, half), Block(self.row_base + half, half)


def block_rows(used: int) -> int:
    """The rows of the smallest block that holds `used` rows."""
    return 1 << (max(1, used) - 1).bit_length()


def blocks_of(used: list[int], layout: Layout) -> list[Block]:
    """A block for each job, of which `used` says how many rows it needs.

    The largest come first, so that each begins at a multiple of its size and none is left out that
    would fit. Raises `BadInput` if they are more than the layout has.
    """
    sizes = np.array([block_rows(rows) for rows in used], np.int64)
    if sizes.sum() > layout.rows:
        raise BadInput(
            f"the jobs need blocks of {', '.join(map(str, sizes))} rows, {sizes.sum()} in all, and "
            f"the switch has {layout.rows}; place fewer hot keys"
        )
    order = np.argsort(-sizes, kind="stable")
    bases = np.empty_like(sizes)
    bases[order] = np.cumsum(sizes[order]) - sizes[order]
    return [Block(base, rows) for base, rows in zip(bases.tolist(), sizes.tolist(), strict=True)]


def on_switch(placement: Placement, layout: Layout) -> Placement:
    """The same cells in a layout with more rows: that of the switch, of which a job has a block."""
    return Placement(placement.keys, placement.lanes, placement.rows, layout, placement.pairs)
