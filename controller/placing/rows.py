"""Which row each key gets, once keys are in an order: full rows, or groups that stay whole.

A group is keys of the very same documents, such as those of an embedding row. One that two rows
share has both of them drained. Where groups are touched seldom, rows that end with a group, though
not quite full, therefore cost fewer bytes in all than full rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.byte_model import RowCosts
from controller.placing.blocks import block_rows
from host_stack.fixedpoint import IntArray
from host_stack.layout import Layout


def fill_rows(
    groups: NDArray[np.uint64], chances: NDArray[np.float64], layout: Layout, front: int
) -> IntArray:
    """The rows (int64[n], ascending from 0) of keys in their order.

    The first rows are full; from the row on from where it is expected to save most, but not among
    the first `front` ones, rows end with a group. There are no more rows than the power of two has
    that a job with full rows, and `front` more, takes anyway.

    Args:
        groups: uint64[n], equal for neighbours of one group.
        chances: float64[n], that a round touches a key; equal within a group.
        layout: of the switch; it has room for the full rows.
        front: rows that stay full.
    """
    count = len(groups)
    full = np.arange(count, dtype=np.int64) // layout.lanes
    begin = front * layout.lanes
    if begin >= count:
        return full
    bounds = begin + _bounds(groups[begin:], layout.lanes)
    starts = _whole_rows(bounds, count, layout.lanes)
    saved = _costs(np.arange(begin, count, layout.lanes), bounds, chances, layout)
    spent = _costs(starts, bounds, chances, layout)
    before = -(-(starts - begin) // layout.lanes)
    after = np.arange(len(starts), 0, -1)
    costs = np.concatenate([[0], np.cumsum(saved)])[before] + np.cumsum(spent[::-1])[::-1]
    block = min(layout.rows, block_rows(int(full[-1]) + 1 + front))
    costs[2 * front + before + after > block] = np.inf
    best = int(np.argmin(costs))
    if costs[best] >= saved.sum():
        return full
    rows = full.copy()
    keys = np.diff(starts[best:], append=count)
    rows[starts[best] :] = front + before[best] + np.repeat(np.arange(len(keys)), keys)
    return rows


def _bounds(groups: NDArray[np.uint64], lanes: int) -> IntArray:
    """Where groups begin, int64[m], and the parts of groups of more than `lanes` keys."""
    starts = np.concatenate([[0], np.flatnonzero(groups[1:] != groups[:-1]) + 1])
    parts = -(-np.diff(starts, append=len(groups)) // lanes)
    nth = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    bounds: IntArray = np.repeat(starts, parts) + nth * lanes
    return bounds


def _whole_rows(bounds: IntArray, end: int, lanes: int) -> IntArray:
    """Where rows begin, int64[r], of as many whole parts each as fit."""
    edges = np.append(bounds, end)
    following = np.searchsorted(edges, edges + lanes, "right") - 1
    starts, at = [], 0
    while at < len(bounds):
        starts.append(int(edges[at]))
        at = int(following[at])
    return np.array(starts, np.int64)


def _costs(
    starts: IntArray, bounds: IntArray, chances: NDArray[np.float64], layout: Layout
) -> NDArray[np.float64]:
    """The expected bytes of draining and updating each row, float64[r], without its cells.

    Rows begin at `starts`, groups at `bounds`, and groups are taken to be touched independently. A
    touched row after an untouched one takes a DRAIN of its own.
    """
    pieces = np.union1d(starts, bounds)
    untouched = np.log1p(-np.minimum(chances[pieces], 1 - 1e-12))
    touched = -np.expm1(np.add.reduceat(untouched, np.searchsorted(pieces, starts)))
    gaps = 1 - np.concatenate([[1.0], touched[:-1]])
    costs = RowCosts.of(layout)
    expected: NDArray[np.float64] = touched * (costs.both + costs.request * gaps)
    return expected
