"""Captures: what passes the ports of a data plane, in pcapng files.

The engine (runtime/capture.h) writes one file per port, `port-N.pcapng`, with both directions,
their flags and times in nanoseconds. Packets that the faults of a link lose have a comment.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from softswitch.batch import Library
from softswitch.binding import u64_array
from softswitch.errors import CaptureError, InvalidArgument

LOGGER = logging.getLogger(__name__)

DEFAULT_MAX_BYTES = 10**9


@dataclass(frozen=True)
class CaptureOptions:
    """Where to record, how large a port's file may be, and how much of a packet (0: all)."""

    directory: Path
    max_bytes: int = DEFAULT_MAX_BYTES
    snaplen: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.max_bytes < 1 << 63:
            raise InvalidArgument(f"a capture of {self.max_bytes} bytes: at least 1 is needed")
        if not 0 <= self.snaplen < 1 << 16:
            raise InvalidArgument(f"snaplen {self.snaplen}, allowed is 0 to 65535")

    @classmethod
    def create(cls, directory: Path, max_bytes: int = DEFAULT_MAX_BYTES, snaplen: int = 0) -> Self:
        """Make the folder for a new capture. Raises CaptureError if one is there already."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            old = next(directory.glob("port-*.pcapng"), None)
        except OSError as error:
            raise CaptureError(f"cannot record in {directory}: {error.strerror}") from None
        if old is not None:
            raise CaptureError(f"{old} exists: record in another folder, or move the old capture")
        return cls(directory, max_bytes, snaplen)


@dataclass(frozen=True)
class CaptureStats:
    """Packets written and missed, and the number of the last error (0: none).

    Packets are missed when they come faster than they are written, when the file of their port is
    full, or when it cannot be written.
    """

    recorded: int
    missed: int
    error: int


class Recorder:
    """The capture of one data plane. Not thread-safe."""

    def __init__(self, lib: Library, ctx: int) -> None:
        self._lib, self._ctx = lib, ctx
        self._running = False

    def start(self, options: CaptureOptions, names: Mapping[int, str]) -> None:
        """Record from now on; files that are there get a further section. Raises CaptureError."""
        if self._running:
            raise InvalidArgument("a capture is in progress: stop it first")
        directory = os.fsencode(options.directory)
        if b"\0" in directory:
            raise CaptureError(f"{options.directory!s} is not a folder")
        code = self._lib.ss_capture_start(self._ctx, directory, options.snaplen, options.max_bytes)
        if code != 0:
            raise CaptureError(f"cannot record in {options.directory}: {os.strerror(-code)}")
        self._running = True
        for port, name in names.items():
            self.name(port, name)

    def name(self, port: int, ifname: str) -> None:
        """Say what the interface of a port is called."""
        self._lib.ss_capture_name(self._ctx, port, os.fsencode(ifname))

    def stop(self) -> CaptureStats:
        """End the capture, with everything written; nothing happens if there is none."""
        values = u64_array([0] * len(fields(CaptureStats)))
        self._lib.ss_capture_stop(self._ctx, values)
        self._running = False
        stats = CaptureStats(*values)
        if stats.error:
            name = errno.errorcode.get(stats.error, "?")
            LOGGER.error("a capture missed %d packets: %s", stats.missed, name)
        return stats

    def stats(self) -> CaptureStats:
        """Return the counters of the capture in progress; zeros if there is none."""
        values = u64_array([0] * len(fields(CaptureStats)))
        self._lib.ss_capture_stats(self._ctx, values)
        return CaptureStats(*values)
