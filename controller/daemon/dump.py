"""Cells, sequence windows and the open round of a job: what its switches hold, for diagnosis.

They are read out of the registers of a switch over P4Runtime; or through drains, which its switches
answer to the job's server alone, so that this is asked to read them. Reading changes nothing, and a
cell may change between two reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import finsy as fy

from controller.daemon.job_record import Seat
from controller.daemon.row_reads import RowReads
from controller.jobapi import control_pb2, job_pb2
from controller.placing.blocks import Block
from host_stack.errors import BadInput
from host_stack.fixedpoint import DIGIT_BITS
from host_stack.incarnation import Incarnation
from host_stack.layout import MAX_WORKERS, Layout, split_tag

MAX_DUMP_ROWS = 64
"""Of one call: 64 rows of 32 lanes are 4,096 registers."""

BATCH = 4096
"""Registers of one Read."""

_OPEN = "LibraIngress.open.open"
_SEEN = "LibraIngress.window.seen"


def rows_asked(request: control_pb2.DumpRequest, block: Block) -> range:
    """The rows of a request, counted from the job's first; `BadInput` if it does not have them."""
    row, rows = request.row, request.rows or 1
    if rows > MAX_DUMP_ROWS or row + rows > block.rows:
        raise BadInput(
            f"rows {row} to {row + rows - 1}: the job has {block.rows}, and at most "
            f"{MAX_DUMP_ROWS} are read at once"
        )
    return range(row, row + rows)


def way_of(request: control_pb2.DumpRequest, has_registers: bool) -> control_pb2.Through:
    """How the cells of a job are read; `BadInput` if not all that is asked for can be had so."""
    through = request.through
    if through == control_pb2.THROUGH_UNSPECIFIED:
        by_registers = has_registers or request.windows or request.switch
        through = control_pb2.THROUGH_REGISTERS if by_registers else control_pb2.THROUGH_DRAINS
    if through == control_pb2.THROUGH_REGISTERS and not has_registers:
        raise BadInput(
            "P4Runtime reads no registers of this target: its cells are read through drains, "
            "without sequence windows, and all switches of the job together"
        )
    if through == control_pb2.THROUGH_DRAINS and (request.windows or request.switch):
        raise BadInput(
            "a drain reads cells, and visits all switches of the job: sequence windows, and the "
            "cells of one switch, are read through registers"
        )
    return through


async def dump_drained(
    reads: RowReads, job: int, current: Incarnation, rows: range
) -> control_pb2.DumpReply:
    """Rows of a job, summed over all of its switches, as its server is answered them.

    They are of the rounds that may have cells: the last one that is committed, and the two that
    are open. `NotNow` if the server does not listen, or is not answered.
    """
    found = await reads.ask(
        job_pb2.ReadRows(
            job=job,
            epoch=current.epoch,
            chain=current.chain,
            row=rows.start,
            rows=len(rows),
        )
    )
    reply = control_pb2.DumpReply(
        epoch=current.epoch, open_round=found.open_round, through=control_pb2.THROUGH_DRAINS
    )
    for cell in found.cells:
        reply.cells.add(
            row=cell.row,
            lane=cell.lane,
            bank=cell.round % 2,
            epoch=current.epoch,
            round=cell.round,
            digits_value=cell.digits_value,
        )
    return reply


class RegisterDump:
    """Reads what the registers of one switch hold of one job in one epoch."""

    def __init__(
        self, switch: fy.Switch, layout: Layout, seat: Seat, ranks: range, epoch: int, first: int
    ) -> None:
        """Of the epoch `epoch`, whose first round is `first`."""
        self._switch = switch
        self._layout = layout
        self._seat = seat
        self._ranks = ranks
        self._epoch = epoch
        self._first = first

    async def read(self, rows: range, *, windows: bool) -> control_pb2.DumpReply:
        """Rows of the job, counted from its first, which it has."""
        reply = control_pb2.DumpReply(epoch=self._epoch, through=control_pb2.THROUGH_REGISTERS)
        await self._cells(reply, rows)
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
                epoch, round_ = split_tag(cell >> 64, self._first)
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
        epoch, round_ = split_tag(tag, self._first)
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
