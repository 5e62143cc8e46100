"""Draining: the server reads the sums of the touched rows out of the switches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.codec import (
    Codec,
    DrainedCells,
    Records,
    drain_dtype,
    fill_header,
    overlay,
    version_op,
)
from host_stack.errors import DrainFailed
from host_stack.fixedpoint import IntArray, MaskArray
from host_stack.job import Job
from host_stack.layout import SERVER_RANK, Layout
from host_stack.placement import SecondCells, next_masks
from host_stack.readiness import wait_readable
from host_stack.rtt import RttEstimator
from host_stack.transport import Received, Transport, ipv4
from host_stack.wire import DrainFormat, Op

MAX_RUN = 32
"""Rows that one DRAIN asks for."""

MAX_OUTSTANDING = 128
"""Rows asked for and not yet answered: bounds the queue on the server's link."""


MAX_WAIT_S = 0.1
"""How long a drain waits without looking up."""

MAX_RTO_S = 0.5
"""Requests are few and small, and reading changes nothing: they are repeated sooner than GRADs."""

MIN_TRIES = 10
"""So often rows are asked for again without any answer before a drain fails."""


@dataclass
class DrainStats:
    """What drains cost, summed over rounds."""

    rows: int = 0
    requests: int = 0
    asked_again: int = 0
    unknown_cells: int = 0
    """Answers that were left aside, since a cell of theirs holds no key."""


class Drain:
    """Asks for rows of one round until it has all of them.

    Where several switches sum, a request visits one after the other: each adds what it holds of a
    row, and the last one answers (section 4 of the design). Reading changes nothing in a switch,
    so whatever is lost on the way is asked for again.
    """

    def __init__(
        self,
        job: Job,
        transport: Transport,
        codec: Codec,
        placed: MaskArray,
        stats: DrainStats | None = None,
        chain: Sequence[str] = (),
    ) -> None:
        """Drain the rows of a placement, of which bool[rows, lanes] `placed` tells the cells.

        Statistics are added to `stats`. Switches of `chain` (IPv4) are visited before the job's.
        """
        self._job = job
        self._transport = transport
        self._codec = codec
        self._placed = placed
        self._chain = chain
        self._switch = ipv4(job.switch)
        self._path = np.array([ipv4(each) for each in (*chain, job.switch)], np.uint32)
        self._rtt = RttEstimator(max_rto_s=MAX_RTO_S)
        self.stats = DrainStats() if stats is None else stats

    def run(
        self,
        tag: int,
        rows: IntArray,
        seconds: SecondCells,
        digits: MaskArray,
        deadline_s: float,
        on_other: Callable[[Received, MaskArray], None],
        on_wait: Callable[[float], None] = lambda stalled_s: None,
    ) -> list[DrainedCells]:
        """Drain `rows` (int64[n], ascending) of the round of `tag`.

        Args:
            tag: epoch and round.
            rows: the rows of first cells.
            seconds: of each row, where its second cells are; the switch adds them.
            digits: bool[n], rows that are wanted as digits and not as finished float32.
            deadline_s: seconds without progress after which the drain fails, if rows were asked
                for again `MIN_TRIES` times meanwhile.
            on_other: is given datagrams that are no answer to this drain, as (batch, bool mask).
            on_wait: is told, at least every `MAX_WAIT_S`, for how long nothing has come; what it
                raises ends the drain.

        Raises:
            DrainFailed: the switch did not answer in time.
        """
        state = _Pending(rows, seconds, digits)
        cells: list[DrainedCells] = []
        progress, tries = time.monotonic(), 0
        while not state.answered.all():
            tries += self._ask(state, tag)
            if self._wait(state):
                received = self._transport.receive()
                if part := self._take(received, state, tag, on_other):
                    cells += part
                    progress, tries = time.monotonic(), 0
            stalled_s = time.monotonic() - progress
            on_wait(stalled_s)
            if stalled_s > deadline_s and tries >= MIN_TRIES:
                raise DrainFailed(
                    f"switch {self._asked} did not answer {int((~state.answered).sum())} of "
                    f"{len(rows)} rows within {deadline_s:g} s; check that it runs and knows "
                    f"job {self._job.job}"
                )
        self.stats.rows += len(rows)
        return cells

    @property
    def _asked(self) -> str:
        """The switches that are asked, for an error."""
        behind = f" (behind {', '.join(self._chain)})" if self._chain else ""
        return self._job.switch + behind

    def _ask(self, state: _Pending, tag: int) -> bool:
        """Ask for rows that are late, and for others as far as there is room; true if some were."""
        now = time.monotonic()
        late = state.late(now, self._rtt.rto_s)
        if len(late):
            self._rtt.back_off()
            self.stats.asked_again += len(late)
            state.asked_again[late] = True
        room = max(0, MAX_OUTSTANDING - state.outstanding())
        wanted = np.concatenate([late, state.fresh(room)])
        if not len(wanted):
            return False
        wanted = np.sort(wanted)
        begins, counts = runs(
            state.rows[wanted], state.seconds.at(wanted), state.digits[wanted], self._codec.layout
        )
        firsts = wanted[begins]
        dtype = drain_dtype(len(self._path) - 1)
        requests = np.zeros(len(firsts), dtype)
        fill_header(requests["header"], Op.DRAIN, job=self._job.job, worker=SERVER_RANK, tag=tag)
        requests["row"] = state.rows[firsts]
        requests["rows"] = counts
        requests["header"]["seq"] = state.seconds.at(firsts).words
        requests["format"] = np.where(state.digits[firsts], DrainFormat.DIGITS, DrainFormat.FLOAT32)
        requests["hops"], requests["path"] = len(self._path) - 1, self._path[1:]
        data = requests.view(np.uint8).reshape(len(requests), dtype.itemsize)
        lengths = np.full(len(requests), dtype.itemsize, np.int64)
        self.stats.requests += self._transport.send(data, lengths, int(self._path[0]))
        state.asked_at[wanted] = now
        return len(late) > 0

    def _wait(self, state: _Pending) -> bool:
        due_s = state.next_due(self._rtt.rto_s) - time.monotonic()
        timeout_s = min(MAX_WAIT_S, max(0.0, due_s))
        return wait_readable(self._transport.fileno(), timeout_s)

    def _take(
        self,
        received: Received,
        state: _Pending,
        tag: int,
        on_other: Callable[[Received, MaskArray], None],
    ) -> list[DrainedCells]:
        records = overlay(received.data, self._codec.drained)
        good = self._is_answer(received, records, tag)
        if not good.all():
            on_other(received, ~good)
        index = np.minimum(np.searchsorted(state.rows, records["row"]), len(state.rows) - 1)
        as_digits = records["format"] == DrainFormat.DIGITS
        good &= (state.rows[index] == records["row"]) & state.open()[index]
        good &= as_digits == state.digits[index]
        good &= records["header"]["seq"] == state.seconds.words[index]
        good &= self._known_cells(records, good)
        at = np.flatnonzero(good)
        # Of two answers for a row in one batch, the first counts.
        _, first = np.unique(index[at], return_index=True)
        at = at[np.sort(first)]
        state.answered[index[at]] = True
        clear = index[at][~state.asked_again[index[at]]]
        self._rtt.sample(time.monotonic() - state.asked_at[clear])
        parts = []
        for form in DrainFormat:
            chosen = at[records["format"][at] == form]
            if len(chosen):
                parts.append(self._codec.decode_drained(records[chosen], form))
        return parts

    def _known_cells(self, records: Records, answers: MaskArray) -> MaskArray:
        """bool[n]: every touched cell holds a key; counts those of `answers` of which one does not.

        Rows of `answers` are rows of the placement.
        """
        rows = np.where(answers, records["row"], 0).astype(np.intp)
        unknown = self._codec.lanes_of(records["used"]) & ~self._placed[rows]
        known: MaskArray = np.logical_not(np.any(unknown, axis=1))
        self.stats.unknown_cells += int((answers & ~known).sum())
        return known

    def _is_answer(self, received: Received, records: Records, tag: int) -> MaskArray:
        header = records["header"]
        good: MaskArray = (
            (received.lengths >= self._codec.drained_prefix)
            & (header["version_op"] == version_op(Op.DRAINED))
            & (header["job"] == self._job.job)
            & (header["tag"] == tag)
            & (received.sources == self._switch)
            & (records["format"] <= DrainFormat.FLOAT32)
            & (received.lengths == self._codec.drained_lengths(records))
        )
        return good


