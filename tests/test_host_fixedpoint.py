"""Fixed point against the exact arithmetic of Python's integers and fractions."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.errors import BadInput
from host_stack.fixedpoint import (
    MAX_CONTRIBUTIONS,
    MAX_FRACTION_BITS,
    MIN_FRACTION_BITS,
    Alignment,
    alignment,
    check_fraction_bits,
    choose_fraction_bits,
    join_digits,
    split_digits,
    to_fixed,
    to_float32,
)

SCALES = [MIN_FRACTION_BITS, -63, -1, 0, 1, 22, 23, 24, 40, 63, 125, MAX_FRACTION_BITS]
LARGEST = (2**24 - 1) << 24
"""The largest magnitude that fits in two digits."""


def exact_fixed(bits: int, fraction_bits: int) -> int | None:
    """The fixed-point value of a float32 bit pattern, None where it escapes: by the definition."""
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 255:
        return None
    if exponent == 0:
        return 0
    value = Fraction(2**23 + mantissa) * Fraction(2) ** (exponent - 150)
    scaled = value * Fraction(2) ** fraction_bits
    # A power of two more than the largest shift is where the significand leaves the two digits.
    if scaled >= 2**48:
        return None
    return int(scaled) * (-1 if bits >> 31 else 1)


def nearest_float32(value: Fraction) -> Fraction:
    """The float32 nearest to an exact value in the normal range, ties to the even significand."""
    if value == 0:
        return value
    magnitude, exponent = abs(value), 0
    while magnitude >= 2**24:
        magnitude, exponent = magnitude / 2, exponent + 1
    while magnitude < 2**23:
        magnitude, exponent = magnitude * 2, exponent - 1
    # Python rounds a Fraction half to even.
    rounded = round(magnitude) * Fraction(2) ** exponent
    return rounded if value > 0 else -rounded


def every_exponent() -> np.ndarray:
    """Bit patterns of both signs and all exponents with fractions 0, 1, all ones and random."""
    rng = np.random.default_rng(1)
    fractions = np.concatenate([[0, 1, 0x7FFFFF, 0x400000], rng.integers(0, 1 << 23, 4)])
    sign, exponent, fraction = np.meshgrid([0, 1], np.arange(256), fractions, indexing="ij")
    return (sign << 31 | exponent << 23 | fraction).astype(np.uint32).ravel()


@pytest.mark.parametrize("fraction_bits", SCALES)
def test_to_fixed_is_exact(fraction_bits: int) -> None:
    """All exponents and both signs: truncated magnitude, sign, and what escapes."""
    bits = every_exponent()
    fixed, escape = to_fixed(bits.view(np.float32), fraction_bits)
    expected = [exact_fixed(int(pattern), fraction_bits) for pattern in bits]
    assert escape.tolist() == [value is None for value in expected]
    assert fixed.tolist() == [value or 0 for value in expected]
    assert int(np.abs(fixed).max()) <= LARGEST


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    patterns=st.lists(st.integers(0, 2**32 - 1), max_size=20),
    fraction_bits=st.integers(MIN_FRACTION_BITS, MAX_FRACTION_BITS),
)
def test_to_fixed_of_any_bits(patterns: list[int], fraction_bits: int) -> None:
    """Any 32 bits at any scale, empty arrays included."""
    bits = np.array(patterns, np.uint32)
    fixed, escape = to_fixed(bits.view(np.float32), fraction_bits)
    expected = [exact_fixed(pattern, fraction_bits) for pattern in patterns]
    assert escape.tolist() == [value is None for value in expected]
    assert fixed.tolist() == [value or 0 for value in expected]


@pytest.mark.parametrize("fraction_bits", SCALES)
def test_infinity_and_nan_escape_at_every_scale(fraction_bits: int) -> None:
    """What is no number is never added to an integer sum."""
    values = np.array([np.inf, -np.inf, np.nan], np.float32)
    fixed, escape = to_fixed(values, fraction_bits)
    assert escape.all()
    assert not fixed.any()


@pytest.mark.parametrize("fraction_bits", SCALES)
def test_zeros_and_subnormals_are_zero(fraction_bits: int) -> None:
    """Exponent 0 contributes nothing at any scale, and does not escape."""
    bits = np.array([0, 1, 0x7FFFFF, 1 << 31, 1 << 31 | 1, 0x807FFFFF], np.uint32)
    fixed, escape = to_fixed(bits.view(np.float32), fraction_bits)
    assert not fixed.any()
    assert not escape.any()


@pytest.mark.parametrize("fraction_bits", SCALES)
def test_alignment_table_is_to_fixed(fraction_bits: int) -> None:
    """Shifting by the exponent table gives what the reference gives."""
    bits = every_exponent()
    fixed, escape = to_fixed(bits.view(np.float32), fraction_bits)
    for pattern, value, escapes in zip(bits.tolist(), fixed.tolist(), escape, strict=True):
        kind, shift = alignment(pattern >> 23 & 0xFF, fraction_bits)
        significand = 2**23 + (pattern & 0x7FFFFF)
        magnitude = {
            Alignment.LEFT: significand << shift,
            Alignment.RIGHT: significand >> shift,
            Alignment.ZERO: 0,
            Alignment.ESCAPE: 0,
        }[kind]
        assert (kind is Alignment.ESCAPE) == escapes
        assert value == (-magnitude if pattern >> 31 else magnitude)
        assert 0 <= shift <= 24


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    total=st.one_of(
        st.integers(-(2**55), 2**55),
        # Close to the middle between two neighbours, where rounding has to choose.
        st.builds(
            lambda significand, shift, near: ((2 * significand + 1) << shift) + near,
            st.integers(2**23, 2**24 - 1),
            st.integers(0, 29),
            st.integers(-1, 1),
        ),
    ),
    fraction_bits=st.integers(MIN_FRACTION_BITS, MAX_FRACTION_BITS),
)
def test_to_float32_rounds_once_to_nearest_even(total: int, fraction_bits: int) -> None:
    """The float32 of a sum is the rational V * 2^-F, rounded once."""
    result = to_float32(np.array([total], np.int64), fraction_bits)
    assert result.dtype == np.float32
    expected = nearest_float32(Fraction(total) * Fraction(2) ** -fraction_bits)
    assert Fraction(float(result[0])) == expected


@pytest.mark.parametrize("fraction_bits", [MIN_FRACTION_BITS, MAX_FRACTION_BITS])
def test_sums_stay_normal_at_the_limits(fraction_bits: int) -> None:
    """The smallest and largest sums of 128 gradients are normal and finite at every scale."""
    sums = np.array([1, -1, MAX_CONTRIBUTIONS * LARGEST, -MAX_CONTRIBUTIONS * LARGEST], np.int64)
    result = np.abs(to_float32(sums, fraction_bits))
    assert np.isfinite(result).all()
    assert (result >= np.finfo(np.float32).tiny).all()


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(st.integers(-LARGEST, LARGEST), min_size=1, max_size=MAX_CONTRIBUTIONS))
def test_digits_of_sums_join_to_the_sum(values: list[int]) -> None:
    """Digits are summed separately, in 32 bits, and join to the sum of the values."""
    d1, d0 = split_digits(np.array(values, np.int64))
    for digit in (d1, d0):
        assert digit.dtype == np.int32
        assert (np.abs(digit) < 2**24).all()
    total1, total0 = int(d1.sum(dtype=np.int64)), int(d0.sum(dtype=np.int64))
    joined = join_digits(np.array([total1], np.int32), np.array([total0], np.int32))
    assert joined.tolist() == [sum(values)]


def test_digits_have_the_sign_of_the_value() -> None:
    """Neither digit of a negative value is positive."""
    d1, d0 = split_digits(np.array([-(5 << 24) - 7, (5 << 24) + 7, -1, -(1 << 24), 0]))
    assert d1.tolist() == [-5, 5, 0, -1, 0]
    assert d0.tolist() == [-7, 7, -1, 0, 0]


def test_most_contributions_do_not_overflow_a_digit() -> None:
    """128 extreme contributions fit in 32 bits; the 129th would not."""
    extreme = 2**24 - 1
    assert MAX_CONTRIBUTIONS * extreme < 2**31 <= (MAX_CONTRIBUTIONS + 1) * extreme


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    samples=st.lists(st.integers(0, 2**32 - 1), max_size=20),
    headroom_bits=st.integers(0, 16),
)
def test_chosen_scale_fits_its_samples(samples: list[int], headroom_bits: int) -> None:
    """No finite sample escapes, nor 2^headroom times it, unless F is at its lower limit."""
    values = np.array(samples, np.uint32).view(np.float32)
    fraction_bits = choose_fraction_bits(values, headroom_bits)
    check_fraction_bits(fraction_bits)
    largest = max((abs(Fraction(float(v))) for v in values[np.isfinite(values)]), default=0)
    grown = largest * 2**headroom_bits * Fraction(2) ** fraction_bits
    if fraction_bits > MIN_FRACTION_BITS:
        assert grown < 2**48
        _, escape = to_fixed(values[np.isfinite(values)], fraction_bits)
        assert not escape.any()
    if largest and MIN_FRACTION_BITS < fraction_bits < MAX_FRACTION_BITS:
        assert 2 * grown >= 2**48, "a finer scale would do as well"


def test_scale_without_samples() -> None:
    """Zeros, infinities and nothing at all say nothing about the scale."""
    for samples in ([], [0.0, -0.0], [np.inf, np.nan]):
        assert choose_fraction_bits(np.array(samples, np.float32)) == 40


@pytest.mark.parametrize("fraction_bits", [MIN_FRACTION_BITS - 1, MAX_FRACTION_BITS + 1, 10**6])
def test_scale_outside_of_the_limits(fraction_bits: int) -> None:
    """The error says what was given and what is allowed."""
    with pytest.raises(BadInput, match=f"F = {fraction_bits}: allowed are -64 to 126"):
        check_fraction_bits(fraction_bits)


def test_float_bits_are_read_as_stored() -> None:
    """A hand-computed case: 1.5 at F = 4 is 24."""
    assert struct.unpack(">I", struct.pack(">f", 1.5))[0] == 0x3FC00000
    fixed, _ = to_fixed(np.array([1.5, -1.5, 0.06], np.float32), 4)
    assert fixed.tolist() == [24, -24, 0]
