"""Control messages between worker and server, carried as ps-lite simple requests.

Workers ask and the server answers; any of these may be repeated at any time. JOIN opens a
worker's part, DONE closes its part of a round, STATUS asks how things stand when nothing moves.
docs/wire.md has the bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

import numpy as np

from host_stack.errors import BadInput
from host_stack.fixedpoint import IntArray

_REQUEST = struct.Struct(">II")
_ANSWER = struct.Struct(">BBII")


class Head(IntEnum):
    """What a worker asks: the `head` of a simple request and of its answer."""

    DONE = 1
    JOIN = 2
    STATUS = 3
    STALLED = 4
    """As STATUS; hot packets are not acknowledged."""


class Kind(IntEnum):
    """What the server answers."""

    COMMITTED = 1
    """The round of the tag is committed; `rows` are those of which an UPDATE was sent."""
    MOVED = 2
    """Another incarnation holds: go on in it, at its round."""
    OPEN = 3
    """The round of the tag is open; `known` says what has come of this worker."""


class Known(IntFlag):
    """What the server has of a worker in the open round."""

    NOTHING = 0
    PUSH = 1
    DONE = 2


@dataclass(frozen=True)
class Request:
    """JOIN, DONE or STATUS.

    Attributes:
        tag: epoch and round of the worker; 0 with JOIN.
        version: the placement that the worker has; 0 for none.
        rows: with DONE, a bitmap of the rows in which a switch holds something of this worker.
    """

    tag: int
    version: int
    rows: bytes = b""

    def encode(self) -> bytes:
        """Tag, version, rows."""
        return _REQUEST.pack(self.tag, self.version) + self.rows

    @classmethod
    def decode(cls, body: bytes) -> Request:
        """Read a message of `encode`; `BadInput` if it is none."""
        if len(body) < _REQUEST.size:
            raise BadInput(f"a request of {len(body)} bytes; {_REQUEST.size} are the least")
        tag, version = _REQUEST.unpack_from(body)
        return cls(tag, version, body[_REQUEST.size :])


@dataclass(frozen=True)
class Answer:
    """The server's answer.

    Attributes:
        kind: what it says.
        tag: that of the request.
        known: with OPEN.
        rows: with COMMITTED, a bitmap of the rows of which an UPDATE was sent.
        incarnation: encoded; with MOVED, and with COMMITTED where the next round has another one.
    """

    kind: Kind
    tag: int
    known: Known = Known.NOTHING
    rows: bytes = b""
    incarnation: bytes = b""

    def encode(self) -> bytes:
        """Kind, what is known, tag, length of the incarnation; the incarnation; rows."""
        head = _ANSWER.pack(self.kind, self.known, self.tag, len(self.incarnation))
        return head + self.incarnation + self.rows

    @classmethod
    def decode(cls, body: bytes) -> Answer:
        """Read a message of `encode`; `BadInput` if it is none."""
        if len(body) < _ANSWER.size:
            raise BadInput(f"an answer of {len(body)} bytes; {_ANSWER.size} are the least")
        kind, known, tag, size = _ANSWER.unpack_from(body)
        end = _ANSWER.size + size
        if kind not in set(Kind) or known not in range(4) or end > len(body):
            raise BadInput(f"an answer of {len(body)} bytes, of kind {kind}: there is none such")
        return cls(Kind(kind), tag, Known(known), body[end:], body[_ANSWER.size : end])


def bitmap_of(rows: IntArray, used_rows: int) -> bytes:
    """A bitmap of `used_rows` bits with those of int64[n] `rows` set, lowest bit first."""
    mask = np.zeros(used_rows, np.bool_)
    mask[rows] = True
    return np.packbits(mask, bitorder="little").tobytes()


def rows_of(bitmap: bytes, used_rows: int) -> IntArray:
    """int64[n], ascending: the bits that are set; `BadInput` if there are not `used_rows`."""
    expected = -(-used_rows // 8)
    if len(bitmap) != expected:
        raise BadInput(f"a bitmap of {len(bitmap)} bytes; {expected} are expected")
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")[:used_rows]
    return np.flatnonzero(bits).astype(np.int64)