class _Pending:
    """Which rows of a drain were asked for and answered; all arrays are of the drain's length."""

    def __init__(self, rows: IntArray, seconds: SecondCells, digits: MaskArray) -> None:
        self.rows = rows
        self.seconds = seconds
        self.digits = digits
        self.answered = np.zeros(len(rows), np.bool_)
        self.asked_again = np.zeros(len(rows), np.bool_)
        self.asked_at = np.full(len(rows), np.inf)

    def open(self) -> MaskArray:
        """bool[n]: asked for and not answered."""
        asked: MaskArray = np.isfinite(self.asked_at)
        return asked & ~self.answered

    def outstanding(self) -> int:
        return int(self.open().sum())

    def fresh(self, limit: int) -> NDArray[np.intp]:
        return np.flatnonzero(np.isinf(self.asked_at))[:limit]

    def late(self, now: float, rto_s: float) -> NDArray[np.intp]:
        return np.flatnonzero(self.open() & (now - self.asked_at > rto_s))[:MAX_OUTSTANDING]

    def next_due(self, rto_s: float) -> float:
        return float(self.asked_at[self.open()].min(initial=np.inf)) + rto_s


def runs(
    rows: IntArray, seconds: SecondCells, digits: MaskArray, layout: Layout
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Split rows into runs that one DRAIN each asks for.

    Rows of a run are adjacent, of one format, and either none of them has second cells, or these
    are in adjacent rows too and masks go round: each is the one before it, rotated left by a bit.

    Args:
        rows: int64[n], ascending.
        seconds: their second cells.
        digits: bool[n], rows wanted as digits.
        layout: of the switch.

    Returns:
        intp[m], where runs begin, and int64[m], how long they are, at most `MAX_RUN`.
    """
    masks = seconds.masks
    paired = masks != 0
    follows = (np.diff(rows) == 1) & (digits[1:] == digits[:-1]) & (paired[1:] == paired[:-1])
    follows &= ~paired[1:] | (
        (np.diff(seconds.rows) == 1) & (masks[1:] == next_masks(masks[:-1], layout))
    )
    run_start = np.concatenate([[0], np.flatnonzero(~follows) + 1])
    run_length = np.diff(np.concatenate([run_start, [len(rows)]]))
    pieces = -(-run_length // MAX_RUN)
    nth = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = np.repeat(run_start, pieces) + nth * MAX_RUN
    counts = np.minimum(MAX_RUN, np.repeat(run_start + run_length, pieces) - starts)
    return starts.astype(np.intp), counts.astype(np.int64)
