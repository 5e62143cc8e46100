"""Table-lookup float32 addition: the numpy reference of section 3 of the design.

A gradient is an IEEE 754 binary32 with biased exponent e and 24-bit significand M. With F fraction
bits its fixed-point magnitude is v = M shifted by s = e - 150 + F; sums of v are integers and do
not depend on order. Every target (P4 program, software aggregator) is tested against this module.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from host_stack.errors import BadInput

FloatArray = NDArray[np.float32]
"""float32[n] values or gradients."""
IntArray = NDArray[np.int64]
"""int64[n] rows or positions."""
MaskArray = NDArray[np.bool_]

DIGIT_BITS = 24
"""Bits of a signed digit: a sum of 128 digits fits in 32 bits."""

MAX_CONTRIBUTIONS = 128
"""Contributions per cell and round that cannot overflow a digit."""

MAX_SHIFT = 24
"""Left shifts of a significand that still fit in two digits."""

ESCAPING_SUM = 150 + MAX_SHIFT
"""A gradient escapes if its biased exponent and F are above this together, or at exponent 255."""

VANISHING_SUM = 150 - 24
"""It counts as 0 if they are not above this, or at exponent 0."""

HEADROOM_BITS = 8
"""Of a chosen scale: gradients may grow by this factor of 2^8 before they escape."""

MIN_FRACTION_BITS = -64
MAX_FRACTION_BITS = 126
"""With F in this range every sum of up to 128 gradients is zero or a normal binary32."""


class Alignment(Enum):
    """What the exponent look-up table says of a gradient."""

    LEFT = "left"
    RIGHT = "right"
    ZERO = "zero"
    ESCAPE = "escape"


def check_fraction_bits(fraction_bits: int) -> int:
    """Return F unchanged, or raise `BadInput` when it is outside of what the arithmetic allows."""
    if not MIN_FRACTION_BITS <= fraction_bits <= MAX_FRACTION_BITS:
        raise BadInput(
            f"fraction bits F = {fraction_bits}: allowed are {MIN_FRACTION_BITS} to "
            f"{MAX_FRACTION_BITS}"
        )
    return fraction_bits


def alignment(exponent: int, fraction_bits: int) -> tuple[Alignment, int]:
    """What to do with a biased exponent (0…255): the kind and the number of bits to shift by."""
    shift = exponent - 150 + fraction_bits
    if exponent == 255:
        return Alignment.ESCAPE, 0
    if exponent == 0 or shift <= -24:
        return Alignment.ZERO, 0
    if shift > MAX_SHIFT:
        return Alignment.ESCAPE, 0
    return (Alignment.LEFT, shift) if shift >= 0 else (Alignment.RIGHT, -shift)


def to_fixed(gradients: FloatArray, fraction_bits: int) -> tuple[IntArray, MaskArray]:
    """Align gradients to fixed point.

    Args:
        gradients: float32[n], any values, Inf and NaN included.
        fraction_bits: F, the scale of the job.

    Returns:
        int64[n] of signed fixed-point values (0 where a gradient escapes), and bool[n] that is
        true where a gradient escapes (too large for two digits, Inf or NaN).
    """
    bits = np.ascontiguousarray(gradients, dtype=np.float32).view(np.uint32)
    exponent = ((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int64)
    significand = ((bits & np.uint32(0x7FFFFF)) | np.uint32(0x800000)).astype(np.int64)
    shift = exponent - 150 + fraction_bits
    escape = (exponent == 255) | ((exponent != 0) & (shift > MAX_SHIFT))
    zero = escape | (exponent == 0) | (shift <= -24)
    magnitude = np.where(
        shift >= 0,
        significand << np.clip(shift, 0, MAX_SHIFT),
        significand >> np.clip(-shift, 0, 24),
    )
    magnitude[zero] = 0
    negative = bits >> np.uint32(31) != 0
    return np.where(negative, -magnitude, magnitude), escape


def to_float32(sums: IntArray, fraction_bits: int) -> FloatArray:
    """Round integer sums to float32 once, to nearest even: float32(V) * 2^-F.

    `sums` is int64[n] with |V| < 2^56; with F in range no result is subnormal or infinite, so the
    multiplication is exact.
    """
    scaled: FloatArray = np.ldexp(sums.astype(np.float32), -fraction_bits)
    return scaled.astype(np.float32, copy=False)


def join_digits(d1: NDArray[np.int32], d0: NDArray[np.int32]) -> IntArray:
    """V = d1 * 2^24 + d0 from the two drained digits, int64[n]."""
    joined: IntArray = (d1.astype(np.int64) << DIGIT_BITS) + d0.astype(np.int64)
    return joined


def split_digits(values: IntArray) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The digits (d1, d0) of one contribution, int32[n] each, both with the sign of the value."""
    magnitude = np.abs(values)
    sign = np.sign(values)
    d1 = (sign * (magnitude >> DIGIT_BITS)).astype(np.int32)
    d0 = (sign * (magnitude & ((1 << DIGIT_BITS) - 1))).astype(np.int32)
    return d1, d0


def finest_fraction_bits(exponent: int, headroom_bits: int = HEADROOM_BITS) -> int:
    """The finest F at which 2^headroom times a gradient of a biased exponent does not escape."""
    fraction_bits = ESCAPING_SUM - exponent - headroom_bits
    return int(np.clip(fraction_bits, MIN_FRACTION_BITS, MAX_FRACTION_BITS))


def choose_fraction_bits(samples: FloatArray, headroom_bits: int = HEADROOM_BITS) -> int:
    """F for a job: the finest scale at which 2^headroom times the largest sample does not escape.

    `samples` is float32[n] of typical gradients; non-finite ones and zeros are ignored. Without
    any, the scale is 2^-40.
    """
    finite = np.abs(samples[np.isfinite(samples) & (samples != 0)])
    if finite.size == 0:
        return 40
    _, exponent = np.frexp(finite.max())  # the largest gradient is below 2^exponent
    return finest_fraction_bits(int(exponent) + 126, headroom_bits)
