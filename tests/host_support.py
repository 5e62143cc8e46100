"""A transport that a test scripts, and a clock that waits for no one.

The transport shows every packet sent to a function, which decides what comes back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from host_stack.codec import Bytes
from host_stack.fixedpoint import IntArray
from host_stack.layout import UDP_PORT, Layout
from host_stack.readiness import wait_readable
from host_stack.transport import MAX_BATCH, Received, ipv4
from host_stack.wake import Wake

LAYOUT = Layout(lanes=32, rows=8192, window=256, program=1)
STRIDE = 1024

Datagram = tuple[str, bytes]
"""The source's IPv4 address, and the payload."""

Answer = Callable[[bytes, int], Iterable[Datagram]]
"""Given a packet and its destination: what comes back."""


def received(datagrams: Iterable[Datagram]) -> Received:
    """A batch of datagrams as a transport hands it out, with rubbish behind each one's end."""
    listed = list(datagrams)
    data = np.full((max(1, len(listed)), STRIDE), 0xA5, np.uint8)
    for row, (_, payload) in zip(data, listed, strict=False):
        row[: len(payload)] = np.frombuffer(payload, np.uint8)
    return Received(
        data[: len(listed)],
        np.array([len(payload) for _, payload in listed], np.int64),
        np.array([ipv4(source) for source, _ in listed], np.uint32),
        np.full(len(listed), UDP_PORT, np.uint16),
    )


class VirtualTime:
    """Stands for the module `time` and for waiting: in vain, it moves the clock at once."""

    TICK_S = 1e-4

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now_s

    def wait_readable(self, descriptor: int, timeout_s: float) -> bool:
        """What is ready now; if nothing is, the time-out is over."""
        ready = wait_readable(descriptor, 0)
        if not ready:
            self.now_s += timeout_s + self.TICK_S
        return ready


class ScriptedTransport:
    """A `Transport` whose other end is a function."""

    def __init__(self, answer: Answer | None = None) -> None:
        self._answer = answer or (lambda _packet, _destination: ())
        self._queue: deque[Datagram] = deque()
        self._wake = Wake()
        self.sent: list[bytes] = []
        self.destinations: list[int] = []

    def fileno(self) -> int:
        """Readable while datagrams wait."""
        return self._wake.fileno()

    def send(self, batch: Bytes, lengths: IntArray, destination: int) -> int:
        """Show every packet to the script and queue what it answers."""
        for row, length in zip(batch, lengths, strict=True):
            packet = row[:length].tobytes()
            self.sent.append(packet)
            self.destinations.append(destination)
            self.put(self._answer(packet, destination))
        return len(batch)

    def put(self, datagrams: Iterable[Datagram]) -> None:
        """Let datagrams wait to be received."""
        self._queue.extend(datagrams)
        if self._queue:
            self._wake.set()

    def receive(self) -> Received:
        """What waits, at most a batch."""
        self._wake.clear()
        taken = [self._queue.popleft() for _ in range(min(MAX_BATCH, len(self._queue)))]
        self.put(())
        return received(taken)

    def close(self) -> None:
        """Close the descriptor."""
        self._wake.close()
