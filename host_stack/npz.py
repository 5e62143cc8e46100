"""Reading .npz files that may hold anything: whatever is wrong with one is a `BadInput`."""

from __future__ import annotations

import struct
import threading
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from host_stack.errors import BadInput, LibraError

UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    MemoryError,
    OverflowError,
    # Encrypted members and unknown compressions.
    RuntimeError,
    NotImplementedError,
    # Damaged headers of arrays, which numpy reads as Python literals.
    SyntaxError,
    RecursionError,
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What zipfile and numpy raise for files that are damaged or something else."""
_OVERHEAD_BYTES = 1 << 16
"""More than headers of arrays and single numbers take."""
_ARCHIVE = b"PK\x03\x04"
"""How an archive begins; numpy takes anything else for a pickle, and advises to trust it."""
_PARSER = threading.RLock()
"""numpy parses headers of arrays as Python, which CPython 3.11 cannot in two threads at once."""


@contextmanager
def reading_npz(
    path: Path | BinaryIO, what: str, max_bytes: int | None = None
) -> Iterator[NpzFile]:
    """Open a file to take arrays out of it; `BadInput` says that `path` is not a `what`.

    So it does of one whose arrays, unpacked, take more than `max_bytes`. What else is found bad
    while it is open is said of `path`, too. Other threads wait until this one is done.
    """
    where = path if isinstance(path, Path) else "what was received"
    try:
        with path.open("rb") if isinstance(path, Path) else nullcontext(path) as opened:
            if opened.read(len(_ARCHIVE)) != _ARCHIVE:
                raise ValueError("it is no .npz archive")
            opened.seek(0)
            with _PARSER, np.load(opened, allow_pickle=False) as file:
                unpacked = sum(member.file_size for member in file.zip.infolist())
                if max_bytes is not None and unpacked > max_bytes:
                    raise ValueError(f"{unpacked} bytes unpacked, allowed are {max_bytes}")
                yield file
    except LibraError as error:
        raise type(error)(f"{where}: {error}") from error
    except UNREADABLE as error:
        reason = str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        raise BadInput(f"{where} is not a {what}: {reason}") from error


def require_size(what: str, max_bytes: int, *arrays: NDArray[Any]) -> None:
    """Raise `BadInput` if a file of these arrays is larger than `reading_npz` may read."""
    size = sum(array.nbytes for array in arrays) + _OVERHEAD_BYTES
    if size > max_bytes:
        raise BadInput(f"{what} of {size} bytes: allowed are {max_bytes}; write less at once")


def require_schema(file: NpzFile, version: int) -> None:
    """Raise `BadInput` if the file is of another version of its format."""
    found = whole(file, "schema")
    if found != version:
        raise BadInput(f"schema {found}, this version reads {version}")


def whole(file: NpzFile, name: str) -> int:
    """The integer `name`; `ValueError` if it is something else."""
    array: NDArray[Any] = file[name]
    if array.shape or array.dtype.kind not in "iu":
        raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not an integer")
    return int(array)


def vector(file: NpzFile, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """The one-dimensional array `name`; `ValueError` if it is of another type or shape."""
    array: NDArray[Any] = file[name]
    if array.ndim != 1 or array.dtype != dtype:
        raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not {np.dtype(dtype)}[n]")
    return array
