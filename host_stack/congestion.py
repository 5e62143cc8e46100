"""How much a push has in flight, and how fast it sends: additive increase, decrease, pacing.

The window is halved at a loss (RFC 5681) and shrinks when the round trip takes longer than a
target, by as much as it exceeds it (Swift, SIGCOMM 2020, section 3.1), so that workers which share
a link come to equal shares of it without filling its queue. What the window allows is spread over
the smoothed round-trip time.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

INITIAL_WINDOW = 32

MIN_WINDOW = 2.0

DELAY_FLOOR = 16.0
"""Queueing alone makes the window no smaller: hosts that share few cores delay packets as well."""

INCREASE = 4.0
"""Packets by which the window grows in a round trip, behind slow start."""

TARGET_S = 0.02
"""How long a round trip may take: the same for all, so that shares are equal."""

LONG_WAY = 1.25
"""It may always take so many times the smallest one that was seen: a long way is no congestion."""

DELAY_GAIN = 0.8
LEAST_CUT, MOST_CUT = 0.125, 0.5
"""How strongly the window answers to what is above the target; small cuts make unequal shares
equal too slowly."""

PACING_GAIN = 1.25
SLOW_START_GAIN = 2.0
"""The pace, in windows per round-trip time; above 1, so that the window can grow."""

BURST = 8
BURST_S = 0.001
"""Packets that may go at once: so many, or those of so many seconds."""


class Congestion:
    """The window and the pace of one sender; times are seconds of one clock."""

    def __init__(self, limit: int) -> None:
        """Begin in slow start; the window never exceeds `limit` packets."""
        self.window = float(min(INITIAL_WINDOW, limit))
        self.threshold = math.inf
        self._limit = limit
        self._base_s = math.inf
        self._reduced_at = -math.inf
        self._tokens = 0.0
        self._filled_at = -math.inf

    # -- the window -------------------------------------------------------------------------

    def acknowledged(self, count: int, rtts_s: NDArray[np.float64], now: float) -> None:
        """Take `count` ACKs, of which float64[n] round-trip times are known."""
        if len(rtts_s):
            self._base_s = min(self._base_s, float(rtts_s.min()))
            delay_s = float(rtts_s.mean())
            excess_s = delay_s - max(TARGET_S, LONG_WAY * self._base_s)
            if excess_s > 0:
                if now - self._reduced_at >= delay_s:
                    cut = min(MOST_CUT, max(LEAST_CUT, DELAY_GAIN * excess_s / delay_s))
                    floor = min(DELAY_FLOOR, self.window)
                    self._reduce(max(floor, (1 - cut) * self.window), now)
                return
        if self.window < self.threshold:
            self.window += count
        else:
            self.window += INCREASE * count / self.window
        self.window = min(self.window, float(self._limit))

    def lost(self, sent_at: float, now: float) -> bool:
        """Take the loss of packets, the last of them sent at a time; true if it is news.

        Packets that were sent before the window was last reduced were part of the same congestion.
        """
        if sent_at < self._reduced_at:
            return False
        self._reduce(max(MIN_WINDOW, self.window / 2), now)
        return True

    def _reduce(self, window: float, now: float) -> None:
        self.window = self.threshold = min(window, float(self._limit))
        self._reduced_at = now

    # -- the pace ---------------------------------------------------------------------------

    def rate_pps(self, srtt_s: float | None) -> float:
        """Packets a second at a smoothed round-trip time; infinite before one is known."""
        if not srtt_s:
            return math.inf
        gain = SLOW_START_GAIN if self.window < self.threshold else PACING_GAIN
        return gain * self.window / srtt_s

    def permits(self, srtt_s: float | None, now: float) -> int:
        """How many packets may go now."""
        rate = self.rate_pps(srtt_s)
        burst = max(BURST, rate * BURST_S)
        if math.isinf(burst) or now - self._filled_at > burst / rate:
            self._tokens = min(burst, float(self._limit))
        else:
            self._tokens = min(burst, self._tokens + (now - self._filled_at) * rate)
        self._filled_at = now
        return int(self._tokens)

    def spend(self, packets: int) -> None:
        """Count packets that went."""
        self._tokens -= packets

    def wait_s(self, srtt_s: float | None, packets: int) -> float:
        """Seconds until `packets`, or a burst if they are more, may go."""
        rate = self.rate_pps(srtt_s)
        return max(0.0, (min(packets, BURST) - self._tokens) / rate)
