"""Cells, sequence windows and the open round of a job, read out of its switch over P4Runtime.

Reading changes nothing. It is for diagnosis: a cell may change between two reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import finsy as fy

from controller.daemon.job_record import Seat
from controller.jobapi import control_pb2
from host_stack.errors import BadInput
from host_stack.fixedpoint import DIGIT_BITS
from host_stack.layout import MAX_WORKERS, Layout, split_tag

MAX_DUMP_ROWS = 64
"""Of one call: 64 rows of 32 lanes are 4,096 registers."""

BATCH = 4096
"""Registers of one Read."""

_OPEN = "LibraIngress.open.open"
_SEEN = "LibraIngress.window.seen"


class Dump:
    """Reads what the switch holds of one job in one epoch."""

    def __init__(
        self, switch: fy.Switch, layout: Layout, seat: Seat, ranks: range, epoch: int
    ) -> None:
        self._switch = switch
        self._layout = layout
        self._seat = seat
        self._ranks = ranks
        self._epoch = epoch

    async def read(self, row: int, rows: int, *, windows: bool) -> control_pb2.DumpReply:
        """Rows of the job, counted from its first; `BadInput` if it does not have them."""
        block = self._seat.block
        if not (0 < rows <= MAX_DUMP_ROWS and row + rows <= block.rows):
            raise BadInput(
                f"rows {row} to {row + rows - 1}: the job has {block.rows}, and at most "
                f"{MAX_DUMP_ROWS} are read at once"
            )
        reply = control_pb2.DumpReply(epoch=self._epoch)
        await self._cells(reply, range(row, row + rows))
        if windows:
            for rank in self._ranks:
                await self._window(reply, rank)
        await self._open_round(reply)
        return reply

    async def _cells(self, reply: control_pb2.DumpReply, rows: range) -> None:
        base, size = self._seat.block.row_base, self._layout.rows
        indices = [bank * size + base + row for bank in (0, 1) for row in rows]
        for lane in range(self._layout.lanes):
            name = f"LibraIngress.cells{lane}.cells"
            for index, cell in await self._registers(name, indices):
                bank, at = divmod(index, size)
                epoch, round_ = split_tag(cell >> 64)
                if epoch == self._epoch:
                    reply.cells.add(
                        row=at - base,
                        lane=lane,
                        bank=bank,
                        epoch=epoch,
                        round=round_,
                        digits_value=(_signed(cell >> 32) << DIGIT_BITS) + _signed(cell),
                    )

    async def _window(self, reply: control_pb2.DumpReply, rank: int) -> None:
        size = self._layout.window
        first = (self._seat.slot * MAX_WORKERS + rank) * size
        seen = [
            value & 0xFFFFFFFF
            for _, value in await self._registers(_SEEN, range(first, first + size))
            if value >> 32 == self._epoch
        ]
        reply.windows.add(
            rank=rank, newest=max(seen, default=0), places=len(seen), epoch=self._epoch
        )

    async def _open_round(self, reply: control_pb2.DumpReply) -> None:
        ((_, tag),) = await self._registers(_OPEN, [self._seat.slot])
        epoch, round_ = split_tag(tag)
        if epoch == self._epoch:
            reply.open_round = round_

    async def _registers(self, name: str, indices: Iterable[int]) -> list[tuple[int, int]]:
        found = []
        for batch in _batches(list(indices)):
            entries = self._switch.read([fy.P4RegisterEntry(name, index=each) for each in batch])
            async for entry in entries:  # type: ignore[attr-defined]  # finsy annotates a coroutine
                found.append((int(entry.index), int(entry.data)))
        return found


def _signed(value: int) -> int:
    """The low 32 bits as a two's complement number."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _batches(indices: list[int]) -> Iterator[list[int]]:
    for at in range(0, len(indices), BATCH):
        yield indices[at : at + BATCH]
