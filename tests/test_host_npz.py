"""Reading .npz files from several threads."""

from __future__ import annotations

import io
import threading

import numpy as np

from host_stack.npz import reading_npz, whole


def read(data: bytes, found: list[int]) -> None:
    """Read the schema of a file."""
    with reading_npz(io.BytesIO(data), "file") as file:
        found.append(whole(file, "schema"))


def test_files_are_read_one_after_the_other() -> None:
    """CPython 3.11 fails when two threads have it parse headers of arrays at once."""
    buffer = io.BytesIO()
    np.savez(buffer, schema=7)
    found: list[int] = []
    other = threading.Thread(target=read, args=(buffer.getvalue(), found))
    with reading_npz(io.BytesIO(buffer.getvalue()), "file") as file:
        other.start()
        other.join(0.5)
        assert found == []
        assert whole(file, "schema") == 7
    other.join()
    assert found == [7]
