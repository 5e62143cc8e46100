"""Data sets on disk: parsed in blocks, mapped into memory, so that they may be larger than it.

A data set is a folder of the cache: `data.json` and a file for each array of `Examples`, as plain
little-endian numbers. Processes that map the same files share what of them is in memory.

Features arrive under any name of 64 bits and are numbered by rising name, from 0, once all are
known: only the distinct names have to be in memory for that.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from host_stack.distinct import distinct
from host_stack.errors import BadInput
from host_stack.jsonfile import read_json_object
from workloads import cache
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array

SCHEMA = 1
"""Raised whenever the meaning of a stored array, or of the names of features, changes."""

_ABOUT = "data.json"
_FILES: dict[str, Any] = {
    "indptr": np.dtype("<i8"),
    "features": np.dtype("<i8"),
    "values": np.dtype("<f4"),
    "labels": np.dtype("<f4"),
}
_NUMBERED_AT_ONCE = 1 << 20

Uint64Array = NDArray[np.uint64]


@dataclass(frozen=True)
class Block:
    """Some examples as a reader finds them.

    - `lengths`: int64[n], pairs of each example
    - `names`: uint64[nnz], the names of features
    - `values`: float32[nnz]
    - `labels`: float32[n]
    """

    lengths: Int64Array
    names: Uint64Array
    values: Float32Array
    labels: Float32Array


class _Distinct:
    """The distinct names of a stream, in memory of about twice their size."""

    def __init__(self) -> None:
        self._runs: list[Uint64Array] = []  # each rising, and more than twice as long as the next

    def add(self, names: Uint64Array) -> None:
        run = distinct(names)
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = _union(self._runs.pop(), run)
        self._runs.append(run)

    def sorted(self) -> Uint64Array:
        """All names, rising."""
        while len(self._runs) > 1:
            self._runs.append(_union(self._runs.pop(), self._runs.pop()))
        return self._runs[0] if self._runs else np.empty(0, np.uint64)


def _union(one: Uint64Array, other: Uint64Array) -> Uint64Array:
    return distinct(np.concatenate([one, other]))


def load(name: str) -> tuple[Examples, Uint64Array] | None:
    """Map the data set `name` of the cache; None where there is none to be trusted.

    Returns the examples, and the name of each feature.
    """
    try:
        return _map(cache.cache_dir() / name)
    except (BadInput, OSError, ValueError):
        return None


def store(name: str, blocks: Iterable[Block]) -> tuple[Examples, Uint64Array]:
    """Write the examples of `blocks` into the cache as `name`, and map them.

    Several processes may do so at once: the first that ends puts its folder into place. Where the
    cache cannot be written, a temporary folder is used, whose space is freed with the last map.
    """
    parent = cache.cache_dir()
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=f".{name}-"))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="libra-data-"))
    try:
        _write(folder, blocks)
        mapped = _map(folder)
        if folder.parent == parent:
            _put(folder, parent / name)
    except OSError as error:
        raise WorkloadError(f"cannot store parsed data in {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return mapped


def _put(folder: Path, final: Path) -> None:
    """Move a whole folder to its place; if another process was first, its folder is as good."""
    if load(final.name) is not None:
        return
    try:
        folder.replace(final)
    except OSError:
        # Something damaged, or of an older schema, is in the way.
        shutil.rmtree(final, ignore_errors=True)
        try:
            folder.replace(final)
        except OSError:
            return


def _write(folder: Path, blocks: Iterable[Block]) -> None:
    """Write all files of a data set."""
    distinct = _Distinct()
    examples = pairs = 0
    opened: dict[str, BinaryIO] = {name: (folder / name).open("wb") for name in _FILES}
    try:
        opened["indptr"].write(np.zeros(1, dtype="<i8").tobytes())
        for block in blocks:
            ends = pairs + np.cumsum(block.lengths)
            names = block.names.view(np.int64)  # until they are numbered
            arrays: tuple[NDArray[Any], ...] = (ends, names, block.values, block.labels)
            for (name, dtype), array in zip(_FILES.items(), arrays, strict=True):
                opened[name].write(array.astype(dtype, copy=False).tobytes())
            distinct.add(block.names)
            examples, pairs = examples + len(block.labels), pairs + len(block.names)
    finally:
        for file in opened.values():
            file.close()
    known = distinct.sorted()
    known.astype("<u8", copy=False).tofile(folder / "names")
    _number(folder / "features", known, pairs)
    about = {"schema": SCHEMA, "examples": examples, "pairs": pairs, "features": len(known)}
    (folder / _ABOUT).write_text(json.dumps(about) + "\n")


def _number(path: Path, names: Uint64Array, pairs: int) -> None:
    """Replace each name in a file of features by its rank among `names`."""
    if not pairs:
        return
    features = np.memmap(path, dtype="<u8", mode="r+", shape=(pairs,))
    for start in range(0, pairs, _NUMBERED_AT_ONCE):
        some = slice(start, start + _NUMBERED_AT_ONCE)
        features[some] = np.searchsorted(names, features[some]).astype(np.uint64)
    features.flush()


def _map(folder: Path) -> tuple[Examples, Uint64Array]:
    """Map the files of a folder; `BadInput` or an `OSError` if they are not what they should be."""
    about = read_json_object(folder / _ABOUT, "data set")
    wanted = ("schema", "examples", "pairs", "features")
    if any(type(about.get(field)) is not int or about[field] < 0 for field in wanted):
        raise BadInput(f"{folder / _ABOUT} does not describe a data set")
    if about["schema"] != SCHEMA:
        raise BadInput(f"{folder}: schema {about['schema']}, this version reads {SCHEMA}")
    sizes = {
        "indptr": about["examples"] + 1,
        "features": about["pairs"],
        "values": about["pairs"],
        "labels": about["examples"],
    }
    arrays = {name: _map_file(folder / name, sizes[name], _FILES[name]) for name in _FILES}
    names = _map_file(folder / "names", about["features"], np.dtype("<u8"))
    examples = Examples(**arrays)
    examples.validate(about["features"])
    return examples, names


def _map_file(path: Path, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if path.stat().st_size != size * dtype.itemsize:
        raise BadInput(f"{path} has {path.stat().st_size} bytes, not {size * dtype.itemsize}")
    if not size:
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(size,)))
