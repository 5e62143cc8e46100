"""Incarnations of a job without a controller, and the file by which a server's processes differ."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from host_stack.errors import BadInput
from host_stack.incarnation import Incarnation, next_epoch
from host_stack.jsonfile import read_json_object
from host_stack.layout import MAX_EPOCH
from host_stack.standing import Standing
from host_stack.wake import Wake
from host_stack.writing import put_in_place, writing

_LOG = logging.getLogger(__name__)


class EpochFile:
    """The newest epoch that a server has begun, on disk until the job has ended.

    Workers forget nothing while their server is away: in an epoch of its own a process is not taken
    for the one before it, which has acknowledged what only it knew.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> int | None:
        """The epoch, None where no server has begun; `BadInput` if the file holds none."""
        if not self._path.exists():
            return None
        epoch = read_json_object(self._path, "file of epochs").get("epoch")
        if type(epoch) is not int or not 0 < epoch <= MAX_EPOCH:
            raise BadInput(f"{self._path} has epoch {epoch!r}: allowed are 1 to {MAX_EPOCH}")
        return epoch

    def write(self, epoch: int) -> None:
        """Note an epoch before it begins; it is on disk when this returns, else `CannotWrite`."""
        temporary = self._path.with_name(self._path.name + ".part")
        with writing(self._path):
            with temporary.open("w") as file:
                json.dump({"epoch": epoch}, file)
                file.flush()
                os.fsync(file.fileno())
            put_in_place(temporary, self._path)

    def remove(self) -> None:
        """The job has ended: who begins next is nobody's successor."""
        with writing(self._path):
            self._path.unlink(missing_ok=True)


class OwnIncarnations:
    """Incarnations of a job without a controller: it is on no switch, the server counts epochs."""

    def __init__(self, epochs: EpochFile) -> None:
        """Count on from the epoch in a file."""
        self._epochs = epochs
        self._wake = Wake()
        self._next: Incarnation | None = None

    def report(self, standing: Standing) -> None:
        """Nobody asks."""

    def fileno(self) -> int:
        """Readable while there is news."""
        return self._wake.fileno()

    def begin(self, epoch: int) -> int:
        """The epoch in which a process of the server begins: `epoch`, if it is the first one."""
        last = self._epochs.read()
        begun = epoch if last is None else next_epoch(last)
        self._epochs.write(begun)
        return begun

    def news(self) -> Incarnation | None:
        """The incarnation that was asked for."""
        self._wake.clear()
        found, self._next = self._next, None
        return found

    def suspect(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Go on without the switch."""
        self.renew(reason, seen, round_)

    def renew(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Make the next epoch."""
        _LOG.info("another epoch begins: %s", reason)
        new = Incarnation(
            next_epoch(seen.epoch), round_, seen.fraction_bits, seen.version, seen.placement
        )
        self._epochs.write(new.epoch)
        self._next = new
        self._wake.set()
