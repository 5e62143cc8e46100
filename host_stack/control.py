"""Control messages between worker and server, carried as ps-lite simple requests.

Workers ask and the server answers; any of these may be repeated at any time. JOIN opens a
worker's part, DONE ends a step of it, STATUS asks how things stand when nothing moves. docs/wire.md
has the bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

import numpy as np

from host_stack.errors import BadInput
from host_stack.fixedpoint import IntArray

_REQUEST = struct.Struct(">IIIIBIB")
_ANSWER = struct.Struct(">BBIIIBI")


class Head(IntEnum):
    """What a worker asks: the `head` of a simple request and of its answer."""

    DONE = 1
    JOIN = 2
    STATUS = 3
    STALLED = 4
    """As STATUS; hot packets are not acknowledged."""


class Kind(IntEnum):
    """What the server answers."""

    GO = 1
    """The step is complete; the next one goes into the round of `tag`."""
    MOVED = 2
    """Another incarnation holds, or another round: go on there, behind `steps`."""
    OPEN = 3
    """The step is not complete; `known` says what has come of it."""


class Known(IntFlag):
    """What the server has of a worker's step."""

    NOTHING = 0
    PUSH = 1
    DONE = 2


@dataclass(frozen=True)
class Request:
    """JOIN, DONE, STATUS or STALLED.

    Attributes:
        tag: epoch and round that the step was pushed into; with JOIN, a number of the process.
        version: the placement that the worker has; 0 for none.
        step: the step, from 0.
        committed: rounds of which the worker has the parameters.
        final: it is the last step of this worker.
        gradients: with DONE, how many are in the step.
        sampled: with DONE, the biased exponents of at most 255 of them, a byte each.
        rows: with DONE, a bitmap of the rows in which a switch holds something of this worker, of
            all its steps in the round.
    """

    tag: int
    version: int
    step: int = 0
    committed: int = 0
    final: bool = False
    gradients: int = 0
    sampled: bytes = b""
    rows: bytes = b""

    def encode(self) -> bytes:
        """The fields in their order."""
        head = _REQUEST.pack(
            self.tag,
            self.version,
            self.step,
            self.committed,
            self.final,
            self.gradients,
            len(self.sampled),
        )
        return head + self.sampled + self.rows

    @classmethod
    def decode(cls, body: bytes) -> Request:
        """Read a message of `encode`; `BadInput` if it is none."""
        if len(body) < _REQUEST.size:
            raise BadInput(f"a request of {len(body)} bytes; {_REQUEST.size} are the least")
        tag, version, step, committed, final, gradients, sampled = _REQUEST.unpack_from(body)
        end = _REQUEST.size + sampled
        if final > 1:
            raise BadInput(f"a request with {final} for final; allowed are 0 and 1")
        if end > len(body):
            raise BadInput(f"a request of {len(body)} bytes; {end} are the least with its sample")
        sample, rows = body[_REQUEST.size : end], body[end:]
        return cls(tag, version, step, committed, bool(final), gradients, sample, rows)


@dataclass(frozen=True)
class Answer:
    """The server's answer.

    Attributes:
        kind: what it says.
        tag: with GO, epoch and round of the next step; else that of the request.
        known: with OPEN.
        steps: committed steps of the worker.
        committed: committed rounds of the job.
        rows: with GO, for each round that was committed since the worker's `committed`, a bitmap
            of the rows of which an UPDATE was sent; `bitmaps` of them.
        incarnation: encoded, with MOVED.
    """

    kind: Kind
    tag: int
    known: Known = Known.NOTHING
    steps: int = 0
    committed: int = 0
    bitmaps: int = 0
    rows: bytes = b""
    incarnation: bytes = b""

    def encode(self) -> bytes:
        """The head, with the length of the incarnation; the incarnation; rows."""
        head = _ANSWER.pack(
            self.kind,
            self.known,
            self.tag,
            self.steps,
            self.committed,
            self.bitmaps,
            len(self.incarnation),
        )
        return head + self.incarnation + self.rows

    @classmethod
    def decode(cls, body: bytes) -> Answer:
        """Read a message of `encode`; `BadInput` if it is none."""
        if len(body) < _ANSWER.size:
            raise BadInput(f"an answer of {len(body)} bytes; {_ANSWER.size} are the least")
        kind, known, tag, steps, committed, bitmaps, size = _ANSWER.unpack_from(body)
        end = _ANSWER.size + size
        if kind not in set(Kind) or known not in range(4) or end > len(body):
            raise BadInput(f"an answer of {len(body)} bytes, of kind {kind}: there is none such")
        return cls(
            Kind(kind),
            tag,
            Known(known),
            steps,
            committed,
            bitmaps,
            body[end:],
            body[_ANSWER.size : end],
        )

    def changed(self, used_rows: int) -> list[IntArray]:
        """The rows that changed, int64[n] for each of the rounds; `BadInput` if they do not fit."""
        size = -(-used_rows // 8)
        if len(self.rows) != size * self.bitmaps:
            raise BadInput(
                f"{len(self.rows)} bytes of rows; {self.bitmaps} bitmaps of {size} are expected"
            )
        return [
            rows_of(self.rows[at * size : (at + 1) * size], used_rows) for at in range(self.bitmaps)
        ]


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
