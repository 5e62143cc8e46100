"""Reads rows of a job's switches by DRAINs, beside the server, to look at what they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from host_stack.codec import Codec
from host_stack.drain import Drain
from host_stack.errors import BadInput
from host_stack.fixedpoint import IntArray
from host_stack.job import Job
from host_stack.layout import MAX_ROUND, make_tag
from host_stack.placement import SecondCells
from host_stack.transport import BatchTransport, Transport, open_udp

DEADLINE_S = 2.0
"""After so long without an answer, and after several tries, the switch is taken for silent."""


@dataclass(frozen=True)
class RoundCells:
    """The cells of a round that hold something.

    Attributes:
        round: which.
        rows: int64[n], within the rows of the job.
        lanes: int64[n].
        sums: int64[n], in units of 2^-F; of all switches that sum for the job.
    """

    round: int
    rows: IntArray
    lanes: IntArray
    sums: IntArray


class RowReader:
    """Asks the switches of one job, whose server's host it is on.

    A switch answers to the port that a request comes from. The requests of a reader come from a
    port of their own, so that no answer to it is ever taken for one to the server, which may drain
    the same rows at the same time. Reading changes nothing.
    """

    def __init__(self, job: Job, transport_of: Callable[[Job], Transport] | None = None) -> None:
        """Ask from a free port of the server's address; `BadInput` if it is not this host's."""
        self._job = job
        self._transport = (transport_of or _beside_the_server)(job)

    def read(
        self, epoch: int, chain: Sequence[str], rounds: range, row: int, rows: int
    ) -> list[RoundCells]:
        """The cells of `rows` rows from `row` on, in each of `rounds`.

        Args:
            epoch: that the job is in.
            chain: IPv4 addresses of the switches before the job's own.
            rounds: which; such that cannot be are left out.
            row: within the rows of the job.
            rows: how many, at least 1.

        Raises:
            BadInput: rows or epoch cannot be.
            DrainFailed: the switches do not answer: they are in another epoch, or down.
        """
        layout = self._job.layout
        if not (rows > 0 and 0 <= row <= layout.rows - rows):
            raise BadInput(f"rows {row} to {row + rows - 1}: allowed are 0 to {layout.rows - 1}")
        job = self._job.at(epoch, self._job.fraction_bits)
        everywhere = np.ones((row + rows, layout.lanes), np.bool_)
        drain = Drain(job, self._transport, Codec(layout), everywhere, chain=chain)
        return [
            _read(drain, epoch, round_, np.arange(row, row + rows))
            for round_ in rounds
            if 0 <= round_ <= MAX_ROUND
        ]

    def close(self) -> None:
        """Give the port back."""
        self._transport.close()


def _read(drain: Drain, epoch: int, round_: int, rows: IntArray) -> RoundCells:
    parts = drain.run(
        make_tag(epoch, round_),
        rows,
        SecondCells.none(len(rows)),
        np.ones(len(rows), np.bool_),
        DEADLINE_S,
        lambda received, mask: None,
    )
    columns = [(part.rows, part.lanes, part.sums) for part in parts if part.sums is not None]
    nothing = np.zeros(0, np.int64)
    found = [np.concatenate([nothing, *column]) for column in zip(*columns, strict=True)]
    where, lanes, sums = found or (nothing, nothing, nothing)
    order = np.lexsort((lanes, where))
    return RoundCells(round_, where[order], lanes[order], sums[order])


def _beside_the_server(job: Job) -> Transport:
    return BatchTransport(open_udp(job.server, port=0), Codec(job.layout).max_bytes)
