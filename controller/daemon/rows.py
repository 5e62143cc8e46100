"""Rows of a switch, given to jobs in aligned power-of-two blocks (section 4 of the design)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from controller.errors import NoRoom
from controller.placing.blocks import Block, block_rows
from host_stack.errors import BadInput


class RowAllocator:
    """Finds room beside the blocks that are taken; keeps no state of its own.

    The free rows are seen as the fewest aligned blocks that cover them, as in a buddy allocator,
    and the smallest that is large enough is cut to size: large blocks stay whole as long as
    possible.
    """

    def __init__(self, rows: int, taken: Collection[Block]) -> None:
        """Of a switch with `rows` rows, a power of two."""
        self._all = Block(0, rows)
        self._taken = taken

    def free(self) -> list[Block]:
        """The free rows, as the fewest aligned blocks, ascending."""
        return list(_free(self._all, self._taken))

    @property
    def free_rows(self) -> int:
        """How many rows no job has."""
        return sum(block.rows for block in self.free())

    @property
    def fragmentation(self) -> float:
        """Share of the free rows that the largest block leaves out: 0 is one block, or none."""
        free = [block.rows for block in self.free()]
        return 1 - max(free) / sum(free) if free else 0.0

    def find(self, rows: int) -> Block:
        """A free block with room for `rows`.

        Raises:
            BadInput: the switch has fewer rows.
            NoRoom: no free block is large enough; it names the largest.
        """
        if not 0 < rows <= self._all.rows:
            raise BadInput(f"{rows} rows: the switch has {self._all.rows}, at least 1 is needed")
        size = block_rows(rows)
        free = self.free()
        fitting = [block for block in free if block.rows >= size]
        if not fitting:
            largest = max((block.rows for block in free), default=0)
            raise NoRoom(
                f"{rows} rows need a block of {size}: {self.free_rows} rows are free, the largest "
                f"block has {largest}; delete a job or place fewer keys"
            )
        best = min(fitting, key=lambda block: (block.rows, block.row_base))
        return Block(best.row_base, size)


def _free(block: Block, taken: Collection[Block]) -> Iterator[Block]:
    within = [other for other in taken if other.overlaps(block)]
    if not within:
        yield block
    elif not any(other.rows >= block.rows for other in within):
        for half in block.halves():
            yield from _free(half, within)
