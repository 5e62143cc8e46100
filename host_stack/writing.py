"""Writing files that a job needs: whatever goes wrong is a `CannotWrite`, and names are durable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from host_stack.errors import CannotWrite


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise `CannotWrite` for what the system says against `path` within the block."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(
            f"{path} cannot be written: {error.strerror or error}; make room there, or choose "
            "another folder, and start again"
        ) from error


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a file that is on disk, and wait until its name is there too."""
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
