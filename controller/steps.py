"""Alignment without variable shifts: what the table of p4src/include/step_align.p4 holds.

It turns the exponent of a gradient into a shift, which the program takes in steps of constant
shifts; the digits are those of section 3 of the design, bit for bit (docs/tofino.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import finsy as fy

from host_stack.fixedpoint import Alignment, alignment

SHIFT_ZERO = 0
SHIFT_ESCAPES = 64
SHIFT_BIAS = 24
"""A left shift by s bits is s + 24: 1 to 48 are shifts, 0 is a magnitude of zero."""


def shift_of(exponent: int, fraction_bits: int) -> int:
    """What the table makes of a biased exponent (0…255) for a job of scale F."""
    kind, bits = alignment(exponent, fraction_bits)
    if kind is Alignment.ESCAPE:
        return SHIFT_ESCAPES
    if kind is Alignment.ZERO:
        return SHIFT_ZERO
    return SHIFT_BIAS + (bits if kind is Alignment.LEFT else -bits)


@dataclass(frozen=True)
class StepAlign:
    """The tables of the P4 control of this name, in every lane, for one job.

    Attributes:
        slot, fraction_bits: of the job.
        lanes: of the program.
    """

    slot: int
    fraction_bits: int
    lanes: int

    @staticmethod
    def has_program(p4info: fy.P4Schema) -> bool:
        """Whether a program aligns in steps, by its description."""
        return any(table.name == "LibraIngress.align0.bytes" for table in p4info.tables)

    def entries(self) -> Iterator[fy.P4TableEntry]:
        """One for each exponent, those that escape among them.

        To escape is the tables' default too. But Tofino's compiler makes of some of them memories
        with an index, where nothing misses: what an entry that was never written does there is up
        to the chip's driver.
        """
        shifts = [(e, shift_of(e, self.fraction_bits)) for e in range(256)]
        for lane in range(self.lanes):
            prefix = f"LibraIngress.align{lane}."
            for exponent, shift in shifts:
                yield fy.P4TableEntry(
                    prefix + "exponents",
                    match=fy.Match(job_slot=self.slot, exponent=exponent),
                    action=fy.Action(prefix + "shifted", by=shift),
                )
