"""The epochs that a job has taken, on disk: none is given twice, whatever dies when."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from host_stack.errors import BadInput
from host_stack.fixedpoint import check_fraction_bits
from host_stack.jsonfile import read_json_object
from host_stack.layout import MAX_EPOCH, MAX_ROUND

SCHEMA = 1


@dataclass(frozen=True)
class Taken:
    """The newest epoch that was taken, and what holds in it.

    Attributes:
        epoch: 1…4095; taken for good, whether it was installed or not.
        round: its first round.
        fraction_bits: F.
        version: of the placement.
        installed: all of it stood on the switch (or needed not to).
        detour: its packets go around the switch.
    """

    epoch: int
    round: int
    fraction_bits: int
    version: int
    installed: bool
    detour: bool = False


class EpochFile:
    """A file with the newest epoch of a job, written beside and renamed."""

    def __init__(self, path: Path, job: int) -> None:
        self._path = path
        self._job = job

    def load(self) -> Taken | None:
        """What was saved last; None before anything was. `BadInput` if the file is damaged."""
        if not self._path.exists():
            return None
        fields = read_json_object(self._path, "epoch file")
        try:
            if fields.pop("schema") != SCHEMA or fields.pop("job") != self._job:
                raise ValueError(f"needed are schema {SCHEMA} and job {self._job}")
            taken = Taken(**fields)
            whole = (taken.epoch, taken.round, taken.fraction_bits, taken.version)
            flags = (taken.installed, taken.detour)
            if any(type(value) is not int for value in whole) or any(
                type(value) is not bool for value in flags
            ):
                raise ValueError("a number is missing")
            if not (0 < taken.epoch <= MAX_EPOCH and 0 <= taken.round <= MAX_ROUND):
                raise ValueError(f"epoch {taken.epoch}, round {taken.round}")
            check_fraction_bits(taken.fraction_bits)
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(
                f"{self._path} is no epoch file ({error}); if the job is to begin anew, remove it "
                "and restart the switch"
            ) from error
        return taken

    def save(self, taken: Taken) -> None:
        """Write, so that after a crash the old or the new content is there, whole."""
        temporary = self._path.with_name(self._path.name + ".part")
        content = {"schema": SCHEMA, "job": self._job, **asdict(taken)}
        with temporary.open("w") as file:
            file.write(json.dumps(content) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
