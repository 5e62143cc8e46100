"""What of a link's rate a transport reaches: a constant share, or a measured curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import PlanError

MIN_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class Transport:
    """Goodput against the rate of a link.

    Between measured rates goodput is interpolated, below the first it is the same share of the
    rate, above the last it grows no more: a transport that fills 32 of 100 Gbit/s is taken to
    fill 32 of 200. More rate never means less goodput; a curve that says so is levelled.

    Attributes:
        rates_bps: increasing, float64[k].
        goodput_bps: at these rates, float64[k].
        source: where they are from.
        share: of every rate instead of a curve, which is then empty.
    """

    rates_bps: NDArray[np.float64]
    goodput_bps: NDArray[np.float64]
    source: str
    share: float | None = None

    @classmethod
    def constant(cls, share: float) -> Transport:
        """The same share of every rate, from `MIN_SHARE` to 1."""
        if not MIN_SHARE <= share <= 1:
            raise PlanError(f"utilisation {share:g}: allowed are shares from {MIN_SHARE:g} to 1")
        nothing = np.zeros(0)
        return cls(nothing, nothing, f"{share:.0%} of every rate", share)

    @classmethod
    def measured(cls, goodput_bps: Mapping[float, float], source: str) -> Transport:
        """A curve through measured points, rate → goodput.

        Raises `PlanError` without points, and where a goodput is 0 or above its rate.
        """
        if not goodput_bps:
            raise PlanError("a measured transport needs a point: a rate and its goodput")
        for rate, goodput in goodput_bps.items():
            if not 0 < goodput <= rate:
                raise PlanError(
                    f"a goodput of {goodput:g} bit/s on a link of {rate:g} bit/s: allowed are "
                    "goodputs above 0, up to the rate"
                )
        rates = np.array(sorted(goodput_bps), np.float64)
        levelled = np.maximum.accumulate([goodput_bps[rate] for rate in sorted(goodput_bps)])
        return cls(rates, np.asarray(levelled, np.float64), source)

    def utilization(self, rate_bps: Any) -> NDArray[np.float64]:
        """The share of some rates that goodput is, of the same shape; a constant one exactly."""
        rate = np.asarray(rate_bps, np.float64)
        if self.share is not None:
            return np.full(rate.shape, self.share)
        return self.goodput(rate) / rate

    def goodput(self, rate_bps: Any) -> NDArray[np.float64]:
        """The goodput on links of some rates, bit/s, of the same shape."""
        rate = np.asarray(rate_bps, np.float64)
        if self.share is not None:
            return np.asarray(rate * self.share)
        first = self.goodput_bps[0] / self.rates_bps[0]
        inside = np.interp(rate, self.rates_bps, self.goodput_bps)
        return np.where(rate < self.rates_bps[0], rate * first, inside)
