"""Alignment by pieces of the significand, against the reference, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from controller.pieces import (
    PIECE_BITS,
    SHIFT_BIAS,
    SHIFT_ESCAPES,
    SHIFT_ZERO,
    Piece,
    pieces,
    shift_of,
)
from host_stack.errors import BadInput
from host_stack.fixedpoint import (
    MAX_FRACTION_BITS,
    MAX_SHIFT,
    MIN_FRACTION_BITS,
    split_digits,
    to_fixed,
)

SPECIAL = np.array(
    [
        0x00000000,
        0x80000000,
        0x7F800000,
        0xFF800000,
        0x7FC00001,
        0x00000001,
        0x807FFFFF,
        0x7F7FFFFF,
    ],
    np.uint32,
)


class Tables:
    """The tables of a lane, filled as a switch has them: what is not there is zero."""

    def __init__(self, width: int) -> None:
        self.pieces = pieces(width)
        self.high = [self._table(piece, "high") for piece in self.pieces]
        self.low = [self._table(piece, "low") for piece in self.pieces]

    @staticmethod
    def _table(piece: Piece, digit: str) -> NDArray[np.int64]:
        shares = piece.shares()
        table = np.zeros((64, 1 << piece.width), np.int64)
        table[shares.shift, shares.value] = getattr(shares, digit)
        return table

    def align(
        self, bits: NDArray[np.uint32], fraction_bits: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """(d1, d0) without their sign, and whether a gradient escapes."""
        first = np.array([shift_of(e, fraction_bits) for e in range(256)])
        shift = first[(bits >> 23) & 0xFF]
        d1 = np.zeros(len(bits), np.int64)
        d0 = np.zeros(len(bits), np.int64)
        for piece, high, low in zip(self.pieces, self.high, self.low, strict=True):
            value = (bits >> piece.low) & ((1 << piece.width) - 1)
            share1, share0 = high[shift & 63, value], low[shift & 63, value]
            assert not (d1 & share1).any() and not (d0 & share0).any(), "shares overlap"
            d1, d0 = d1 | share1, d0 | share0
        return d1, d0, shift & SHIFT_ESCAPES != 0


@pytest.fixture(scope="module", params=PIECE_BITS)
def tables(request: pytest.FixtureRequest) -> Tables:
    """Tables for pieces of each width."""
    return Tables(request.param)


def check(tables: Tables, bits: NDArray[np.uint32], fraction_bits: int) -> None:
    """Digits and escapes are those of the reference."""
    values, escape = to_fixed(bits.view(np.float32), fraction_bits)
    d1, d0 = split_digits(values)
    sign = np.where(bits >> 31 != 0, -1, 1)
    found1, found0, escapes = tables.align(bits, fraction_bits)
    assert np.array_equal(escapes, escape)
    assert np.array_equal(np.where(escape, 0, sign * found1), d1)
    assert np.array_equal(np.where(escape, 0, sign * found0), d0)


@pytest.mark.parametrize("fraction_bits", [MIN_FRACTION_BITS, 0, 24, 40, 100, MAX_FRACTION_BITS])
def test_all_exponents_and_signs(tables: Tables, fraction_bits: int) -> None:
    """Each exponent with random fractions, and those at the ends; what is no number as well."""
    rng = np.random.default_rng(fraction_bits + 64)
    exponents = np.repeat(np.arange(512, dtype=np.uint32), 64) << 23
    fractions = rng.integers(0, 1 << 23, len(exponents), dtype=np.uint32)
    fractions[::64], fractions[1::64], fractions[2::64] = 0, (1 << 23) - 1, 1
    check(tables, np.concatenate([exponents | fractions, SPECIAL]), fraction_bits)


@given(
    st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=50),
    st.integers(MIN_FRACTION_BITS, MAX_FRACTION_BITS),
)
def test_any_words(words: list[int], fraction_bits: int) -> None:
    """Whatever 32 bits a packet holds."""
    check(Tables(6), np.array(words, np.uint32), fraction_bits)


@pytest.mark.parametrize("width", PIECE_BITS)
def test_pieces_cover_the_fraction_once(width: int) -> None:
    """Every bit is in one piece; the implicit one belongs to the highest alone."""
    found = pieces(width)
    at = [bit for piece in found for bit in range(piece.low, piece.low + piece.width)]
    assert at == list(range(23))
    assert [piece.is_highest for piece in found] == [False] * (len(found) - 1) + [True]
    for piece in found:
        shares = piece.shares()
        assert len(shares) <= 48 << piece.width
        assert shares.shift.min() >= 1 and shares.shift.max() == SHIFT_BIAS + MAX_SHIFT
        assert max(shares.high.max(), shares.low.max()) < 1 << 24


def test_shifts() -> None:
    """Zero, the window of 48 shifts, and what escapes."""
    found = [shift_of(exponent, 24) for exponent in range(256)]
    assert found[0] == SHIFT_ZERO and found[255] == SHIFT_ESCAPES
    assert found[102:152] == [SHIFT_ZERO, *range(1, 49), SHIFT_ESCAPES]
    assert set(found[1:102]) == {SHIFT_ZERO} and set(found[151:]) == {SHIFT_ESCAPES}


@pytest.mark.parametrize("width", [0, 1, 5, 24, -6])
def test_other_widths(width: int) -> None:
    """The error lists those that there are."""
    with pytest.raises(BadInput, match="allowed are 4, 6, 8"):
        pieces(width)
