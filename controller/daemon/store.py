"""What a controller must not forget, in SQLite: jobs, epochs, placements, answers, events.

Each change is one transaction, on disk before it returns: a controller that is killed anywhere goes
on where it was.
"""

from __future__ import annotations

import io
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from controller.daemon.job_record import JobRecord, Placing, Seat, Taken
from controller.errors import AlreadyThere, DamagedState
from host_stack.errors import BadInput
from host_stack.placement import Placement

SCHEMA = 1
KEPT_EVENTS = 10_000
KEPT_REQUESTS = 10_000
KEPT_PLACEMENTS = 2
"""Of each job: the one that holds, and the next."""

_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError, BadInput)
"""What becomes of reading a record that another program has written."""

_TABLES = """
CREATE TABLE jobs (
    job INTEGER PRIMARY KEY, record TEXT NOT NULL, taken TEXT, round INTEGER NOT NULL DEFAULT 0);
CREATE TABLE placements (
    job INTEGER NOT NULL, version INTEGER NOT NULL, fraction_bits INTEGER NOT NULL,
    file BLOB NOT NULL,
    PRIMARY KEY (job, version));
CREATE TABLE spent (
    switch TEXT NOT NULL, slot INTEGER NOT NULL, row_base INTEGER NOT NULL,
    rows INTEGER NOT NULL, epoch INTEGER NOT NULL);
CREATE TABLE requests (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, digest BLOB NOT NULL,
    answer BLOB NOT NULL);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, kind TEXT NOT NULL,
    job INTEGER NOT NULL, switch TEXT NOT NULL, text TEXT NOT NULL);
"""


@dataclass(frozen=True)
class StoredEvent:
    """Something that happened; `job` is 0 and `switch` empty where it concerns none."""

    number: int
    at_s: float
    kind: str
    job: int
    switch: str
    text: str


