"""Data sets once parsed are kept as .npz files, so that each process of a run opens one in no time.

The cache is a convenience: a file that is absent, damaged or of another schema counts as missing,
and a directory that cannot be written costs time, not the run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_stack.npz import UNREADABLE

SCHEMA = 1
"""Raised whenever the meaning of a stored array changes."""

_SCHEMA_FIELD = "schema"


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/libra`, or `~/.cache/libra` where that variable is unset or relative."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification has relative paths ignored
        base = Path.home() / ".cache"
    return base / "libra"


def load(name: str) -> dict[str, NDArray[Any]] | None:
    """Return the arrays stored under `name`, or None where there are none to be trusted."""
    try:
        with np.load(cache_dir() / f"{name}.npz", allow_pickle=False) as stored:
            arrays = {field: stored[field] for field in stored.files}
    except UNREADABLE:
        return None
    schema = arrays.pop(_SCHEMA_FIELD, None)
    return arrays if schema is not None and np.array_equal(schema, SCHEMA) else None


def store(name: str, arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Write `arrays` under `name` in one step; False where the directory cannot be written.

    Processes that start together may all store the same data: each writes a file of its own and
    renames it into place, so that a reader sees a whole file or none.
    """
    fields: dict[str, Any] = {**arrays, _SCHEMA_FIELD: np.int64(SCHEMA)}
    directory = cache_dir()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(dir=directory, prefix=f".{name}-", suffix=".tmp")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **fields)
        Path(path).replace(directory / f"{name}.npz")
    except OSError:
        Path(path).unlink(missing_ok=True)
        return False
    return True
