"""UPDATEs at a worker: the new values of hot keys, as the server multicasts them."""

from __future__ import annotations

import numpy as np

from host_stack.codec import Codec, Records, overlay, version_op
from host_stack.fixedpoint import FloatArray, IntArray, MaskArray
from host_stack.incarnation import Incarnation
from host_stack.job import Job
from host_stack.layout import ROUND_BITS, TAG_ROUNDS, rounds_before
from host_stack.transport import Received, ipv4
from host_stack.wire import Op


class Updates:
    """Stores the values of an epoch's UPDATEs, and tells which round's value each row has."""

    def __init__(
        self,
        job: Job,
        codec: Codec,
        incarnation: Incarnation,
        committed: int,
        parameters: FloatArray,
    ) -> None:
        """Write into float32[num_keys] `parameters`, which are those after `committed` rounds."""
        self._job = job.job
        self._server = ipv4(job.server)
        self._codec = codec
        self._epoch = incarnation.epoch
        self._rounds_before = rounds_before(incarnation.round)
        self._placement = incarnation.placement
        self._parameters = parameters
        self._hot_keys = self._placement.keys.astype(np.int64)
        self._round_of = np.full(self._placement.used_rows, committed - 1, np.int64)
        self._whole = self._round_of.copy()
        self._stored: dict[int, MaskArray] = {}

    def missing(self, changed: IntArray, round_: int) -> IntArray:
        """Those of int64[n] rows of which not all cells have their values of `round_`.

        A later UPDATE of a row brings the cells that changed later, and no others.
        """
        lacking = self._whole[changed] < round_
        if (stored := self._stored.get(round_)) is not None:
            lacking &= ~stored[changed]
        return changed[lacking]

    def fetched(self, rows: IntArray, round_: int) -> None:
        """Note that int64[n] rows have the values that `round_` left, by another way.

        These may have been written over those of later UPDATEs, which overtook them.
        """
        for known in (self._round_of, self._whole):
            known[rows] = np.maximum(known[rows], round_)
        for stored in self._stored.values():
            stored[rows] = False

    def settle(self, committed: int) -> None:
        """Note that nobody asks any more what is missing of so many rounds."""
        self._stored = {
            round_: rows for round_, rows in self._stored.items() if round_ >= committed
        }

    def take(self, received: Received) -> None:
        """Store the values of the UPDATEs in a batch of datagrams, unless there are later ones."""
        records = overlay(received.data, self._codec.update)
        records = records[self._is_update(received, records)]
        rounds = (records["header"]["tag"] % TAG_ROUNDS).astype(np.int64) + self._rounds_before
        rows = records["row"].astype(np.int64)
        # One without cells opens a round on a switch that has missed the UPDATE of a row.
        fits = (records["used"] != 0) & (rows < len(self._round_of))
        records, rounds, rows = records[fits], rounds[fits], rows[fits]
        order = np.argsort(rounds, kind="stable")
        order = order[rounds[order] >= self._round_of[rows[order]]]
        if not len(order):
            return
        self._store(records[order])
        np.maximum.at(self._round_of, rows[order], rounds[order])
        for round_ in np.unique(rounds[order]):
            stored = self._stored.setdefault(int(round_), np.zeros(len(self._round_of), np.bool_))
            stored[rows[order][rounds[order] == round_]] = True

    def _store(self, records: Records) -> None:
        rows, lanes, values = self._codec.decode_updates(records)
        index = self._placement.index_of(lanes, rows)
        known = index >= 0
        self._parameters[self._hot_keys[index[known]]] = values[known]

    def _is_update(self, received: Received, records: Records) -> MaskArray:
        header = records["header"]
        good: MaskArray = (
            (received.lengths >= self._codec.update_prefix)
            & (header["version_op"] == version_op(Op.UPDATE))
            & (header["job"] == self._job)
            & (header["tag"] >> ROUND_BITS == self._epoch)
            & (received.sources == self._server)
            & (received.lengths == self._codec.update_lengths(records))
        )
        return good
