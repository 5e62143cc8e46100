"""Records of an audit: what workers pushed and the server committed, appended to files.

A process appends to a file of its own. A record is written whole before anybody is told of what
it says, so the torn end that a killed process leaves tells of nothing that counts.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from host_stack.errors import BadInput
from host_stack.fixedpoint import FloatArray, check_fraction_bits
from host_stack.layout import MAX_KEYS, MAX_WORKERS
from host_stack.writing import writing

_MAGIC = b"LBA2"
_HEAD = struct.Struct("<4sIIIi")
"""Magic; tag; step of a push or number of ranks of a commit; number of keys; F of a commit, else
0."""
_PUSH_NAME = re.compile(r"push-(\d{1,9})-\d{1,9}\.log", re.ASCII)
KEY = np.dtype("<u8")
VALUE = np.dtype("<f4")
STEP = np.dtype("<u4")

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class PushRecord:
    """A push that is acknowledged: uint64[n] keys ascending, float32[n] gradients."""

    rank: int
    tag: int
    step: int
    keys: Keys
    gradients: FloatArray


@dataclass(frozen=True)
class CommitRecord:
    """A commit: `steps[rank]` are committed now; uint64[n] keys ascending, float32[n] sums.

    `fraction_bits` is F, the scale at which they were summed.
    """

    tag: int
    steps: tuple[int, ...]
    fraction_bits: int
    keys: Keys
    sums: FloatArray


class _Log:
    """A new file in a folder, named by a prefix and the next free number."""

    def __init__(self, folder: Path, prefix: str) -> None:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            number = len(list(folder.glob(f"{prefix}-*.log")))
            self._path = folder / f"{prefix}-{number:04d}.log"
            self._file: BinaryIO = self._path.open("xb", buffering=0)

    def _append(self, *parts: bytes) -> None:
        data = memoryview(b"".join(parts))
        with writing(self._path):
            while data:
                data = data[self._file.write(data) :]


class PushLog(_Log):
    """What one process of a worker pushes."""

    def __init__(self, folder: Path, rank: int) -> None:
        super().__init__(folder, f"push-{rank:03d}")

    def record(self, tag: int, step: int, keys: Keys, gradients: FloatArray) -> None:
        """Append a push; fits `Worker`'s `on_pushed`."""
        head = _HEAD.pack(_MAGIC, tag, step, len(keys), 0)
        self._append(head, keys.astype(KEY).tobytes(), gradients.astype(VALUE).tobytes())


class CommitLog(_Log):
    """What one process of the server commits."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "commit")

    def record(
        self,
        tag: int,
        steps: tuple[int, ...],
        fraction_bits: int,
        keys: Keys,
        sums: FloatArray,
    ) -> None:
        """Append a commit."""
        head = _HEAD.pack(_MAGIC, tag, len(steps), len(keys), fraction_bits)
        self._append(
            head,
            np.array(steps, STEP).tobytes(),
            keys.astype(KEY).tobytes(),
            sums.astype(VALUE).tobytes(),
        )


def read_pushes(folder: Path) -> Iterator[PushRecord]:
    """All whole records of pushes; those of a rank in the order in which they were written."""
    for path in sorted(folder.glob("push-*.log")):
        rank = _rank_of(path)
        reader = _Reader(path)
        while (head := reader.head()) is not None:
            tag, step, count, _ = head
            keys, gradients = reader.array(KEY, count), reader.array(VALUE, count)
            if reader.is_torn:
                break
            yield PushRecord(rank, tag, step, keys, gradients)


def _rank_of(path: Path) -> int:
    """The rank of a worker, from the name of its log."""
    name = _PUSH_NAME.fullmatch(path.name)
    if name is None:
        raise BadInput(f"{path} is no log of an audit: logs of pushes are push-RANK-NUMBER.log")
    return int(name[1])


def read_commits(folder: Path) -> Iterator[CommitRecord]:
    """All whole records of commits, in the order in which they were written."""
    for path in sorted(folder.glob("commit-*.log")):
        reader = _Reader(path)
        while (head := reader.head()) is not None:
            tag, ranks, count, fraction_bits = head
            if ranks > MAX_WORKERS:
                raise BadInput(f"{path} is no log of an audit: a commit of {ranks} workers")
            check_fraction_bits(fraction_bits)
            steps = reader.array(STEP, ranks)
            keys, sums = reader.array(KEY, count), reader.array(VALUE, count)
            if reader.is_torn:
                break
            yield CommitRecord(tag, tuple(steps.tolist()), fraction_bits, keys, sums)


class _Reader:
    """Reads a log from its beginning; arrays are views of the mapped file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        empty = path.stat().st_size == 0
        self._data = np.zeros(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")
        self._at = 0
        self.is_torn = False

    def head(self) -> tuple[int, int, int, int] | None:
        """Tag, second number, number of keys and F of the next record; None at the end."""
        data = self._data[self._at : self._at + _HEAD.size].tobytes()
        if len(data) < _HEAD.size:
            return None
        magic, tag, number, count, fraction_bits = _HEAD.unpack(data)
        if magic != _MAGIC or count > MAX_KEYS:
            raise BadInput(f"{self._path} is no log of an audit, at byte {self._at}")
        self._at += _HEAD.size
        return tag, number, count, fraction_bits

    def array(self, kind: np.dtype, count: int) -> np.ndarray:
        """The next array; sets `is_torn` if the file ends within it."""
        end = self._at + count * kind.itemsize
        if end > len(self._data):
            self.is_torn = True
            return np.zeros(0, kind)
        found = np.frombuffer(self._data, kind, count, self._at)
        self._at = end
        return found