class Store:
    """The state of one controller; only one process may have it open.

    All methods raise `DamagedState` if the file cannot be read or written: its disk is full, for
    example. What was being changed may then be known in memory alone.

    Attributes:
        failure: the first such error.
    """

    def __init__(self, path: Path, on_failure: Callable[[], None] = lambda: None) -> None:
        """Open or make the file; `on_failure` is called when `failure` is set.

        Raises:
            DamagedState: it is of another version, damaged, or open elsewhere.
        """
        self._path = path
        self._on_failure = on_failure
        self.failure: DamagedState | None = None
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=2.0)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            (health,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as error:
            raise DamagedState(
                f"{path} is not a controller's state ({error}); if another controller has it open, "
                "end that one; if its disk is full, make room; else move the file away and restart "
                "the switches"
            ) from error
        if health != "ok":
            raise DamagedState(
                f"{path} is damaged ({health}); bring back a copy of it, or move it away and "
                "restart the switches"
            )
        with self.change():
            self._make_tables()

    def _make_tables(self) -> None:
        (version,) = self._execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in filter(str.strip, _TABLES.split(";")):
                self._execute(statement)
            self._execute(f"PRAGMA user_version = {SCHEMA}")
        elif version != SCHEMA:
            raise DamagedState(f"{self._path}: version {version}, this program reads {SCHEMA}")

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise self._failed(str(error)) from error

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._failed(str(error)) from error

    def _failed(self, why: str) -> DamagedState:
        """The error for a file that cannot be used any more."""
        error = DamagedState(
            f"{self._path} cannot be read or written ({why}): make room on its disk, or mend what "
            "is wrong there, and start the controller again; what is on the switches stays"
        )
        if self.failure is None:
            self.failure = error
            self._on_failure()
        return error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction; within another one, a part of it."""
        if self._db.in_transaction:
            yield
            return
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite may have ended it itself, of a full disk
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise

    # -- jobs -------------------------------------------------------------------------------

    def jobs(self) -> list[tuple[JobRecord, Taken | None]]:
        """All jobs by number, each with its newest epoch."""
        found = self._rows("SELECT record, taken FROM jobs ORDER BY job")
        try:
            return [
                (
                    JobRecord.from_fields(json.loads(record)),
                    None if taken is None else Taken.from_fields(json.loads(taken)),
                )
                for record, taken in found
            ]
        except _UNREADABLE as error:
            raise DamagedState(f"{self._path} holds a job that is none: {error!r}") from error

    def save_job(self, record: JobRecord, left: Iterable[Seat] = (), epoch: int = 0) -> None:
        """Add a job, or change it; seats that it `left` have seen its epochs up to `epoch`."""
        with self.change():
            self._spend(left, epoch)
            self._execute(
                "INSERT INTO jobs (job, record) VALUES (?, ?) "
                "ON CONFLICT (job) DO UPDATE SET record = excluded.record",
                (record.job, json.dumps(record.as_fields())),
            )

    def save_taken(self, job: int, taken: Taken) -> None:
        """The newest epoch of a job; none is given twice, whatever dies when."""
        with self.change():
            self._execute(
                "UPDATE jobs SET taken = ? WHERE job = ?", (json.dumps(asdict(taken)), job)
            )

    def delete_job(self, record: JobRecord, taken: Taken | None) -> None:
        """Forget a job; what its rows and slot have seen is kept until the switch is empty."""
        with self.change():
            self._execute("DELETE FROM jobs WHERE job = ?", (record.job,))
            self._execute("DELETE FROM placements WHERE job = ?", (record.job,))
            if taken is not None:
                self._spend(record.seats, taken.epoch)

    def _spend(self, seats: Iterable[Seat], epoch: int) -> None:
        """Remember up to which epoch rows and slots have seen, until their switches are empty."""
        for seat in seats:
            block = seat.block
            self._execute(
                "INSERT INTO spent VALUES (?, ?, ?, ?, ?)",
                (seat.switch, seat.slot, block.row_base, block.rows, epoch),
            )

    # -- epochs of jobs that are gone ---------------------------------------------------------

    def spent_epoch(self, seat: Seat) -> int:
        """The newest epoch that its slot or a row has seen of jobs that left; 0 for none."""
        block = seat.block
        ((epoch,),) = self._rows(
            "SELECT max(epoch) FROM spent WHERE switch = ? "
            "AND (slot = ? OR (row_base < ? AND ? < row_base + rows))",
            (seat.switch, seat.slot, block.row_base + block.rows, block.row_base),
        )
        return int(epoch or 0)

    def forget_spent(self, switch: str) -> None:
        """The program of a switch was loaded anew: its cells are empty."""
        with self.change():
            self._execute("DELETE FROM spent WHERE switch = ?", (switch,))

    # -- placements ---------------------------------------------------------------------------

    def save_placement(self, job: int, placing: Placing) -> None:
        """Keep a placement; older ones that can hold no more are forgotten."""
        file = io.BytesIO()
        placing.placement.save(file)
        with self.change():
            self._execute(
                "INSERT OR REPLACE INTO placements VALUES (?, ?, ?, ?)",
                (job, placing.version, placing.fraction_bits, file.getvalue()),
            )
            self._execute(
                "DELETE FROM placements WHERE job = ? AND version <= ?",
                (job, placing.version - KEPT_PLACEMENTS),
            )

    def placing(self, job: int, version: int) -> Placing | None:
        """A placement of a job, None if it was never given."""
        found = self._rows(
            "SELECT fraction_bits, file FROM placements WHERE job = ? AND version = ?",
            (job, version),
        )
        if not found:
            return None
        ((fraction_bits, file),) = found
        try:
            return Placing(version, int(fraction_bits), Placement.load(io.BytesIO(file)))
        except _UNREADABLE as error:
            raise DamagedState(
                f"{self._path}: placement {version} of job {job} is none: {error}"
            ) from error

    # -- calls that are carried out once --------------------------------------------------------

    def answer_to(self, request_id: str, digest: bytes) -> bytes | None:
        """What a call with this id was answered, None if there was none.

        Raises `AlreadyThere` if it was another call.
        """
        found = self._rows("SELECT digest, answer FROM requests WHERE id = ?", (request_id,))
        if not found:
            return None
        ((known, answer),) = found
        if known != digest:
            raise AlreadyThere(
                f"request id {request_id!r} was used for another call; each needs an id of its own"
            )
        return bytes(answer)

    def save_answer(self, request_id: str, digest: bytes, answer: bytes) -> None:
        """Remember what a call was answered."""
        with self.change():
            self._execute(
                "INSERT INTO requests (id, digest, answer) VALUES (?, ?, ?)",
                (request_id, digest, answer),
            )
            self._trim("requests", KEPT_REQUESTS)

    # -- events -------------------------------------------------------------------------------

    def add_event(self, kind: str, job: int, switch: str, text: str) -> StoredEvent:
        """Write down that something has happened, now."""
        at_s = time.time()
        with self.change():
            cursor = self._execute(
                "INSERT INTO events (at_s, kind, job, switch, text) VALUES (?, ?, ?, ?, ?)",
                (at_s, kind, job, switch, text),
            )
            self._trim("events", KEPT_EVENTS)
        return StoredEvent(int(cursor.lastrowid or 0), at_s, kind, job, switch, text)

    def events(self, after: int, limit: int = 1000) -> list[StoredEvent]:
        """Those with numbers above `after`, in order."""
        rows = self._rows(
            "SELECT number, at_s, kind, job, switch, text FROM events WHERE number > ? "
            "ORDER BY number LIMIT ?",
            (after, limit),
        )
        return [StoredEvent(*row) for row in rows]

    def _trim(self, table: str, kept: int) -> None:
        assert table in {"requests", "events"}  # noqa: S101
        self._execute(
            f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?",  # noqa: S608
            (kept,),
        )
