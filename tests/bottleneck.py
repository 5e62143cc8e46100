"""Workers that share one link, in virtual time: nothing depends on the machine's speed.

The link has a rate, a delay and a queue that drops what does not fit; ACKs come back without
queueing.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

import numpy as np

from host_stack.codec import Bytes, Records
from host_stack.fixedpoint import IntArray
from host_stack.push import HotPush
from host_stack.transport import MAX_BATCH, Received
from tests.host_support import Datagram, received

Answer = Callable[[bytes], Datagram]


class Sender:
    """A worker's push, and its end of the link: a `Transport`."""

    def __init__(self, link: Bottleneck, rank: int, window: int, destination: int) -> None:
        self.push = HotPush(self, destination, window)
        self.turn = 0
        self._link = link
        self._rank = rank
        self._waiting: deque[Datagram] = deque()

    def fileno(self) -> int:
        """None: nobody waits for it."""
        return -1

    def put(self, reply: Datagram) -> None:
        """A datagram has come."""
        self._waiting.append(reply)

    def send(self, batch: Bytes, lengths: IntArray, destination: int) -> int:
        """Send every packet of a batch."""
        del destination
        for row, length in zip(batch, lengths, strict=True):
            self._link.send(self._rank, row[: int(length)].tobytes())
        return len(batch)

    def receive(self) -> Received:
        """What waits, at most a batch."""
        taken = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
        return received(taken)

    def close(self) -> None:
        """Nothing to close."""


class Bottleneck:
    """A link, those who send over it, and their clock.

    Attributes:
        delivered: (virtual second, rank) of each packet that passed the link.
        dropped: packets that found the queue full.
        longest: packets that waited at most.
    """

    def __init__(self, rate_pps: float, delay_s: float, queue: int, answer: Answer) -> None:
        self.delivered: list[tuple[float, int]] = []
        self.dropped = 0
        self.longest = 0
        self._rate_pps = rate_pps
        self._delay_s = delay_s
        self._queue = queue
        self._answer = answer
        self._now_s = 0.0
        self._waiting = 0
        self._free_at = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._senders: list[Sender] = []

    def run(self, window: int, destination: int, pushes: Iterable[tuple[float, Records]]) -> None:
        """Let a worker push each of some (virtual second to begin at, packets), to the end.

        Each has pushed a packet before, alone, so that it knows how long the way is.
        """
        listed = list(pushes)
        for rank, (_, grads) in enumerate(listed):
            self._senders.append(Sender(self, rank, window, destination))
            self._begin(self._senders[rank], grads[:1].copy())
            self._run_events()
        self.delivered.clear()
        began_s = self._now_s
        for sender, (starts_s, grads) in zip(self._senders, listed, strict=True):
            self._at(began_s + starts_s, partial(self._begin, sender, grads))
        self._run_events()
        self.delivered = [(when_s - began_s, rank) for when_s, rank in self.delivered]
        assert all(sender.push.is_done for sender in self._senders)

    def _begin(self, sender: Sender, grads: Records) -> None:
        sender.push.begin(grads)
        self._turn(sender, sender.turn)

    def _run_events(self) -> None:
        while self._events:
            self._now_s, _, action = heapq.heappop(self._events)
            action()

    def send(self, rank: int, packet: bytes) -> None:
        """A packet reaches the queue."""
        if self._waiting >= self._queue:
            self.dropped += 1
            return
        self._waiting += 1
        self.longest = max(self.longest, self._waiting)
        self._free_at = max(self._free_at, self._now_s) + 1 / self._rate_pps
        self._at(self._free_at, lambda: self._pass(rank, packet))

    def _at(self, when_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), action))

    def _pass(self, rank: int, packet: bytes) -> None:
        """A packet leaves the link; its ACK arrives later."""
        self._waiting -= 1
        self.delivered.append((self._now_s, rank))
        reply, sender = self._answer(packet), self._senders[rank]

        def arrive() -> None:
            sender.put(reply)
            self._at(self._now_s, lambda: self._wake(sender))

        # A host reads what came within a millisecond at once.
        self._at(math.ceil((self._now_s + self._delay_s) * 1000) / 1000, arrive)

    def _wake(self, sender: Sender) -> None:
        if sender.push.receive(self._now_s):
            self._turn(sender, sender.turn)

    def _turn(self, sender: Sender, turn: int) -> None:
        """Let a sender send, unless it had another turn meanwhile."""
        if sender.push.is_done or turn != sender.turn:
            return
        sender.turn += 1
        wait_s, turn = sender.push.transmit(self._now_s), sender.turn
        self._at(self._now_s + max(wait_s, 1e-6), lambda: self._turn(sender, turn))


def jain_index(counts: Iterable[int]) -> float:
    """Jain's index of fairness: 1 where all have the same, 1/n where one has all."""
    x = np.array(list(counts), np.float64)
    return float(x.sum() ** 2 / (len(x) * (x**2).sum()))
