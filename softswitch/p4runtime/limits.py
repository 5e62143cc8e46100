"""How much a client may ask for, so that none can take the switch from the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from softswitch.p4runtime.errors import exhausted

MAX_STREAMS = 32
MAX_READS = 16
"""Streams and Reads hold a thread each while their client takes its time; Writes find others."""
UNARY_THREADS = 16
MAX_RPCS = MAX_STREAMS + MAX_READS + UNARY_THREADS

MAX_MESSAGE_BYTES = 32 << 20
"""Of a request; pipeline configs are the largest."""
MAX_UPDATES = 1 << 18
"""Of one Write: every element of a batch may need an error of its own."""
MAX_QUERIES = 1 << 10
"""Of one Read: each takes a snapshot of what it selects."""
MAX_METADATA_BYTES = 4096
"""Of a controller's own data beside an entry or group."""

READ_STALL_S = 10.0
"""After so long without taking a message, a Read may have to make room for another."""

KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS = 20_000, 10_000
"""A controller that vanished without closing its connection is dead after both."""

SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),  # what newer versions of gRPC look at
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)


def check_count(count: int, allowed: int, what: str) -> None:
    """Raise RESOURCE_EXHAUSTED if a batch has more elements than allowed."""
    if count > allowed:
        raise exhausted(f"{count} {what} in one request; at most {allowed} are allowed")


def check_metadata(metadata: bytes, what: str) -> None:
    """Raise RESOURCE_EXHAUSTED if a controller's data beside an entity is too large."""
    if len(metadata) > MAX_METADATA_BYTES:
        raise exhausted(
            f"{what}: metadata of {len(metadata)} bytes; at most {MAX_METADATA_BYTES} are kept"
        )


@dataclass(eq=False)
class ReadSlot:
    """One Read in progress."""

    cancel: Callable[[], None]
    progress_s: float = field(default_factory=time.monotonic)

    def progress(self) -> None:
        """Note that the client took a message."""
        self.progress_s = time.monotonic()


class ReadSlots:
    """The Reads in progress. A new one takes the place of one whose client does not read."""

    def __init__(self, count: int = MAX_READS, stall_s: float = READ_STALL_S) -> None:
        self._count, self._stall_s = count, stall_s
        self._lock = threading.Lock()
        self._taken: list[ReadSlot] = []

    @contextmanager
    def slot(self, cancel: Callable[[], None]) -> Iterator[ReadSlot]:
        """Take a slot; raises RESOURCE_EXHAUSTED if all are taken by clients that read.

        `cancel` ends the Read if its client stops to.
        """
        slot = ReadSlot(cancel)
        with self._lock:
            if len(self._taken) >= self._count:
                self._end_slowest(slot.progress_s)
            self._taken.append(slot)
        try:
            yield slot
        finally:
            with self._lock:
                if slot in self._taken:
                    self._taken.remove(slot)

    def _end_slowest(self, now_s: float) -> None:
        slowest = min(self._taken, key=lambda slot: slot.progress_s)
        if now_s - slowest.progress_s < self._stall_s:
            raise exhausted(f"more than {self._count} Reads are in progress; try again")
        self._taken.remove(slowest)
        slowest.cancel()
