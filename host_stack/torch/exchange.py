"""The embedding tables of a model in step with a job: rows are fetched, gradients are pushed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from host_stack.fixedpoint import IntArray, MaskArray
from host_stack.placement import Keys
from host_stack.sharded import JobWorker, versions
from host_stack.stepping import Stepping
from host_stack.stopwatch import RoundTimes
from host_stack.torch.errors import TableError
from host_stack.torch.tables import Tables
from host_stack.worker import NOTHING

KEYS_AT_ONCE = 1 << 22
"""Keys of one pull when whole tables are fetched."""


class SparseExchange:
    """Knows which rows are current at this worker, and makes others so.

    Rows of which all keys are hot are current after every step, since the server multicasts them.
    The others are fetched when they are asked for, once for each step.

    """

    def __init__(self, worker: JobWorker, tables: Tables) -> None:
        """Of a worker that steps under BSP. Binds the tables to the worker's parameters."""
        self._stepping = Stepping(worker)
        self._worker = worker
        self._tables = tables
        self._versions: tuple[int, ...] = ()
        tables.bind(worker.parameters)

    @property
    def step(self) -> int:
        """The next one to push, from 0."""
        return self._stepping.step

    @property
    def has_started(self) -> bool:
        """Whether the job was joined: which rows are current is known from then on."""
        return bool(self._versions)

    def start(self) -> int:
        """Join the job; return the step to begin with.

        Raises:
            PushFailed: the server does not answer.
        """
        step = self._stepping.start()
        self._forget()
        return step

    def require(self, rows: Mapping[str, IntArray]) -> None:
        """Make int64[n] rows of tables current.

        Raises:
            Rewound: the job goes on at an earlier step.
            TableError: a table has no such row.
            PushFailed: the server does not answer.
        """
        stale = {name: self._stale(name, some) for name, some in rows.items()}
        if any(len(some) for some in stale.values()) or not self._worker.is_current:
            self._fetch(stale)

    def push(self, scale: float, next_rows: Mapping[str, IntArray] | None = None) -> RoundTimes:
        """Push the gradients of all tables, times `scale`; return when the round is committed.

        With int64[n] `next_rows`, those rows are current then without another question.

        Raises:
            Rewound: the job goes on at an earlier step.
            PushFailed: nothing moves any more, and nobody says why.
        """
        keys, gradients = self._tables.take_gradients(scale)
        wanted = {} if next_rows is None else {n: _distinct(some) for n, some in next_rows.items()}
        next_keys = self._tables.keys_of(wanted) if wanted else NOTHING
        times = self._stepping.push(keys, gradients, next_keys)
        self._forget()
        if self._worker.is_current:
            self._note(wanted)
        return times

    def fetch_all(self) -> None:
        """Make all rows of all tables current, to save or to evaluate them.

        Raises:
            Rewound, PushFailed: as `require`.
        """
        for table in self._tables:
            at_once = max(1, KEYS_AT_ONCE // table.dim)
            for first in range(0, table.rows, at_once):
                rows = np.arange(first, min(first + at_once, table.rows), dtype=np.int64)
                self.require({table.name: rows})

    def end(self) -> None:
        """Say that no step follows, and wait until no worker has one left.

        Raises:
            BadInput: no step was made.
            Rewound, PushFailed: as `require`.
        """
        self._stepping.end()

    def _stale(self, name: str, rows: IntArray) -> IntArray:
        """Those of int64[n] rows that are not current, ascending and distinct."""
        rows, table = _distinct(rows), self._tables[name]
        if len(rows) and not 0 <= rows[0] <= rows[-1] < table.rows:
            raise TableError(
                f"{name} was asked for rows {rows[0]} to {rows[-1]}; it has 0 to {table.rows - 1}"
            )
        return rows[~self._current[name][rows]]

    def _fetch(self, rows: Mapping[str, IntArray]) -> None:
        """Get the values of int64[n] rows, of all hot keys too where these are not known."""
        if self._stepping.fetch(self._tables.keys_of(rows)):
            self._forget()
        self._note(rows)

    def _forget(self) -> None:
        """After a step, or in another incarnation, no row is current but the hot ones."""
        if (placed := versions(self._worker)) != self._versions:
            self._versions = placed
            self._hot = self._hot_rows(self._worker.hot_keys)
        self._current = {name: mask.copy() for name, mask in self._hot.items()}
        self._refreshed = False

    def _note(self, rows: Mapping[str, IntArray]) -> None:
        """Note that rows are current, and copy them to weights elsewhere, hot ones too."""
        for name, some in rows.items():
            self._current[name][some] = True
        self._tables.refresh(rows)
        if not self._refreshed:
            self._tables.refresh({name: np.flatnonzero(mask) for name, mask in self._hot.items()})
            self._refreshed = True

    def _hot_rows(self, keys: Keys) -> dict[str, MaskArray]:
        """Which rows of each table have no cold key, given uint64[n] hot ones."""
        hot = np.zeros(self._tables.num_keys, np.bool_)
        hot[keys[keys < self._tables.num_keys].astype(np.int64)] = True
        return {
            table.name: np.all(hot[table.first : table.end].reshape(table.rows, table.dim), axis=1)
            for table in self._tables
        }


def _distinct(rows: IntArray) -> IntArray:
    found: IntArray = np.unique(rows).astype(np.int64)
    return found
