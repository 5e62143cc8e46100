"""The placement of a job: which key owns which cells (section 6 of the design)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from host_stack.codec import Index
from host_stack.distinct import distinct
from host_stack.errors import BadInput
from host_stack.fixedpoint import IntArray, MaskArray
from host_stack.layout import Layout
from host_stack.npz import reading_npz, require_schema, vector
from host_stack.packing import Exchanges, Packing, nth_of_lane, spread

Keys = NDArray[np.uint64]
"""uint64[n] keys of a job."""
SCHEMA_VERSION = 2
MAX_FILE_BYTES = 1 << 26
"""Of a placement file, unpacked: the largest layout, full, and each of its rows in a pair."""


NO_PAIR = -1


def _no_rows() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class RowPairs:
    """Rows whose keys own a second cell each, in another lane of a row of their own.

    The key in lane l of row `rows[i]` owns lane l ^ `masks[i]` of row `seconds[i]` too. A worker
    uses whichever cell is in the emptier lane, and the server adds both.

    Attributes:
        rows: int64[m], rows with keys; pairs that come first are used first.
        seconds: int64[m], the row of the second cells; no key has its first cell there.
        masks: int64[m], from 1 to LANES - 1.
    """

    rows: IntArray = field(default_factory=_no_rows)
    seconds: IntArray = field(default_factory=_no_rows)
    masks: IntArray = field(default_factory=_no_rows)

    def __len__(self) -> int:
        return len(self.rows)

    def check(self, layout: Layout, first_rows: IntArray) -> None:
        """Raise `BadInput` unless these pairs fit a layout and keys in `first_rows` (int64[n])."""
        if not len(self.rows) == len(self.seconds) == len(self.masks):
            raise BadInput("rows, seconds and masks of row pairs must be of the same length")
        within("row of a pair", self.rows, 0, layout.rows)
        within("second row", self.seconds, 0, layout.rows)
        within("mask of a pair", self.masks, 1, layout.lanes)
        paired = np.concatenate([self.rows, self.seconds])
        if len(np.unique(paired)) != len(paired):
            raise BadInput("a row is in two pairs")
        if np.isin(first_rows, self.seconds).any():
            raise BadInput("a key is placed in a row of second cells")


@dataclass(frozen=True)
class SecondCells:
    """Where the second cells of the keys of some rows are.

    Attributes:
        rows: int64[n], their row.
        masks: int64[n], how their lanes differ from those of the first cells; 0 where there are
            none.
    """

    rows: IntArray
    masks: IntArray

    @classmethod
    def none(cls, rows: int) -> Self:
        """Of rows without second cells."""
        return cls(np.zeros(rows, np.int64), np.zeros(rows, np.int64))

    @property
    def words(self) -> NDArray[np.uint32]:
        """uint32[n]: row and mask as a DRAIN carries them, in the place of a sequence number."""
        return (self.rows << 16 | self.masks).astype(np.uint32)

    def at(self, index: Index) -> SecondCells:
        """Those of some of the rows, by index."""
        return SecondCells(self.rows[index], self.masks[index])


def next_masks(masks: IntArray, layout: Layout) -> IntArray:
    """The masks that follow int64[n] masks in a DRAIN: rotated left by a bit."""
    high = layout.lane_bits - 1
    return (masks << 1 | masks >> high) & (layout.lanes - 1)


class Placement:
    """The hot keys of a job and their cells."""

    def __init__(
        self,
        keys: Keys,
        lanes: IntArray,
        rows: IntArray,
        layout: Layout,
        pairs: RowPairs | None = None,
    ) -> None:
        """Place `keys` (uint64[n], unique) at (`lanes`, `rows`) (int64[n] each).

        Keys in rows of `pairs` own a second cell. Raises `BadInput` if a key occurs twice, two keys
        share a cell, or a cell is outside of the layout.
        """
        self.keys = np.asarray(keys, np.uint64)
        self.lanes = np.asarray(lanes, np.int64)
        self.rows = np.asarray(rows, np.int64)
        self.layout = layout
        self.pairs = RowPairs() if pairs is None else pairs
        if not len(self.keys) == len(self.lanes) == len(self.rows):
            raise BadInput("keys, lanes and rows of a placement must be of the same length")
        self._order = np.argsort(self.keys)
        self._sorted = self.keys[self._order]
        self._check()
        self._lane_bytes = self.lanes.astype(np.uint8)

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """The placement of a job without hot keys."""
        return cls(np.zeros(0, np.uint64), _no_rows(), _no_rows(), layout)

    def _check(self) -> None:
        layout = self.layout
        require_fit(len(self.keys), layout)
        if (self._sorted[1:] == self._sorted[:-1]).any():
            raise BadInput("a key is placed twice")
        within("lane", self.lanes, 0, layout.lanes)
        within("row", self.rows, 0, layout.rows)
        taken = np.zeros((layout.lanes, layout.rows), np.bool_)
        taken[self.lanes, self.rows] = True
        if np.count_nonzero(taken) != len(self.keys):
            raise BadInput("two keys are placed in one cell")
        self.pairs.check(layout, self.rows)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def used_rows(self) -> int:
        """Rows up to the highest in use."""
        named = (self.rows, self.pairs.rows, self.pairs.seconds)
        return max(int(rows.max(initial=-1)) for rows in named) + 1

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
        lanes = np.arange(self.layout.lanes)[:, np.newaxis]
        table[lanes ^ self.pairs.masks, self.pairs.seconds] = table[lanes, self.pairs.rows]
        return table

    @property
    def placed(self) -> MaskArray:
        """bool[rows in use, lanes]: which cells a key owns."""
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
        lanes, rows = self._lane_bytes[index], self.rows[index]
        if len(self.pairs):
            self._spread(lanes, rows)
        packets, count = nth_of_lane(lanes, self.layout.lanes)
        return Packing(packets, lanes.astype(np.int64), rows, count)

    def _spread(self, lanes: NDArray[np.uint8], rows: IntArray) -> None:
        """Move keys of a push to their second cells, in place, where that levels the lanes."""
        load = np.bincount(lanes, minlength=self.layout.lanes)
        at = np.flatnonzero(self._place_of_row[rows] != NO_PAIR)
        places, first = self._place_of_row[rows[at]], lanes[at]
        present = np.zeros((len(self.pairs), self.layout.lanes), np.bool_)
        present[places, first] = True
        moved = spread(load, present, self._exchanges)[places, first]
        at, pairs = at[moved], self._exchanges.order[places[moved]]
        lanes[at] ^= self.pairs.masks[pairs].astype(np.uint8)
        rows[at] = self.pairs.seconds[pairs]

    @cached_property
    def _exchanges(self) -> Exchanges:
        return Exchanges.of(self.pairs.masks, self.layout.lanes)

    @cached_property
    def _place_of_row(self) -> NDArray[np.int64]:
        """int64[rows in use]: where in the order of exchanges the pair of a first row is."""
        table = np.full(self.used_rows, NO_PAIR, np.int64)
        table[self.pairs.rows[self._exchanges.order]] = np.arange(len(self.pairs))
        return table

    @cached_property
    def _first_row(self) -> NDArray[np.int64]:
        """int64[rows in use]: the row of the first cells of the keys with a cell in a row."""
        table = np.arange(max(1, self.used_rows))
        table[self.pairs.seconds] = self.pairs.rows
        return table

    def first_rows(self, rows: IntArray) -> IntArray:
        """The rows, rising, of the first cells of all keys with a cell in `rows` (int64[n])."""
        return distinct(self._first_row[rows])

    def second_cells(self, rows: IntArray) -> SecondCells:
        """Where the second cells of keys in `rows` (int64[n]) are."""
        seconds = np.zeros(max(1, self.used_rows), np.int64)
        masks = np.zeros_like(seconds)
        seconds[self.pairs.rows] = self.pairs.seconds
        masks[self.pairs.rows] = self.pairs.masks
        return SecondCells(seconds[rows], masks[rows])

    def save(self, path: Path | BinaryIO) -> None:
        """Write the placement as .npz, schema 2 (docs/hot-parameters.md)."""
        layout = self.layout
        np.savez_compressed(
            path,
            schema=np.int64(SCHEMA_VERSION),
            layout=np.array([layout.lanes, layout.rows, layout.window, layout.program], np.int64),
            keys=self.keys,
            lanes=self.lanes,
            rows=self.rows,
            pair_rows=self.pairs.rows,
            pair_seconds=self.pairs.seconds,
            pair_masks=self.pairs.masks,
        )

    @classmethod
    def load(cls, path: Path | BinaryIO) -> Placement:
        """Read a placement written by `save`; `BadInput` if the file is none."""
        with reading_npz(path, "placement file", MAX_FILE_BYTES) as file:
            require_schema(file, SCHEMA_VERSION)
            return cls(
                vector(file, "keys", np.uint64),
                vector(file, "lanes", np.int64),
                vector(file, "rows", np.int64),
                Layout(*(int(field) for field in vector(file, "layout", np.int64))),
                RowPairs(
                    vector(file, "pair_rows", np.int64),
                    vector(file, "pair_seconds", np.int64),
                    vector(file, "pair_masks", np.int64),
                ),
            )


def require_fit(keys: int, layout: Layout) -> None:
    """Raise `BadInput` if a layout has fewer cells than `keys`."""
    if keys > layout.cells:
        raise BadInput(
            f"{keys} hot keys do not fit: {layout.lanes} lanes of {layout.rows} rows hold "
            f"{layout.cells}"
        )


def within(name: str, values: IntArray, low: int, end: int) -> None:
    """Raise `BadInput` unless all int64 `values` are from `low` to `end` - 1."""
    if len(values) and not low <= values.min() <= values.max() < end:
        raise BadInput(f"a {name} is outside of {low} to {end - 1}")


def heat_based(ranked: Keys, layout: Layout) -> Placement:
    """The paper's placement: the i-th hottest key goes to lane i mod LANES, row i div LANES.

    `ranked` is uint64[n], hottest first.
    """
    order = np.arange(len(ranked), dtype=np.int64)
    return Placement(ranked, order % layout.lanes, order // layout.lanes, layout)
