"""Links of a data plane: their faults, their state and their counters in the engine."""

from __future__ import annotations

import ctypes
import errno
from dataclasses import dataclass, fields, replace

from softswitch.batch import Library
from softswitch.binding import u64_array
from softswitch.errors import InvalidArgument, ResourceExhausted
from softswitch.faults import Direction, LinkFaults
from softswitch.ports import MAX_PORT

_PROBABILITY_ONE = 1 << 53
_DIRECTIONS = {Direction.RX: 0, Direction.TX: 1}


@dataclass(frozen=True)
class LinkStats:
    """What became of the packets of one port and direction, in packets, since its faults were set.

    `offered` came to the link, `passed` left it (copies included). `duplicated` are second copies,
    `reordered` were held back, `spiked` took the delay of a spike; the others are lost: by chance,
    in the full queue before the line, because too many waited (65,536 on a link, or 64 MiB
    in the switch), or because the link was cut. `waiting` are on the link now.
    """

    offered: int
    passed: int
    lost: int
    duplicated: int
    reordered: int
    spiked: int
    queue_full: int
    overflow: int
    cut: int
    waiting: int = 0


class Links:
    """The links of one data plane. Not thread-safe."""

    def __init__(self, lib: Library, ctx: int) -> None:
        self._lib, self._ctx = lib, ctx
        self.faults: dict[tuple[int, Direction], LinkFaults] = {}

    def set_faults(self, port: int, direction: Direction, faults: LinkFaults) -> None:
        """Set what happens to packets from now on, the next of which is number 0."""
        number = _check_link(port, direction)
        config = u64_array(_config(faults))
        if self._lib.ss_link_set(self._ctx, port, number, config, faults.down) != 0:
            raise ResourceExhausted("no memory for the faults of a link")
        self.faults[port, direction] = faults

    def set_down(self, port: int, direction: Direction, *, down: bool) -> None:
        """Cut or mend one direction of a port's link."""
        number = _check_link(port, direction)
        if self._lib.ss_link_down(self._ctx, port, number, down) != 0:
            raise ResourceExhausted("no memory for the state of a link")
        known = self.faults.get((port, direction), LinkFaults())
        self.faults[port, direction] = replace(known, down=down)

    def stats(self) -> dict[tuple[int, Direction], LinkStats]:
        """Return the counters of the links that have been given faults or were cut."""
        values = u64_array([0] * len(fields(LinkStats)))
        result = {}
        for (port, direction), _ in sorted(self.faults.items()):
            self._lib.ss_link_stats(self._ctx, port, _DIRECTIONS[direction], values)
            result[port, direction] = LinkStats(*values)
        return result

    def advance(self, ns: int) -> bytes:
        """Let time pass on the clock of links; return what leaves as records of port and bytes."""
        if not 0 <= ns <= 1 << 62:
            raise InvalidArgument(f"{ns} ns: time only moves forward, by at most 2^62 ns")
        out = ctypes.c_void_p()
        size = self._lib.ss_advance(self._ctx, ns, ctypes.byref(out))
        if size == -errno.EBUSY:
            raise InvalidArgument("the data plane runs: its links follow the real clock")
        return ctypes.string_at(out.value, size) if out.value and size else b""


def _check_link(port: int, direction: Direction) -> int:
    if not 0 <= port <= MAX_PORT:
        raise InvalidArgument(f"port {port}, allowed is 0 to {MAX_PORT}")
    if direction not in _DIRECTIONS:
        raise InvalidArgument(f"direction {direction!r}, allowed are rx and tx")
    return _DIRECTIONS[direction]


def _config(faults: LinkFaults) -> list[int]:
    """Return the fields of struct ss_link_config (runtime/links.h)."""

    def chance(probability: float) -> int:
        return int(probability * _PROBABILITY_ONE)

    def time(seconds: float) -> int:
        return round(seconds * 1e9)

    return [
        chance(faults.loss),
        chance(faults.duplicate),
        chance(faults.reorder),
        faults.reorder_depth,
        time(faults.hold_s),
        time(faults.delay_s),
        time(faults.jitter_s),
        chance(faults.spike),
        time(faults.spike_delay_s),
        faults.rate_bps,
        faults.queue_bytes,
        faults.seed,
    ]
