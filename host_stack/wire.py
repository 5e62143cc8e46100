"""Operations, flags and formats of the wire; docs/wire.md describes the packets."""

from enum import IntEnum, IntFlag

HEADER_BYTES = 16
MAX_HOPS = 15
"""Switches that a DRAIN may visit behind the first one."""


class Op(IntEnum):
    """Operation of a Libra packet."""

    GRAD = 1
    ACK = 2
    DRAIN = 3
    DRAINED = 4
    UPDATE = 5
    PROBE = 6
    PARTIAL = 7
    """A row on its way from switch to switch; no host sends or takes one."""


class Flag(IntFlag):
    """Flags of a Libra packet."""

    NONE = 0
    DUPLICATE = 1
    """The packet had been counted before."""
    BY_SERVER = 2
    """The server answered, not the switch."""
    REPLY = 4
    """An answer to a PROBE."""


class DrainFormat(IntEnum):
    """What a DRAINED packet carries of each touched cell."""

    DIGITS = 0
    FLOAT32 = 1

    @property
    def cell_bytes(self) -> int:
        """Bytes of a cell."""
        return 8 if self is DrainFormat.DIGITS else 4


REASONS_PER_SLOT = 32
"""The counter `reasons` has this many places for each job slot."""


class Reason(IntEnum):
    """What became of a Libra packet in the switch: an index of its counter `reasons`."""

    AGGREGATED = 1
    DUPLICATE = 2
    STALE = 3
    WRONG_EPOCH = 4
    FOREIGN = 5
    ESCAPED = 6
    NO_JOB = 7
    MALFORMED = 8
    DRAINED = 9
    DRAIN_REFUSED = 10
    PROBED = 11
    NO_ROUTE = 12
    BAD_CHECKSUM = 13
    TTL_EXPIRED = 14
    UNKNOWN_ROW = 15
    EARLY = 16
    THROTTLED = 17
