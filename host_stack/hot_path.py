"""The server's end of the hot path in one incarnation of a job: fall-back, drain, UPDATE."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from host_stack.aggregator import KeyIndex, SoftwareAggregator
from host_stack.codec import Codec, fill_header
from host_stack.drain import Drain, DrainStats
from host_stack.errors import PushFailed
from host_stack.fallback import Fallback
from host_stack.fixedpoint import FloatArray, IntArray, MaskArray
from host_stack.incarnation import Incarnation
from host_stack.job import Job
from host_stack.layout import SERVER_RANK, TAG_ROUNDS, make_tag
from host_stack.placement import SecondCells
from host_stack.transport import Received, Transport, ipv4, send_all
from host_stack.wire import Op

UPDATE_LIMIT_S = 1.0
"""How long a link may take no packet before UPDATEs are left to be fetched."""


OPEN_AGAIN_S = 0.01
"""Between UPDATEs for a switch that has missed one; workers send again more rarely."""


@dataclass
class HotStats:
    """Counts of all incarnations of a job."""

    fallback: Counter[str] = field(default_factory=Counter)
    drain: DrainStats = field(default_factory=DrainStats)

    def counts(self) -> dict[str, int]:
        """By what is counted, as in a server's statistics."""
        return {
            **{f"fallback_{name}": n for name, n in self.fallback.items()},
            "drained_rows": self.drain.rows,
            "drain_requests": self.drain.requests,
            "drain_rows_asked_again": self.drain.asked_again,
            "drain_unknown_cells": self.drain.unknown_cells,
        }


class HotPath:
    """What the server does with hot keys; a new incarnation takes a new one."""

    def __init__(
        self,
        job: Job,
        incarnation: Incarnation,
        aggregator_of: Callable[[int], SoftwareAggregator],
        transport: Transport,
        stats: HotStats,
    ) -> None:
        """Begin an incarnation; `aggregator_of` gives the software sums of an open round."""
        self._job = job.at(incarnation.epoch, incarnation.fraction_bits)
        self._placement = incarnation.placement
        self._aggregator_of = aggregator_of
        self._transport = transport
        self._codec = Codec(job.layout)
        self._group = ipv4(job.group)
        self._hot_keys = self._placement.keys.astype(np.int64)
        self._drain = Drain(
            self._job,
            transport,
            self._codec,
            self._placement.placed,
            stats.drain,
            incarnation.chain,
        )
        self._fallback = Fallback(
            self._job,
            self._placement,
            aggregator_of,
            transport,
            self._codec,
            stats.fallback,
            first_round=incarnation.round,
            on_switch=incarnation.on_switch,
        )
        self._opened_at = -math.inf

    def take(self, received: Received, mask: MaskArray, round_: int) -> None:
        """Sum the GRADs among the datagrams `mask` while `round_` and the next one are open."""
        unopened = self._fallback.take(received, mask, round_)
        if unopened and time.monotonic() - self._opened_at >= OPEN_AGAIN_S:
            self.close(round_ - 1)
            self._opened_at = time.monotonic()

    def drain(
        self, round_: int, rows: IntArray, on_wait: Callable[[float], None]
    ) -> list[tuple[KeyIndex, FloatArray]]:
        """Drain int64[n] rows; digits go to the aggregator, finished float32 sums are returned."""
        if not len(rows):
            return []
        aggregator = self._aggregator_of(round_)
        summed_here = aggregator.touched()[self._hot_keys]
        in_row = np.zeros(self._placement.used_rows, np.bool_)
        in_row[self._placement.rows[summed_here]] = True
        if self._job.drain_digits:
            # What cannot round does not add second cells either: their rows come by themselves.
            in_row[:] = True
            seconds = SecondCells.none(len(rows))
        else:
            rows = self._placement.first_rows(rows)
            seconds = self._placement.second_cells(rows)
        parts = self._drain.run(
            make_tag(self._job.epoch, round_),
            rows,
            seconds,
            in_row[rows],
            self._job.timeouts_s["drain"],
            lambda received, mask: self.take(received, mask, round_),
            on_wait,
        )
        finished = []
        for part in parts:
            index = self._placement.index_of(part.lanes, part.rows)
            keys = self._hot_keys[index]
            if part.sums is not None:
                aggregator.add_sums(keys, part.sums)
            elif part.values is not None:
                finished.append((keys, part.values))
        return finished

    def send_updates(self, round_: int, keys: KeyIndex, parameters: FloatArray) -> IntArray:
        """Multicast the new values of the hot keys among `keys`; return the rows changed."""
        _, index = self._placement.find(keys.astype(np.uint64))
        if not len(index):
            self.close(round_)
            return np.zeros(0, np.int64)
        rows, at = np.unique(self._placement.rows[index], return_inverse=True)
        lanes = self._placement.lanes[index]
        mask = np.zeros((len(rows), self._job.layout.lanes), np.bool_)
        values = np.zeros(mask.shape, np.float32)
        mask[at, lanes] = True
        values[at, lanes] = parameters[self._hot_keys[index]]
        self._multicast(round_, rows, mask, values)
        return rows

    def close(self, round_: int) -> None:
        """Tell the switch, by an UPDATE without cells, that `round_` takes no more GRADs.

        Of a round before the first one of an epoch there is no need.
        """
        if len(self._placement) and (round_ + 1) % TAG_ROUNDS:
            mask = np.zeros((1, self._job.layout.lanes), np.bool_)
            self._multicast(round_, np.zeros(1, np.int64), mask, mask.astype(np.float32))

    def _multicast(self, round_: int, rows: IntArray, mask: MaskArray, values: FloatArray) -> None:
        batch, lengths = self._codec.encode_updates(rows, mask, values)
        tag = make_tag(self._job.epoch, round_)
        fill_header(batch["header"], Op.UPDATE, job=self._job.job, worker=SERVER_RANK, tag=tag)
        data = batch.view(np.uint8).reshape(len(batch), self._codec.update.itemsize)
        with suppress(PushFailed):  # workers fetch what they miss
            send_all(self._transport, data, lengths, self._group, UPDATE_LIMIT_S)
