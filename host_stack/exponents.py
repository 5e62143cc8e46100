"""Exponents of gradients: sampled by workers, counted by the server, and the scale that fits them.

A sample says for every F how many gradients would escape, lose bits or come to nothing (section 3
of the design).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.fixedpoint import (
    ESCAPING_SUM,
    VANISHING_SUM,
    FloatArray,
    IntArray,
    finest_fraction_bits,
)

EXPONENTS = 256
SAMPLE = 64
"""Gradients of a push that are sampled, at most."""

KEPT = 1 << 16
"""When so many samples are counted, all counts are halved, so that old ones fade."""

FEW_ESCAPES = 1 / 3200
"""Up to this share of gradients it costs little that they escape: a hundredth of full packets."""

FEW_VANISH = 0.01
"""Up to this share of gradients it costs little that they come to nothing."""

SLACK_BITS = 3
"""A scale that is so little coarser than another one is as good."""


def sample_exponents(gradients: FloatArray) -> bytes:
    """Biased exponents, a byte each, of at most `SAMPLE` of float32[n] gradients, evenly spaced."""
    chosen = np.ascontiguousarray(gradients[:: max(1, -(-len(gradients) // SAMPLE))], np.float32)
    exponents = (chosen.view(np.uint32) >> np.uint32(23)) & np.uint32(0xFF)
    return exponents.astype(np.uint8).tobytes()


class ExponentCounts:
    """Counts of sampled exponents, of which old ones fade."""

    def __init__(self) -> None:
        self.counts: IntArray = np.zeros(EXPONENTS, np.int64)

    def add(self, sampled: bytes) -> None:
        """Count the exponents of a sample."""
        self.counts += np.bincount(np.frombuffer(sampled, np.uint8), minlength=EXPONENTS)
        if self.counts.sum() > KEPT:
            self.counts //= 2


@dataclass(frozen=True)
class ScaleAdvice:
    """How a scale fits sampled gradients.

    Attributes:
        fraction_bits: F, the scale.
        escaping: share of the gradients other than 0 that escape.
        vanishing: share of them that are too small, and count as 0.
        better: an F that fits, where this one does not; else None.
    """

    fraction_bits: int
    escaping: float
    vanishing: float
    better: int | None

    def told(self) -> str:
        """The advice for people."""
        if self.better is None:
            return f"F = {self.fraction_bits} fits these gradients"
        if self.better < self.fraction_bits:
            verdict = (
                f"too fine: {self.escaping:.2%} of the gradients escape, and the server sums their "
                "packets, which is right and slow"
            )
        else:
            verdict = f"too coarse: {self.vanishing:.2%} of the gradients count as 0"
        return f"F = {self.fraction_bits} is {verdict}; take F = {self.better}"


def advise(counts: NDArray[np.int64], fraction_bits: int) -> ScaleAdvice | None:
    """Judge F by int64[256] counts of exponents; None where no gradient other than 0 was sampled.

    The F that fits is the finest at which 2^8 times all gradients but `FEW_ESCAPES` of them do not
    escape. Inf and NaN escape at any F.
    """
    of_values = counts.copy()
    of_values[0] = 0
    total = int(of_values.sum())
    if not total:
        return None
    above = fraction_bits + np.arange(EXPONENTS)
    escapes = above > ESCAPING_SUM
    escapes[EXPONENTS - 1] = True
    escaping = float(of_values[escapes].sum() / total)
    vanishing = float(of_values[above <= VANISHING_SUM].sum() / total)
    finite = of_values[: EXPONENTS - 1]
    best = _fitting(finite) if finite.any() else fraction_bits
    too_fine = float(finite[escapes[:-1]].sum() / total) > FEW_ESCAPES and best < fraction_bits
    too_coarse = vanishing > FEW_VANISH and best > fraction_bits + SLACK_BITS
    return ScaleAdvice(fraction_bits, escaping, vanishing, best if too_fine or too_coarse else None)


def _fitting(counts: IntArray) -> int:
    """F for counts of finite exponents, leaving the few largest aside."""
    larger = counts.sum() - np.cumsum(counts)
    largest = int(np.argmax(larger <= FEW_ESCAPES * counts.sum()))
    return finest_fraction_bits(largest)
