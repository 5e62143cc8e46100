"""What would reach a scaling factor: the smallest ratio, rate or hot coverage that does.

Scaling factors grow with each of them, so they are found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from planner.collectives import Scheme
from planner.errors import PlanError
from planner.simulation import Job, scaling_factor
from planner.units import MAX_RATE_BPS, MIN_RATE_BPS

MAX_RATIO = 1e4
_STEPS = 60


def smallest_ratio(job: Job, rate_bps: float, workers: int, target: float) -> float | None:
    """The least compression ratio with which a job reaches `target`; None if none does.

    It is 1 if the job needs none. Whatever compression costs is paid from any ratio above 1.
    """

    def reached(ratio: float) -> bool:
        return _factor(job, rate_bps, workers, ratio) >= target

    check_target(target)
    if reached(1.0):
        return 1.0
    return _least(reached, math.nextafter(1.0, 2.0), MAX_RATIO)


def smallest_rate_bps(job: Job, workers: int, ratio: float, target: float) -> float | None:
    """The least link rate with which a job reaches `target`, bit/s; None if none does."""
    check_target(target)
    return _least(
        lambda rate_bps: _factor(job, rate_bps, workers, ratio) >= target,
        MIN_RATE_BPS,
        MAX_RATE_BPS,
    )


def smallest_coverage(
    job: Job, scheme: Scheme, rate_bps: float, workers: int, target: float
) -> float | None:
    """The least share of hot gradients with which Libra reaches `target`; None if none does."""
    check_target(target)

    def reached(coverage: float) -> bool:
        mix = scheme.hot_cold.covering(min(coverage, 1.0))
        libra = replace(job, scheme=replace(scheme, name="libra", hot_cold=mix))
        return _factor(libra, rate_bps, workers, 1.0) >= target

    if reached(0.0):
        return 0.0
    found = _least(reached, 1e-6, 1.0)
    return None if found is None else min(found, 1.0)


def _factor(job: Job, rate_bps: float, workers: int, ratio: float) -> float:
    return float(scaling_factor(job, job.conditions(rate_bps, workers, ratio)))


def _least(reached: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least value from `low` to `high` that `reached` accepts, which accepts all above it."""
    if not reached(high):
        return None
    if reached(low):
        return low
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) else (middle, high)
        if high <= low * (1 + 1e-9):
            break
    return high


def check_target(target: float) -> None:
    """Raise `PlanError` unless `target` is a scaling factor that jobs may miss and reach."""
    if not 0 < target < 1:
        raise PlanError(f"target {target:g}: allowed are scaling factors between 0 and 1")
