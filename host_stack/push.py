"""The hot push: a window of GRAD packets in flight until every one is acknowledged."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from host_stack.codec import HEADER, Index, Records, overlay, version_op
from host_stack.errors import PushFailed
from host_stack.fixedpoint import MaskArray
from host_stack.rtt import RttEstimator
from host_stack.transport import Received, Transport, gather
from host_stack.wire import HEADER_BYTES, Flag, Op

INITIAL_WINDOW = 32

MAX_WAIT_S = 0.1
"""How long a push waits without looking up."""


@dataclass
class PushStats:
    """What pushes cost, summed over rounds."""

    packets: int = 0
    retransmissions: int = 0
    by_server: int = 0
    duplicates: int = 0
    foreign: int = 0


@dataclass
class _Flight:
    """The state of each packet of one push; all arrays are of the push's length."""

    acked: MaskArray
    by_server: MaskArray
    retransmitted: MaskArray
    sent_at: NDArray[np.float64]
    first_open: int = 0
    next_new: int = 0

    @classmethod
    def of(cls, count: int) -> _Flight:
        return cls(
            np.zeros(count, np.bool_),
            np.zeros(count, np.bool_),
            np.zeros(count, np.bool_),
            np.zeros(count, np.float64),
        )

    def open(self) -> Index:
        """Packets that were sent and are not acknowledged."""
        found = np.flatnonzero(~self.acked[self.first_open : self.next_new])
        return found + self.first_open

    def advance(self) -> None:
        """Move the lower edge of the window past what is acknowledged."""
        waiting = np.flatnonzero(~self.acked[self.first_open : self.next_new])
        self.first_open = self.first_open + int(waiting[0]) if len(waiting) else self.next_new


@dataclass
class HotPush:
    """Sends GRAD packets to a server's address and collects ACKs, from the switch or the server.

    The congestion window grows by a packet per ACK up to a threshold, then by a packet per
    window, and is halved when a packet is lost; it never exceeds W (section 4 of the design).
    """

    transport: Transport
    destination: int
    window: int
    rtt: RttEstimator = field(default_factory=RttEstimator)
    stats: PushStats = field(default_factory=PushStats)
    next_seq: int = 1
    congestion_window: float = INITIAL_WINDOW
    threshold: float = float("inf")

    def run(
        self,
        grads: Records,
        deadline_s: float,
        on_wait: Callable[[float], None] = lambda stalled_s: None,
    ) -> MaskArray:
        """Push GRAD records (headers filled but for `seq`); return who acknowledged.

        `on_wait` is told, at least every `MAX_WAIT_S`, for how many seconds nothing has been
        acknowledged; what it raises ends the push.

        Returns:
            bool[n], true where the server, not the switch, took the packet.

        Raises:
            PushFailed: packets are not acknowledged `deadline_s` seconds after the last progress.
        """
        count = len(grads)
        grads["header"]["seq"] = (self.next_seq + np.arange(count)) & 0xFFFFFFFF
        base, self.next_seq = self.next_seq, (self.next_seq + count) & 0xFFFFFFFF
        flight = _Flight.of(count)
        progress = time.monotonic()
        while flight.first_open < count:
            now = time.monotonic()
            self._send_new(grads, flight, now)
            self._send_again(grads, flight, now)
            if self._wait(flight) and self._receive(grads, flight, base):
                progress = time.monotonic()
            stalled_s = time.monotonic() - progress
            on_wait(stalled_s)
            if stalled_s > deadline_s:
                raise PushFailed(self._failure(flight, count, deadline_s))
        self.stats.packets += count
        self.stats.by_server += int(flight.by_server.sum())
        return flight.by_server

    def _send_new(self, grads: Records, flight: _Flight, now: float) -> None:
        in_flight = len(flight.open())
        room = int(min(self.congestion_window, self.window)) - in_flight
        end = min(len(grads), flight.first_open + self.window, flight.next_new + max(0, room))
        if end > flight.next_new:
            sent = self._send(grads, np.arange(flight.next_new, end))
            flight.sent_at[flight.next_new : flight.next_new + sent] = now
            flight.next_new += sent

    def _send_again(self, grads: Records, flight: _Flight, now: float) -> None:
        open_ = flight.open()
        late = open_[now - flight.sent_at[open_] > self.rtt.rto_s]
        if not len(late):
            return
        self.threshold = max(2.0, self.congestion_window / 2)
        self.congestion_window = self.threshold
        self.rtt.back_off()
        late = late[: max(1, int(self.congestion_window))]
        flight.retransmitted[late] = True
        flight.sent_at[late] = now
        self.stats.retransmissions += self._send(grads, late)

    def _send(self, grads: Records, index: Index) -> int:
        data = gather(grads, index)
        lengths = np.full(len(index), grads.itemsize, np.int64)
        return self.transport.send(data, lengths, self.destination)

    def _wait(self, flight: _Flight) -> bool:
        """Wait for a datagram until the next packet is late; true if one came."""
        open_ = flight.open()
        timeout_s = 0.001
        if len(open_):
            due = float(flight.sent_at[open_].min()) + self.rtt.rto_s
            timeout_s = min(MAX_WAIT_S, max(0.0, due - time.monotonic()))
        ready, _, _ = select.select([self.transport.fileno()], [], [], timeout_s)
        return bool(ready)

    def _receive(self, grads: Records, flight: _Flight, base: int) -> bool:
        """Take a batch of datagrams; true if it acknowledged something."""
        received = self.transport.receive()
        if not len(received):
            return False
        index, flags = self._acknowledged(received, grads, flight, base)
        now = time.monotonic()
        fresh = np.unique(index[~flight.acked[index]])
        measured = fresh[~flight.retransmitted[fresh]]
        self.rtt.sample(now - flight.sent_at[measured])
        flight.acked[index] = True
        from_server = flags & Flag.BY_SERVER != 0
        flight.by_server[index[from_server]] = True
        self.stats.duplicates += int((flags & Flag.DUPLICATE != 0).sum())
        flight.advance()
        self._grow(len(fresh))
        return len(fresh) > 0

    def _acknowledged(
        self, received: Received, grads: Records, flight: _Flight, base: int
    ) -> tuple[Index, NDArray[np.uint8]]:
        """The packets of this push that a batch acknowledges, with the flags of each ACK."""
        headers = overlay(received.data, HEADER)
        mine = grads["header"][0]
        offset = (headers["seq"].astype(np.int64) - base) & 0xFFFFFFFF
        good = (
            (received.lengths == HEADER_BYTES)
            & (headers["version_op"] == version_op(Op.ACK))
            & (headers["job"] == mine["job"])
            & (headers["worker"] == mine["worker"])
            & (headers["tag"] == mine["tag"])
            & (offset < flight.next_new)
            & (received.sources == self.destination)
        )
        self.stats.foreign += int((~good).sum())
        return offset[good].astype(np.intp), headers["flags"][good]

    def _grow(self, acknowledged: int) -> None:
        if self.congestion_window < self.threshold:
            self.congestion_window += acknowledged
        else:
            self.congestion_window += acknowledged / self.congestion_window
        self.congestion_window = min(self.congestion_window, float(self.window))

    def _failure(self, flight: _Flight, count: int, deadline_s: float) -> str:
        missing = np.flatnonzero(~flight.acked)
        return (
            f"{len(missing)} of {count} packets of the push are not acknowledged after "
            f"{deadline_s:g} s without progress (first: packet {int(missing[0])}); check that "
            "the switch and the server run"
        )
