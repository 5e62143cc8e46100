"""Sampled exponents, and the scale that they call for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.exponents import KEPT, SAMPLE, ExponentCounts, advise, sample_exponents
from host_stack.fixedpoint import MAX_FRACTION_BITS, MIN_FRACTION_BITS, to_fixed


def counts_of(gradients: np.ndarray) -> np.ndarray:
    """All exponents of float32 gradients."""
    found = ExponentCounts()
    for part in np.array_split(gradients, -(-len(gradients) // SAMPLE)):
        found.add(sample_exponents(part.astype(np.float32)))
    return found.counts


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 1000, 12345])
def test_a_sample_is_small_and_even(length: int) -> None:
    """At most so many, from the first on, with their exponents."""
    gradients = (2.0 ** (np.arange(length) % 200 - 100)).astype(np.float32)
    sampled = sample_exponents(gradients)
    assert len(sampled) <= SAMPLE
    assert len(sampled) >= min(length, SAMPLE // 2)
    step = max(1, -(-length // SAMPLE))
    assert list(sampled) == [27 + at % 200 for at in range(0, length, step)]


def test_special_values_have_exponents_too() -> None:
    """Zeros and subnormals are 0, Inf and NaN 255."""
    gradients = np.array([0, -0.0, 1e-45, np.inf, -np.inf, np.nan, -1.5], np.float32)
    assert list(sample_exponents(gradients)) == [0, 0, 0, 255, 255, 255, 127]


def test_old_samples_fade() -> None:
    """Counts stay bounded, and what is not seen any more disappears."""
    counts = ExponentCounts()
    counts.add(bytes([200]) * 1000)
    for _ in range(20 * KEPT // 64):
        counts.add(bytes([100]) * 64)
    assert counts.counts.sum() <= KEPT
    assert counts.counts[200] == 0


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    fraction_bits=st.integers(MIN_FRACTION_BITS, MAX_FRACTION_BITS),
    exponents=st.lists(st.integers(1, 255), min_size=1, max_size=20),
)
def test_shares_are_those_of_the_arithmetic(fraction_bits: int, exponents: list[int]) -> None:
    """What is said to escape escapes, and what is said to count as 0 does."""
    bits = np.array(exponents, np.uint32) << np.uint32(23)
    fixed, escape = to_fixed(bits.view(np.float32), fraction_bits)
    advice = advise(np.bincount(exponents, minlength=256), fraction_bits)
    assert advice is not None
    assert advice.escaping == pytest.approx(escape.mean())
    assert advice.vanishing == pytest.approx((~escape & (fixed == 0)).mean())


@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1.0, 1e6])
@pytest.mark.parametrize("wrong", [-60, -40, 30, 60])
def test_the_better_scale_fits(scale: float, wrong: int) -> None:
    """From a scale that is far off to one that needs no further advice."""
    rng = np.random.default_rng(5)
    counts = counts_of(rng.standard_normal(20000) * scale)
    fitting = 166 - 127 - int(np.ceil(np.log2(4 * scale)))
    bad = int(np.clip(fitting + wrong, MIN_FRACTION_BITS, MAX_FRACTION_BITS))
    advice = advise(counts, bad)
    assert advice is not None
    assert advice.better is not None
    assert abs(advice.better - fitting) <= 2
    assert (advice.better < bad) == (wrong > 0)
    assert f"take F = {advice.better}" in advice.told()
    good = advise(counts, advice.better)
    assert good is not None
    assert good.better is None
    assert (good.escaping, good.vanishing) == (0, 0)
    assert "fits" in good.told()


def test_a_rare_outlier_does_not_cost_precision() -> None:
    """One gradient in ten thousand may escape."""
    gradients = np.full(20000, 1e-3)
    gradients[::10000] = 1e30
    counts = np.zeros(256, np.int64)
    for _, part in enumerate(np.array_split(gradients, 400)):
        counts += np.bincount(np.frombuffer(sample_exponents(part), np.uint8), minlength=256)
    advice = advise(counts, 45)
    assert advice is not None
    assert advice.better is None


def test_nothing_to_judge_by() -> None:
    """Without gradients other than 0 there is no advice, and NaN changes no scale."""
    assert advise(np.zeros(256, np.int64), 40) is None
    assert advise(np.bincount([0] * 9, minlength=256), 40) is None
    advice = advise(np.bincount([255] * 9, minlength=256), 40)
    assert advice is not None
    assert (advice.escaping, advice.better) == (1.0, None)
