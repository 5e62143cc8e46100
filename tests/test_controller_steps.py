"""What the exponent table of an alignment in steps holds."""

from __future__ import annotations

import finsy as fy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.steps import SHIFT_BIAS, SHIFT_ESCAPES, SHIFT_ZERO, StepAlign, shift_of
from host_stack.fixedpoint import MAX_FRACTION_BITS, MIN_FRACTION_BITS, Alignment, alignment


def test_shifts() -> None:
    """Zero, the window of 48 shifts, and what escapes."""
    found = [shift_of(exponent, 24) for exponent in range(256)]
    assert found[0] == SHIFT_ZERO and found[255] == SHIFT_ESCAPES
    assert found[102:152] == [SHIFT_ZERO, *range(1, 49), SHIFT_ESCAPES]
    assert set(found[1:102]) == {SHIFT_ZERO} and set(found[151:]) == {SHIFT_ESCAPES}


@settings(derandomize=True, deadline=None)
@given(st.integers(0, 255), st.integers(MIN_FRACTION_BITS, MAX_FRACTION_BITS))
def test_shifts_are_those_of_the_reference(exponent: int, fraction_bits: int) -> None:
    """Left and right shifts by up to 24 and 23 bits, in one number of six bits."""
    kind, bits = alignment(exponent, fraction_bits)
    shift = shift_of(exponent, fraction_bits)
    assert (shift == SHIFT_ESCAPES) == (kind is Alignment.ESCAPE)
    assert (shift == SHIFT_ZERO) == (kind is Alignment.ZERO)
    if kind in {Alignment.LEFT, Alignment.RIGHT}:
        assert 1 <= shift <= 48
        assert shift - SHIFT_BIAS == (bits if kind is Alignment.LEFT else -bits)


@pytest.mark.parametrize("lanes", [1, 8])
def test_entries(lanes: int) -> None:
    """Each lane has all exponents: nothing is left to what the table does by itself."""
    entries = list(StepAlign(3, 24, lanes).entries())
    assert len(entries) == lanes * 256
    escaping = 0
    for number, entry in enumerate(entries):
        lane, exponent = divmod(number, 256)
        prefix = f"LibraIngress.align{lane}."
        shift = shift_of(exponent, 24)
        escaping += shift == SHIFT_ESCAPES
        assert entry.table_id == prefix + "exponents"
        assert entry.match == fy.Match(job_slot=3, exponent=exponent)
        assert entry.action == fy.Action(prefix + "shifted", by=shift)
    assert escaping == lanes * 105
