"""Alignment without variable shifts: what the tables of p4src/include/split_align.p4 hold.

A first table turns the exponent of a gradient into a shift. The significand (24 bits, the implicit
one among them) is cut into pieces; the table of a piece holds, for each shift and each value of the
piece, what its bits become in both digits. Shares of different pieces have no bit in common, and a
right shift drops the bits of each piece on its own, so that the shares or-ed are the digits of
section 3 of the design, bit for bit (docs/tofino.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from host_stack.errors import BadInput
from host_stack.fixedpoint import DIGIT_BITS, MAX_SHIFT, Alignment, alignment

SHIFT_ZERO = 0
SHIFT_ESCAPES = 64
SHIFT_BIAS = 24
"""A left shift by s bits is s + 24: 1 to 48 are shifts, 0 is a magnitude of zero."""

FRACTION_BITS = 23
PIECE_BITS = (4, 6, 8)


def shift_of(exponent: int, fraction_bits: int) -> int:
    """What the first table makes of a biased exponent (0…255) for a job of scale F."""
    kind, bits = alignment(exponent, fraction_bits)
    if kind is Alignment.ESCAPE:
        return SHIFT_ESCAPES
    if kind is Alignment.ZERO:
        return SHIFT_ZERO
    return SHIFT_BIAS + (bits if kind is Alignment.LEFT else -bits)


@dataclass(frozen=True)
class Piece:
    """A piece of the significand.

    Attributes:
        number: from the lowest bits up.
        low: its lowest bit in the significand.
        width: bits of the fraction in it; the highest piece has the implicit one above them.
    """

    number: int
    low: int
    width: int

    @property
    def is_highest(self) -> bool:
        """Whether the implicit one is above its bits."""
        return self.low + self.width == FRACTION_BITS

    def shares(self) -> Shares:
        """The entries of its table that are not zero, which is what it holds without any."""
        shifts, values = np.meshgrid(
            np.arange(1, SHIFT_BIAS + MAX_SHIFT + 1), np.arange(1 << self.width), indexing="ij"
        )
        bits = (values | (int(self.is_highest) << self.width)) << self.low
        left = np.maximum(shifts - SHIFT_BIAS, 0)
        right = np.maximum(SHIFT_BIAS - shifts, 0)
        magnitude = (bits << left >> right).ravel()
        kept = magnitude != 0
        return Shares(
            shifts.ravel()[kept],
            values.ravel()[kept],
            magnitude[kept] >> DIGIT_BITS,
            magnitude[kept] & ((1 << DIGIT_BITS) - 1),
        )


@dataclass(frozen=True)
class Shares:
    """Entries of a piece's table: int64[n] each.

    Attributes:
        shift, value: the key.
        high, low: shares of d1 and d0.
    """

    shift: NDArray[np.int64]
    value: NDArray[np.int64]
    high: NDArray[np.int64]
    low: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.shift)

    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """Shift, value, high and low."""
        return self.shift, self.value, self.high, self.low


def pieces(width: int) -> list[Piece]:
    """The pieces of a significand, lowest first, each of `width` bits but for the highest.

    Raises `BadInput` for a width that the program cannot be compiled with.
    """
    if width not in PIECE_BITS:
        raise BadInput(f"pieces of {width} bits: allowed are {', '.join(map(str, PIECE_BITS))}")
    lows = range(0, FRACTION_BITS, width)
    return [Piece(i, low, min(width, FRACTION_BITS - low)) for i, low in enumerate(lows)]


@dataclass(frozen=True)
class SplitAlign:
    """The tables of the P4 control of this name, in every lane.

    Attributes:
        lanes: of the program.
        pieces: that it was compiled for, as `of_program` finds them.
    """

    lanes: int
    pieces: Sequence[Piece]

    @classmethod
    def of_program(cls, p4info: fy.P4Schema) -> SplitAlign | None:
        """What a program's description says of the pieces; None if it shifts instead."""
        names = {table.name for table in p4info.tables}
        lanes = sum(name.endswith(".exponents") for name in names)
        count = sum(name.startswith("LibraIngress.align0.piece") for name in names)
        for found in map(pieces, PIECE_BITS):
            if len(found) == count:
                return cls(lanes, found)
        return None

    def shares(self) -> Iterator[fy.P4TableEntry]:
        """What the pieces become, which is the same for all jobs."""
        for piece in self.pieces:
            shares = piece.shares()
            rows = list(zip(*(a.tolist() for a in shares.columns()), strict=True))
            for lane in range(self.lanes):
                prefix = f"LibraIngress.align{lane}."
                for shift, value, high, low in rows:
                    yield fy.P4TableEntry(
                        f"{prefix}piece{piece.number}",
                        match=fy.Match(shift=shift, piece=value),
                        action=fy.Action(f"{prefix}share{piece.number}", high=high, low=low),
                    )

    def exponents(self, slot: int, fraction_bits: int) -> Iterator[fy.P4TableEntry]:
        """What the scale of a job makes of each exponent."""
        for lane in range(self.lanes):
            prefix = f"LibraIngress.align{lane}."
            for exponent in range(256):
                yield fy.P4TableEntry(
                    prefix + "exponents",
                    match=fy.Match(job_slot=slot, exponent=exponent),
                    action=fy.Action(prefix + "shifted", by=shift_of(exponent, fraction_bits)),
                )
