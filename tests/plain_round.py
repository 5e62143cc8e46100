"""What a round comes to, said once more and slowly: from the text of the design, in whole numbers.

Nothing here is shared with what the tests compare it with.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

Push = tuple[np.ndarray, np.ndarray]


def plain_sums(pushes: Sequence[Push], fraction_bits: int) -> dict[int, np.float32]:
    """Key → sum of a round in which each worker, by rank, pushed (keys, float32 gradients)."""
    found: dict[int, list[float]] = defaultdict(list)
    for keys, gradients in pushes:
        for key, gradient in zip(keys.tolist(), gradients.tolist(), strict=True):
            found[key].append(gradient)
    return {key: plain_sum(found[key], fraction_bits) for key in sorted(found)}


def plain_sum(gradients: Iterable[float], fraction_bits: int) -> np.float32:
    """The sum of float32 gradients of one key, in the order of ranks."""
    total, escaped = 0, []
    for gradient in gradients:
        fixed = fixed_point(gradient, fraction_bits)
        if fixed is None:
            escaped.append(gradient)
        else:
            total += fixed
    if not escaped:
        return nearest(total, fraction_bits)
    exact = math.ldexp(float(total), -fraction_bits)
    for gradient in escaped:
        exact += gradient
    with np.errstate(over="ignore"):
        return np.float32(exact)


def fixed_point(gradient: float, fraction_bits: int) -> int | None:
    """A float32 in fixed point; None if it escapes."""
    (bits,) = struct.unpack(">I", struct.pack(">f", gradient))
    sign, exponent, significand = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF | 0x800000
    shift = exponent - 150 + fraction_bits
    if exponent == 255 or shift > 24:
        return None
    if exponent == 0 or shift <= -24:
        return 0
    size = significand << shift if shift >= 0 else significand >> -shift
    return -size if sign else size


def nearest(total: int, fraction_bits: int) -> np.float32:
    """The float32 next to total · 2^-F, ties to even."""
    size = abs(total)
    dropped = max(0, size.bit_length() - 24)
    kept, rest = divmod(size, 1 << dropped)
    kept += 2 * rest > 1 << dropped or (2 * rest == 1 << dropped and kept & 1)
    return np.float32(math.copysign(math.ldexp(kept, dropped - fraction_bits), total or 1))
