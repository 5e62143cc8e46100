"""Fusion: small gradients wait for each other and travel as one message."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.profile import Profile
from planner.units import above_0

WAIT_S = 0.005
SIZE_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class Messages:
    """What travels in an iteration, in the order of readiness.

    Attributes:
        ready_s: when each message can leave, from the begin of the backward pass, float64[m].
        size_bytes: float64[m].
    """

    ready_s: NDArray[np.float64]
    size_bytes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ready_s)


@dataclass(frozen=True)
class Fusion:
    """When what has gathered is sent: after `wait_s` or with `size_bytes`, whatever comes first.

    Both are tested after a gradient was added, so one gradient may overshoot the size; `wait_s`
    sums the waits of the gradients that have gathered. The rest is sent at the end.
    """

    wait_s: float = WAIT_S
    size_bytes: float = SIZE_BYTES

    def __post_init__(self) -> None:
        above_0("fusion: wait", self.wait_s)
        above_0("fusion: size", self.size_bytes)

    def messages(self, profile: Profile) -> Messages:
        """The messages of a profile."""
        ready, sizes = [], []
        waited, gathered, now = 0.0, 0, 0.0
        for wait_s, size in zip(profile.wait_s.tolist(), profile.size_bytes.tolist(), strict=True):
            now += wait_s
            waited += wait_s
            gathered += size
            if waited >= self.wait_s or gathered >= self.size_bytes:
                ready.append(now)
                sizes.append(gathered)
                waited, gathered = 0.0, 0
        if gathered or not sizes:
            ready.append(now)
            sizes.append(gathered)
        return Messages(np.array(ready, np.float64), np.array(sizes, np.float64))
