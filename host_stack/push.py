"""The hot push: a window of GRAD packets in flight until every one is acknowledged."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from host_stack.codec import HEADER, Index, Records, overlay, version_op
from host_stack.congestion import Congestion
from host_stack.errors import PushFailed
from host_stack.fixedpoint import MaskArray
from host_stack.readiness import wait_readable
from host_stack.rtt import RttEstimator
from host_stack.transport import Received, Transport, gather
from host_stack.wire import HEADER_BYTES, Flag, Op

MAX_WAIT_S = 0.1
"""How long a push waits without looking up."""

MIN_WAIT_S = 0.0002
FULL_WAIT_S = 0.001
"""How long at least it waits for its pace, and for a link whose queue is full."""


@dataclass
class PushStats:
    """What pushes cost, summed over rounds."""

    packets: int = 0
    retransmissions: int = 0
    by_server: int = 0
    duplicates: int = 0
    foreign: int = 0


class _Flight:
    """The state of each packet of one push; all arrays are of the push's length."""

    def __init__(self, grads: Records, base: int) -> None:
        count = len(grads)
        self.grads = grads
        self.base = base
        self.acked: MaskArray = np.zeros(count, np.bool_)
        self.by_server: MaskArray = np.zeros(count, np.bool_)
        self.retransmitted: MaskArray = np.zeros(count, np.bool_)
        self.sent_at: NDArray[np.float64] = np.zeros(count, np.float64)
        self.first_open = 0
        self.next_new = 0

    def __len__(self) -> int:
        return len(self.grads)

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

    At most W packets are in flight (section 4 of the design); how many of them, and at what pace,
    is up to `Congestion`. `run` waits between its steps: `begin`, then `transmit` and `receive`
    in turn. `on_other` is given batches with datagrams that acknowledge nothing of the push.
    """

    transport: Transport
    destination: int
    window: int
    rtt: RttEstimator = field(default_factory=RttEstimator)
    stats: PushStats = field(default_factory=PushStats)
    next_seq: int = 1
    on_other: Callable[[Received], None] = lambda received: None

    def __post_init__(self) -> None:
        self.congestion = Congestion(self.window)
        self._is_full = False
        self._flight = _Flight(np.zeros(0, HEADER), self.next_seq)

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
        self.begin(grads)
        progress = time.monotonic()
        while not self.is_done:
            wait_s = self.transmit(time.monotonic())
            ready = wait_readable(self.transport.fileno(), wait_s)
            if ready and self.receive(time.monotonic()):
                progress = time.monotonic()
            stalled_s = time.monotonic() - progress
            on_wait(stalled_s)
            if stalled_s > deadline_s:
                raise PushFailed(self._failure(deadline_s))
        by_server = self._flight.by_server
        self.stats.packets += len(grads)
        self.stats.by_server += int(by_server.sum())
        return by_server

    @property
    def in_flight(self) -> int:
        """Packets that were sent and are not acknowledged; may be asked from any thread."""
        return len(self._flight.open())

    @property
    def is_done(self) -> bool:
        """Whether every packet is acknowledged."""
        return self._flight.first_open == len(self._flight)

    def begin(self, grads: Records) -> None:
        """Number the packets of a push."""
        base, count = self.next_seq, len(grads)
        grads["header"]["seq"] = (base + np.arange(count)) & 0xFFFFFFFF
        self.next_seq = (base + count) & 0xFFFFFFFF
        self._flight = _Flight(grads, base)

    def transmit(self, now: float) -> float:
        """Send what is late and what may go; return for how many seconds nothing else is due."""
        permitted = self.congestion.permits(self.rtt.srtt_s, now)
        self._is_full = False
        permitted -= self._send_again(permitted, now)
        self._send_new(permitted, now)
        return self._wait_s(now)

    def _send_again(self, permitted: int, now: float) -> int:
        """Send packets again that are late; return how many."""
        flight = self._flight
        open_ = flight.open()
        late = open_[now - flight.sent_at[open_] > self.rtt.rto_s]
        if not len(late):
            return 0
        if self.congestion.lost(float(flight.sent_at[late].max()), now):
            self.rtt.back_off()
        late = late[: max(1, min(permitted, int(self.congestion.window)))]
        flight.retransmitted[late] = True
        flight.sent_at[late] = now
        sent = self._send(late)
        self.stats.retransmissions += sent
        return sent

    def _send_new(self, permitted: int, now: float) -> None:
        flight = self._flight
        count = min(permitted, self._room())
        if count > 0:
            sent = self._send(np.arange(flight.next_new, flight.next_new + count))
            flight.sent_at[flight.next_new : flight.next_new + sent] = now
            flight.next_new += sent

    def _room(self) -> int:
        """How many packets the windows allow to send for the first time."""
        flight = self._flight
        end = min(len(flight), flight.first_open + self.window)
        allowed = int(self.congestion.window) - len(flight.open())
        return max(0, min(end - flight.next_new, allowed))

    def _send(self, index: Index) -> int:
        data = gather(self._flight.grads, index)
        lengths = np.full(len(index), data.shape[1], np.int64)
        sent = self.transport.send(data, lengths, self.destination)
        self.congestion.spend(sent)
        self._is_full = sent < len(index)
        return sent

    def _wait_s(self, now: float) -> float:
        """Seconds until a packet is late or may be sent."""
        flight = self._flight
        due_s = math.inf
        if len(open_ := flight.open()):
            due_s = float(flight.sent_at[open_].min()) + self.rtt.rto_s - now
        wait_s = min(MAX_WAIT_S, max(due_s, 0.0))
        if unsent := self._room() + (due_s <= 0):
            pace_s = self.congestion.wait_s(self.rtt.srtt_s, unsent)
            pace_s = max(pace_s, FULL_WAIT_S if self._is_full else MIN_WAIT_S)
            wait_s = min(MAX_WAIT_S, pace_s, due_s if due_s > 0 else math.inf)
        return wait_s

    def receive(self, now: float) -> bool:
        """Take a batch of datagrams; true if it acknowledged something."""
        received, flight = self.transport.receive(), self._flight
        if not len(received):
            return False
        index, flags = self._acknowledged(received)
        if len(index) < len(received):
            self.on_other(received)
        fresh = np.unique(index[~flight.acked[index]])
        measured = fresh[~flight.retransmitted[fresh]]
        rtts_s = now - flight.sent_at[measured]
        self.rtt.sample(rtts_s)
        flight.acked[index] = True
        from_server = flags & Flag.BY_SERVER != 0
        flight.by_server[index[from_server]] = True
        self.stats.duplicates += int((flags & Flag.DUPLICATE != 0).sum())
        flight.advance()
        self.congestion.acknowledged(len(fresh), rtts_s, now)
        return len(fresh) > 0

    def _acknowledged(self, received: Received) -> tuple[Index, NDArray[np.uint8]]:
        """The packets of this push that a batch acknowledges, with the flags of each ACK."""
        headers, flight = overlay(received.data, HEADER), self._flight
        mine = flight.grads["header"][0]
        offset = (headers["seq"].astype(np.int64) - flight.base) & 0xFFFFFFFF
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

    def _failure(self, deadline_s: float) -> str:
        missing = np.flatnonzero(~self._flight.acked)
        return (
            f"{len(missing)} of {len(self._flight)} packets of the push are not acknowledged after "
            f"{deadline_s:g} s without progress (first: packet {int(missing[0])}); check that "
            "the switch and the server run"
        )
