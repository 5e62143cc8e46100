"""Bytes that Libra puts on links for a byte of gradients, by what of them is hot.

Packets are Libra's own, and those of ps-lite with a key beside each value; the byte model of the
controller (section 6) has their sizes, headers included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from controller.byte_model import (
    FLOAT_BYTES,
    KEY_BYTES,
    PULL_BYTES,
    PUSH_BYTES,
    TCP_OVERHEAD,
    UDP_FRAME_BYTES,
    RowCosts,
)
from host_stack.codec import Codec
from host_stack.layout import BITMAP_LANES, Layout
from planner.errors import PlanError


@dataclass(frozen=True)
class HotCold:
    """How the gradients of a push divide.

    Attributes:
        coverage: share of a worker's gradients whose keys are hot, 0 to 1.
        distinct: hot keys that any worker touches in a round, as a multiple of those that one
            touches: 1 if all touch the same (dense gradients), more where they are sparse.
        lanes: of the switch program, whose packets are taken to be full.

    All properties are bytes on a link for a byte of one worker's gradients.
    """

    coverage: float = 0.0
    distinct: float = 1.0
    lanes: int = 32

    def __post_init__(self) -> None:
        if not 0 <= self.coverage <= 1:
            raise PlanError(f"hot coverage {self.coverage:g}: allowed are shares from 0 to 1")
        if not 1 <= self.distinct < math.inf:
            raise PlanError(f"distinct hot keys {self.distinct:g}: allowed are multiples from 1 on")
        if self.lanes not in BITMAP_LANES:
            raise PlanError(f"{self.lanes} lanes: allowed are {', '.join(map(str, BITMAP_LANES))}")

    def covering(self, coverage: float) -> HotCold:
        """The same with another coverage."""
        return replace(self, coverage=coverage)

    @property
    def cold(self) -> float:
        """The share that is cold."""
        return 1 - self.coverage

    @property
    def worker_up(self) -> float:
        """GRADs, and pushes and requests for cold values."""
        return self.coverage * self._grad + self.server_in_cold

    @property
    def worker_down(self) -> float:
        """UPDATEs, and cold values."""
        return self.server_out_hot + self.server_out_cold

    @property
    def server_in_hot(self) -> float:
        """DRAINED packets, once for all workers."""
        return self.coverage * self.distinct * self._row(RowCosts.of(self._layout).drained)

    @property
    def server_out_hot(self) -> float:
        """UPDATE packets, which the network copies."""
        return self.coverage * self.distinct * self._row(RowCosts.of(self._layout).update)

    @property
    def server_in_cold(self) -> float:
        """From each worker: keys with gradients, then the keys whose values it wants."""
        return self.cold * (PUSH_BYTES + KEY_BYTES) * TCP_OVERHEAD / FLOAT_BYTES

    @property
    def server_out_cold(self) -> float:
        """To each worker: keys with values."""
        return self.cold * (PULL_BYTES - KEY_BYTES) * TCP_OVERHEAD / FLOAT_BYTES

    @property
    def _layout(self) -> Layout:
        return Layout(self.lanes, rows=1, window=1, program=0)

    @property
    def _grad(self) -> float:
        packet = UDP_FRAME_BYTES + Codec(self._layout).grad.itemsize
        return packet / (self.lanes * FLOAT_BYTES)

    def _row(self, row_bytes: float) -> float:
        return 1 + row_bytes / (self.lanes * FLOAT_BYTES)
