"""The numpy codec of the wire: whole batches of packets at a time, equal to `packets.py`.

A batch is a C-contiguous uint8[n, stride] matrix, one packet a row. Structured dtypes lay the wire
format over it without copying; bitmaps count lanes from the least significant bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_stack.fixedpoint import IntArray, MaskArray, join_digits
from host_stack.layout import WIRE_VERSION, Layout
from host_stack.wire import HEADER_BYTES, DrainFormat, Op

Bytes = NDArray[np.uint8]
Records = NDArray[Any]
Index = NDArray[np.intp]

HEADER = np.dtype(
    [
        ("version_op", "u1"),
        ("flags", "u1"),
        ("job", ">u2"),
        ("worker", ">u2"),
        ("reserved", ">u2"),
        ("tag", ">u4"),
        ("seq", ">u4"),
    ]
)


def drain_dtype(hops: int) -> np.dtype[Any]:
    """A DRAIN that visits `hops` switches behind the first one, at IPv4 addresses `path`."""
    return np.dtype(
        [
            ("header", HEADER),
            ("row", ">u2"),
            ("rows", ">u2"),
            ("format", "u1"),
            ("hops", "u1"),
            ("path", ">u4", (hops,)),
        ]
    )


DRAIN = drain_dtype(0)
PROBE = np.dtype(
    [
        ("header", HEADER),
        ("program", ">u2"),
        ("lanes", ">u2"),
        ("window", ">u2"),
        ("epoch", ">u2"),
        ("rows", ">u2"),
        ("reserved", ">u2"),
    ]
)
LANE = np.dtype([("row", ">u2"), ("grad", ">f4")])


def version_op(op: Op) -> int:
    """The first byte of a packet of this operation."""
    return WIRE_VERSION << 4 | op


def overlay(batch: Bytes, dtype: np.dtype[Any]) -> Records:
    """The records of `dtype` at the start of each packet of a batch: a view, no copy."""
    return np.ndarray((len(batch),), dtype, buffer=batch.data, strides=(batch.shape[1],))


def fill_header(records: Records, op: Op, *, job: int, worker: int, tag: int) -> None:
    """Write the common fields of every header of `records` (dtype `HEADER`)."""
    records["version_op"] = version_op(op)
    records["flags"] = 0
    records["job"] = job
    records["worker"] = worker
    records["reserved"] = 0
    records["tag"] = tag
    records["seq"] = 0


@dataclass(frozen=True)
class DrainedCells:
    """The touched cells of a batch of DRAINED packets.

    Attributes:
        rows: int64[n], the row of each cell.
        lanes: int64[n], its lane.
        sums: int64[n] if the packets carry digits, else None.
        values: float32[n] if the packets carry finished sums, else None.
    """

    rows: IntArray
    lanes: IntArray
    sums: IntArray | None
    values: NDArray[np.float32] | None


@dataclass(frozen=True)
class Codec:
    """Encodes and decodes the packets of one layout."""

    layout: Layout

    @cached_property
    def _bitmap(self) -> str:
        return f">u{self.layout.lanes // 8}"

    @cached_property
    def grad(self) -> np.dtype[Any]:
        """A GRAD."""
        lanes = self.layout.lanes
        return np.dtype([("header", HEADER), ("used", self._bitmap), ("lane", LANE, (lanes,))])

    @cached_property
    def drained(self) -> np.dtype[Any]:
        """The longest DRAINED; `cells` are 32-bit words of which a packet carries a prefix."""
        return np.dtype(
            [
                ("header", HEADER),
                ("row", ">u2"),
                ("format", "u1"),
                ("hops", "u1"),
                ("used", self._bitmap),
                ("cells", ">u4", (2 * self.layout.lanes,)),
            ]
        )

    @cached_property
    def update(self) -> np.dtype[Any]:
        """The longest UPDATE; a packet carries a prefix of `cells`."""
        return np.dtype(
            [
                ("header", HEADER),
                ("row", ">u2"),
                ("used", self._bitmap),
                ("cells", ">f4", (self.layout.lanes,)),
            ]
        )

    @property
    def max_bytes(self) -> int:
        """Bytes of the longest packet of this layout."""
        return max(self.grad.itemsize, self.drained.itemsize, self.update.itemsize)

    @cached_property
    def drained_prefix(self) -> int:
        """Bytes of a DRAINED before its cells."""
        return HEADER_BYTES + 4 + self.layout.lanes // 8

    @cached_property
    def update_prefix(self) -> int:
        """Bytes of an UPDATE before its cells."""
        return HEADER_BYTES + 2 + self.layout.lanes // 8

    def bitmap(self, mask: MaskArray) -> NDArray[Any]:
        """Bitmaps of bool[n, lanes]: lane i is bit i."""
        packed = np.packbits(mask, axis=1, bitorder="little")
        return packed.view(self._bitmap.replace(">", "<"))[:, 0]

    def lanes_of(self, bitmaps: NDArray[Any]) -> MaskArray:
        """bool[n, lanes] of bitmaps in any byte order."""
        little = bitmaps.astype(self._bitmap.replace(">", "<"))
        octets = little.view(np.uint8).reshape(len(little), little.itemsize)
        return np.unpackbits(octets, axis=1, bitorder="little").astype(np.bool_)

    def encode_grads(
        self,
        packets: Index,
        lanes: IntArray,
        rows: IntArray,
        gradients: NDArray[np.float32],
        count: int,
    ) -> Records:
        """GRAD packets from n gradients that were packed into `count` packets.

        Args:
            packets: intp[n], the packet of each gradient.
            lanes: int64[n], its lane; a lane occurs once in a packet.
            rows: int64[n], its row.
            gradients: float32[n].
            count: number of packets.

        Returns:
            Records of dtype `grad`, headers still empty.
        """
        batch = np.zeros(count, self.grad)
        batch["lane"]["row"][packets, lanes] = rows
        batch["lane"]["grad"][packets, lanes] = gradients
        mask = np.zeros((count, self.layout.lanes), np.bool_)
        mask[packets, lanes] = True
        batch["used"] = self.bitmap(mask)
        return batch

    def decode_grads(self, batch: Records) -> tuple[Index, IntArray, IntArray, NDArray[np.float32]]:
        """The (packet, lane, row, gradient) of every lane in use of GRAD records."""
        packets, lanes = np.nonzero(self.lanes_of(batch["used"]))
        lane = batch["lane"][packets, lanes]
        return (
            packets,
            lanes.astype(np.int64),
            lane["row"].astype(np.int64),
            lane["grad"].astype(np.float32),
        )

    def drained_lengths(self, batch: Records) -> IntArray:
        """The length that each DRAINED record claims to have, int64[n] bytes."""
        cells = self.lanes_of(batch["used"]).sum(axis=1)
        cell_bytes = np.where(batch["format"] == DrainFormat.DIGITS, 8, 4)
        lengths: IntArray = (self.drained_prefix + cells * cell_bytes).astype(np.int64)
        return lengths

    def decode_drained(self, batch: Records, form: DrainFormat) -> DrainedCells:
        """The touched cells of DRAINED records, all of the same format."""
        packets, lanes = np.nonzero(mask := self.lanes_of(batch["used"]))
        ordinals = _ordinals(mask)
        rows = batch["row"].astype(np.int64)[packets]
        words = batch["cells"]
        sums = values = None
        if form is DrainFormat.DIGITS:
            d1 = words[packets, 2 * ordinals].astype(np.uint32).view(np.int32)
            d0 = words[packets, 2 * ordinals + 1].astype(np.uint32).view(np.int32)
            sums = join_digits(d1, d0)
        else:
            values = words[packets, ordinals].astype(np.uint32).view(np.float32)
        return DrainedCells(rows, lanes.astype(np.int64), sums, values)

    def encode_updates(
        self, rows: IntArray, mask: MaskArray, values: NDArray[np.float32]
    ) -> tuple[Records, IntArray]:
        """UPDATE packets of n rows.

        Args:
            rows: int64[n], strictly the rows to send.
            mask: bool[n, lanes], the changed cells.
            values: float32[n, lanes], their new values.

        Returns:
            Records of dtype `update` with empty headers, and the length of each in bytes.
        """
        batch = np.zeros(len(rows), self.update)
        batch["row"] = rows
        batch["used"] = self.bitmap(mask)
        packets, lanes = np.nonzero(mask)
        batch["cells"][packets, _ordinals(mask)] = values[packets, lanes]
        return batch, (self.update_prefix + 4 * mask.sum(axis=1)).astype(np.int64)

    def update_lengths(self, batch: Records) -> IntArray:
        """The length that each UPDATE record claims to have, int64[n] bytes."""
        cells = self.lanes_of(batch["used"]).sum(axis=1)
        lengths: IntArray = (self.update_prefix + 4 * cells).astype(np.int64)
        return lengths

    def decode_updates(self, batch: Records) -> tuple[IntArray, IntArray, NDArray[np.float32]]:
        """The (row, lane, value) of every changed cell of UPDATE records."""
        packets, lanes = np.nonzero(mask := self.lanes_of(batch["used"]))
        values = batch["cells"][packets, _ordinals(mask)].astype(np.float32)
        return batch["row"].astype(np.int64)[packets], lanes.astype(np.int64), values


def _ordinals(mask: MaskArray) -> Index:
    """Of each true element in row-major order: how many true ones precede it in its row."""
    before = np.cumsum(mask, axis=1) - 1
    ordinals: Index = before[mask]
    return ordinals
