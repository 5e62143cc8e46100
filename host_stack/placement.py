"""The placement of a job: key to (lane, row), and packing of a push into packets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_stack.codec import Index
from host_stack.errors import BadInput
from host_stack.fixedpoint import IntArray, MaskArray
from host_stack.layout import Layout
from host_stack.npz import reading_npz, vector

Keys = NDArray[np.uint64]
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Packing:
    """Where each gradient of a push travels.

    Attributes:
        packets: intp[n], the packet of each key; a lane occurs at most once in a packet.
        lanes: int64[n].
        rows: int64[n].
        count: number of packets.
    """

    packets: Index
    lanes: IntArray
    rows: IntArray
    count: int


class Placement:
    """The hot keys of a job and their cells."""

    def __init__(self, keys: Keys, lanes: IntArray, rows: IntArray, layout: Layout) -> None:
        """Place `keys` (uint64[n], unique) at (`lanes`, `rows`) (int64[n] each).

        Raises `BadInput` if a key occurs twice, two keys share a cell, or a cell is outside of
        the layout.
        """
        self.keys = np.asarray(keys, np.uint64)
        self.lanes = np.asarray(lanes, np.int64)
        self.rows = np.asarray(rows, np.int64)
        self.layout = layout
        if not len(self.keys) == len(self.lanes) == len(self.rows):
            raise BadInput("keys, lanes and rows of a placement must be of the same length")
        self._check()
        self._order = np.argsort(self.keys)
        self._sorted = self.keys[self._order]

    def _check(self) -> None:
        layout = self.layout
        if len(self.keys) > layout.cells:
            raise BadInput(
                f"{len(self.keys)} hot keys do not fit: {layout.lanes} lanes of {layout.rows} "
                f"rows hold {layout.cells}"
            )
        if len(np.unique(self.keys)) != len(self.keys):
            raise BadInput("a key is placed twice")
        for name, values, limit in (
            ("lane", self.lanes, layout.lanes),
            ("row", self.rows, layout.rows),
        ):
            if len(values) and not 0 <= values.min() <= values.max() < limit:
                raise BadInput(f"a {name} is outside of 0 to {limit - 1}")
        if len(np.unique(self.lanes * layout.rows + self.rows)) != len(self.keys):
            raise BadInput("two keys are placed in one cell")

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def used_rows(self) -> int:
        """Rows up to the highest in use."""
        return int(self.rows.max()) + 1 if len(self) else 0

    def find(self, keys: Keys) -> tuple[MaskArray, Index]:
        """Which of uint64[n] keys are hot, and the index in `self.keys` of those that are."""
        if not len(self):
            return np.zeros(len(keys), np.bool_), np.zeros(0, np.intp)
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self) - 1)
        hot = self._sorted[at] == keys
        index: Index = self._order[at[hot]]
        return hot, index

    @cached_property
    def cell_index(self) -> NDArray[np.int64]:
        """int64[lanes, rows in use]: the index in `keys` of each cell's key, -1 where empty."""
        table = np.full((self.layout.lanes, max(1, self.used_rows)), -1, np.int64)
        table[self.lanes, self.rows] = np.arange(len(self))
        return table

    @property
    def placed(self) -> MaskArray:
        """bool[rows in use, lanes]: which cells hold a key."""
        found: MaskArray = (self.cell_index >= 0).T
        return found

    def index_of(self, lanes: IntArray, rows: IntArray) -> NDArray[np.int64]:
        """The index in `keys` of the key of each cell (int64[n]); -1 where there is none."""
        table = self.cell_index
        inside = (rows >= 0) & (rows < table.shape[1]) & (lanes < table.shape[0])
        found = np.full(len(lanes), -1, np.int64)
        found[inside] = table[lanes[inside], rows[inside]]
        return found

    def pack(self, index: Index) -> Packing:
        """Pack the keys `index`: the n-th key of each lane goes into the n-th packet."""
        lanes = self.lanes[index]
        order = np.argsort(lanes, kind="stable")
        per_lane = np.bincount(lanes, minlength=self.layout.lanes)
        starts = np.cumsum(per_lane) - per_lane
        packets = np.empty(len(index), np.intp)
        packets[order] = np.arange(len(index)) - np.repeat(starts, per_lane)
        count = int(per_lane.max()) if len(index) else 0
        return Packing(packets, lanes, self.rows[index], count)

    def save(self, path: Path) -> None:
        """Write the placement as .npz (schema 1: `schema`, `layout`, `keys`, `lanes`, `rows`)."""
        layout = self.layout
        np.savez_compressed(
            path,
            schema=np.int64(SCHEMA_VERSION),
            layout=np.array([layout.lanes, layout.rows, layout.window, layout.program], np.int64),
            keys=self.keys,
            lanes=self.lanes,
            rows=self.rows,
        )

    @classmethod
    def load(cls, path: Path) -> Placement:
        """Read a placement written by `save`; `BadInput` if the file is none."""
        with reading_npz(path, "placement file") as file:
            if int(file["schema"]) != SCHEMA_VERSION:
                raise BadInput(
                    f"{path}: schema {int(file['schema'])}, this version reads {SCHEMA_VERSION}"
                )
            return cls(
                vector(file, "keys", np.uint64),
                vector(file, "lanes", np.int64),
                vector(file, "rows", np.int64),
                Layout(*(int(field) for field in vector(file, "layout", np.int64))),
            )


def heat_based(ranked: Keys, layout: Layout) -> Placement:
    """The paper's placement: the i-th hottest key goes to lane i mod LANES, row i div LANES.

    `ranked` is uint64[n], hottest first.
    """
    order = np.arange(len(ranked), dtype=np.int64)
    return Placement(ranked, order % layout.lanes, order // layout.lanes, layout)
