"""Sweeps: scaling factors at all combinations of link rates, workers, utilisations and ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import PlanError
from planner.simulation import Job, overhead_s
from planner.transport import Transport

MAX_POINTS = 1_000_000


@dataclass(frozen=True, eq=False)
class Sweep:
    """Columns of equal length, an element for each combination; the last axis changes fastest.

    Attributes:
        rate_bps: link rates, float64[n].
        workers: int64[n].
        utilization: share of the rate that the transport reaches, float64[n].
        ratio: of compression, float64[n].
        overhead_s: float64[n].
        scaling_factor: float64[n].
    """

    rate_bps: NDArray[np.float64]
    workers: NDArray[np.int64]
    utilization: NDArray[np.float64]
    ratio: NDArray[np.float64]
    overhead_s: NDArray[np.float64]
    scaling_factor: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rate_bps)

    def as_fields(self) -> dict[str, list[Any]]:
        """The columns, for JSON."""
        return {
            "bandwidth_bps": self.rate_bps.tolist(),
            "workers": self.workers.tolist(),
            "utilization": self.utilization.tolist(),
            "compression": self.ratio.tolist(),
            "overhead_s": self.overhead_s.tolist(),
            "scaling_factor": self.scaling_factor.tolist(),
        }


def sweep(
    job: Job,
    rates_bps: Sequence[float],
    workers: Sequence[int],
    ratios: Sequence[float] = (1.0,),
    utilizations: Sequence[float] = (),
) -> Sweep:
    """Every combination; without `utilizations` the job's own transport says what it reaches.

    Raises `PlanError` for an axis without values and for too many points.
    """
    points = math.prod(map(len, (rates_bps, workers, ratios))) * max(len(utilizations), 1)
    if not 0 < points <= MAX_POINTS:
        raise PlanError(f"a sweep of {points:,} points: allowed are 1 to {MAX_POINTS:,}")
    transports = [Transport.constant(share) for share in utilizations] or [job.transport]
    rate, count, ratio = (
        axis.ravel() for axis in np.meshgrid(rates_bps, workers, ratios, indexing="ij")
    )
    parts = []
    for transport in transports:
        asked = replace(job, transport=transport)
        at = asked.conditions(rate, count, ratio)
        late_s = np.broadcast_to(overhead_s(asked, at), rate.shape)
        reached = transport.utilization(rate)
        parts.append((rate, count, reached, ratio, late_s))
    alone_s = job.profile.iteration.seconds
    rate, count, reached, ratio, late_s = (
        np.concatenate(each) for each in zip(*parts, strict=True)
    )
    return Sweep(rate, count, reached, ratio, late_s, alone_s / (alone_s + late_s))


def axis(text: str, what: str, parse: Any) -> list[float]:
    """Values of an option: `A`, `A,B,…`, or `LOW:HIGH:COUNT`, which are spaced by equal factors.

    `parse` reads one value. Raises `PlanError` for anything else.
    """
    values: list[float] = []
    for part in text.split(","):
        low, *others = part.split(":")
        if not others:
            values.append(parse(low))
            continue
        count = others[1] if len(others) == 2 else ""
        if not (count.isascii() and count.isdecimal() and 2 <= int(count[:8]) <= MAX_POINTS):
            raise PlanError(
                f"{what} {part!r}: ranges are LOW:HIGH:COUNT with a count from 2 to {MAX_POINTS:,}"
            )
        values += np.geomspace(parse(low), parse(others[0]), int(count)).tolist()
    return values
