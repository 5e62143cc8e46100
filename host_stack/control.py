"""Control messages between worker and server, carried as ps-lite simple requests."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from host_stack.errors import BadInput
from host_stack.fixedpoint import IntArray

HEAD_DONE = 1
"""The `head` of a DONE and of its answer."""

_ROUND = struct.Struct(">I")


@dataclass(frozen=True)
class RoundRows:
    """A round and some of its rows.

    From a worker: DONE, the rows in which the switch holds something of this worker. From the
    server: the round is committed, the rows of which an UPDATE was sent.
    """

    round: int
    rows: IntArray

    def encode(self, used_rows: int) -> bytes:
        """The round (uint32) and a bitmap of `used_rows` bits."""
        mask = np.zeros(used_rows, np.bool_)
        mask[self.rows] = True
        return _ROUND.pack(self.round) + np.packbits(mask, bitorder="little").tobytes()

    @classmethod
    def decode(cls, body: bytes, used_rows: int) -> RoundRows:
        """Read a message of `encode`; `BadInput` if its length does not fit `used_rows`."""
        expected = _ROUND.size + -(-used_rows // 8)
        if len(body) != expected:
            raise BadInput(f"a DONE of {len(body)} bytes; {expected} are expected")
        bits = np.frombuffer(body, np.uint8, offset=_ROUND.size)
        rows = np.flatnonzero(np.unpackbits(bits, bitorder="little")[:used_rows])
        return cls(_ROUND.unpack_from(body)[0], rows.astype(np.int64))
