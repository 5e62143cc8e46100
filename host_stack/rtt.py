"""Retransmission time-out after RFC 6298, fed with batches of samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass
class RttEstimator:
    """Smoothed round-trip time, its variation, and the RTO that follows from them.

    All times are in seconds. The caller leaves out packets that were sent more than once (Karn's
    rule), so a sample is never ambiguous.
    """

    min_rto_s: float = 0.05
    max_rto_s: float = 2.0
    rto_s: float = 0.2
    srtt_s: float | None = None
    rttvar_s: float = 0.0

    def sample(self, samples_s: NDArray[np.float64]) -> None:
        """Take float64[n] samples; a batch counts as one measurement of its slowest packet."""
        if not len(samples_s):
            return
        rtt = float(samples_s.max())
        if self.srtt_s is None:
            self.srtt_s, self.rttvar_s = rtt, rtt / 2
        else:
            self.rttvar_s = 0.75 * self.rttvar_s + 0.25 * abs(self.srtt_s - rtt)
            self.srtt_s = 0.875 * self.srtt_s + 0.125 * rtt
        self._set(self.srtt_s + 4 * self.rttvar_s)

    def back_off(self) -> None:
        """Double the RTO after it ran out."""
        self._set(2 * self.rto_s)

    def _set(self, rto_s: float) -> None:
        self.rto_s = min(self.max_rto_s, max(self.min_rto_s, rto_s))
