"""Placing keys by which of them occur together.

Keys that occur together share rows, so that a drain touches few of them; and since a row has one
key of each lane, they are in different lanes, so that a push fills its packets. Which lane of its
row a key gets is chosen so that no lane holds more of any document's keys than others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.byte_model import touch_share
from controller.placing.documents import Documents
from controller.placing.rows import fill_rows
from host_stack.fixedpoint import IntArray
from host_stack.layout import Layout
from host_stack.placement import Placement, require_fit
from workloads.progress import progress


def order_by_documents(hot: Documents) -> IntArray:
    """The keys of `hot` (indices, int64[n]) in an order in which neighbours occur together.

    Frequent keys come first, in steps of a factor of two; rows of keys of unlike frequency would
    be touched as often as their hottest key. Within a step, keys of the very same documents stay
    together, the largest of these groups first, and groups of a size are sorted by their largest
    document, counted in keys of the step, and the next largest. That is MinHash (Broder, 1997) with
    an order of documents that makes the groups large, instead of a random one.

    Keys of one embedding row have the same documents, and so are neighbours.
    """
    level = np.full(len(hot), 1, np.int64)
    first, second = np.zeros(len(hot), np.int64), np.zeros(len(hot), np.int64)
    seen = int(np.count_nonzero(hot.counts))  # keys are in order of frequency
    level[:seen] = -np.floor(np.log2(hot.counts[:seen])).astype(np.int64)
    group = _groups(hot)
    _, which, sizes = np.unique(group, return_inverse=True, return_counts=True)
    for value in np.unique(level[:seen]):
        start, end = np.searchsorted(level[:seen], [value, value + 1]).tolist()
        first[start:end], second[start:end] = _largest_documents(hot, start, end)
    return np.lexsort((hot.keys, group, second, first, -sizes[which], level))


def _groups(hot: Documents) -> NDArray[np.uint64]:
    """A hash of the set of documents of each key: a sum of random numbers, one for each of them.

    A key that is in none is a group of its own, named by its position.
    """
    numbers = np.random.default_rng(hot.total).integers(0, 2**64, hot.total, np.uint64)
    hashes = np.arange(len(hot), dtype=np.uint64)
    seen = np.count_nonzero(hot.counts)  # keys are in order of frequency
    if seen:
        hashes[:seen] = np.add.reduceat(numbers[hot.documents], hot.starts[:seen])
    return hashes


def _largest_documents(hot: Documents, start: int, end: int) -> tuple[IntArray, IntArray]:
    """The largest and next largest document of keys `start` to `end`, as ranks of documents."""
    begin, stop = hot.starts[start], hot.starts[end]
    documents = hot.documents[begin:stop]
    sizes = np.bincount(documents, minlength=hot.total)
    rank = np.empty(hot.total, np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(hot.total)
    ranks, bounds = rank[documents], hot.starts[start:end] - begin
    first = np.minimum.reduceat(ranks, bounds)
    is_first = ranks == np.repeat(first, hot.counts[start:end])
    return first, np.minimum.reduceat(np.where(is_first, hot.total, ranks), bounds)


NO_LANE = -1
DEAR = np.float32(1e30)
"""A cost above all that loads may come to."""


@dataclass(frozen=True)
class _Rows:
    """Keys in the order of their rows, and their documents.

    Attributes:
        lanes: LANES.
        starts, documents: occurrences of the keys, as in `Documents`.
        groups: uint64[n], equal for keys of the very same documents.
        weights: float32[n], how much a document more or less changes whether a push has the key.
        shares: float32[n], the chance that a push has the key.
    """

    lanes: int
    starts: NDArray[np.int64]
    documents: NDArray[np.int64]
    groups: NDArray[np.uint64]
    weights: NDArray[np.float32]
    shares: NDArray[np.float32]

    @classmethod
    def of(cls, hot: Documents, order: IntArray, draws: float, lanes: int) -> _Rows:
        counts = hot.counts[order]
        starts = np.concatenate([[0], np.cumsum(counts)])
        at = np.repeat(hot.starts[order] - starts[:-1], counts) + np.arange(starts[-1])
        share = hot.shares[order]
        weights = (1 - share) ** (draws - 1)
        shares = touch_share(share, draws)
        return cls(
            lanes,
            starts,
            hot.documents[at],
            _groups(hot)[order],
            weights.astype(np.float32),
            shares.astype(np.float32),
        )


class _Loads:
    """How many keys of each document, and of a push, the lanes hold so far."""

    def __init__(self, rows: _Rows, documents: int, draws: float) -> None:
        self._rows = rows
        self._of_document = np.zeros((documents, rows.lanes), np.float32)
        self._of_push = np.zeros(rows.lanes, np.float32)
        self._pushes = documents / draws

    def costs(self, start: int, end: int) -> NDArray[np.float32]:
        """float32[end - start, lanes]: what a key adds to the squared loads, by lane."""
        rows = self._rows
        costs = self._pushes * rows.shares[start:end, np.newaxis] * self._of_push
        begin, stop = rows.starts[start], rows.starts[end]
        if stop > begin:
            loads = self._of_document[rows.documents[begin:stop]]
            seen = np.flatnonzero(np.diff(rows.starts[start : end + 1]))
            sums = np.add.reduceat(loads, rows.starts[start + seen] - begin)
            costs[seen] += rows.weights[start + seen, np.newaxis] * sums
        return costs

    def add(self, start: int, end: int, lanes: IntArray) -> None:
        """Put keys `start` to `end`, of one row, in distinct lanes."""
        rows = self._rows
        counts = np.diff(rows.starts[start : end + 1])
        documents = rows.documents[rows.starts[start] : rows.starts[end]]
        weights = np.repeat(rows.weights[start:end], counts)
        self._of_document[documents, np.repeat(lanes, counts)] += weights
        self._of_push[lanes] += rows.shares[start:end]


def balance_lanes(
    hot: Documents, order: IntArray, of_row: IntArray, draws: float, layout: Layout, front: int
) -> IntArray:
    """The lanes (int64[n]) of keys in `order`, whose rows are `of_row` (int64[n], ascending).

    Minimises, greedily and row by row, the sum over documents and pushes of the squared loads of
    lanes. A push is `draws` documents; keys that nearly every push has weigh little, for they do
    not change from push to push. The first `front` rows come last, from the last of them to the
    first, so that the other rows are balanced without those that may get second cells.
    """
    rows = _Rows.of(hot, order, draws, layout.lanes)
    loads = _Loads(rows, hot.total, draws)
    lanes = np.full(len(order), NO_LANE, np.int64)
    count = int(of_row[-1]) + 1 if len(of_row) else 0
    starts = np.searchsorted(of_row, np.arange(count + 1)).tolist()
    weights = rows.weights * rows.shares
    with progress("placing", len(order)) as advance:
        for row in (*range(front, count), *range(min(front, count) - 1, -1, -1)):
            start, end = starts[row], starts[row + 1]
            costs = loads.costs(start, end)
            part = _avoid_twins(costs, rows.groups, lanes, start, end)
            lanes[start:end] = _assign(costs, weights[start:end] + part)
            loads.add(start, end, lanes[start:end])
            advance(end - start)
    return lanes


def _avoid_twins(
    costs: NDArray[np.float32],
    groups: NDArray[np.uint64],
    lanes: IntArray,
    start: int,
    end: int,
) -> NDArray[np.float32]:
    """Make lanes dear that keys of the same group have in the rows before and after.

    A group that goes on from one row to the next, such as an embedding row, thus gets different
    lanes in both. Returns what is to be added to the weights (float32[end - start]), so that such
    keys choose first.
    """
    urgent = np.zeros(end - start, np.float32)
    width = costs.shape[1]
    for edge, outside in (
        (start, range(start - 1, start - 1 - width, -1)),
        (end - 1, range(end, end + width)),
    ):
        neighbour = outside[0]
        if not 0 <= neighbour < len(lanes) or groups[neighbour] != groups[edge]:
            continue
        near = np.array([at for at in outside if 0 <= at < len(lanes)])
        taken = lanes[near[groups[near] == groups[edge]]]
        mine = groups[start:end] == groups[edge]
        costs[np.ix_(mine, taken[taken != NO_LANE])] += DEAR
        urgent[mine] = DEAR
    return urgent


def _assign(costs: NDArray[np.float32], weights: NDArray[np.float32]) -> IntArray:
    """Distinct lanes for the keys of a row, int64[n]: the weightiest key chooses first."""
    taken = np.zeros(costs.shape[1], np.float32)
    lanes = np.empty(len(costs), np.int64)
    for key in np.argsort(-weights, kind="stable"):
        lane = int((costs[key] + taken).argmin())
        lanes[key] = lane
        taken[lane] = np.inf
    return lanes


def by_cooccurrence(
    hot: Documents, draws: float, workers: int, layout: Layout, front: int = 0
) -> Placement:
    """Place the keys of `hot`; a push is `draws` documents, a round has one of each worker.

    The hottest keys fill the first `front` rows in the order of their heat. Raises `BadInput` if
    the layout has too few cells.
    """
    order = order_by_documents(hot)
    hottest = front * layout.lanes
    order = np.concatenate([np.arange(min(hottest, len(hot))), order[order >= hottest]])
    return in_order(hot, order, draws, workers, layout, front)


def in_order(
    hot: Documents, order: IntArray, draws: float, workers: int, layout: Layout, front: int = 0
) -> Placement:
    """Place keys, of which neighbours in `order` (indices, int64[n]) share rows.

    Rows are filled as `fill_rows` says, lanes balanced as `balance_lanes` says. Raises `BadInput`
    if the layout has too few cells.
    """
    require_fit(len(hot), layout)
    chances = touch_share((hot.counts[order] + 0.5) / max(1, hot.total), draws * workers)
    rows = fill_rows(_groups(hot)[order], chances, layout, front)
    lanes = balance_lanes(hot, order, rows, draws, layout, front)
    return Placement(hot.keys[order], lanes, rows, layout)
