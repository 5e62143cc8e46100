"""Reading JSON files that may hold anything: whatever is wrong with one is a `BadInput`."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from host_stack.errors import BadInput

MAX_JSON_BYTES = 256 << 20
"""Of a file: far above what the record of a long run takes."""


def read_json_object(path: Path, what: str) -> dict[str, Any]:
    """The object in a regular file of at most `MAX_JSON_BYTES`.

    `BadInput` says that `path` is not a `what`, and why: devices and pipes, which may never end,
    are not read.
    """
    try:
        text = read_regular(path, MAX_JSON_BYTES)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is not a {what}: {error}") from error
    return parse_json_object(text, what, path)


def parse_json_object(text: str | bytes, what: str, where: object) -> dict[str, Any]:
    """The object that a text is; `BadInput` says that `where` is not a `what`, and why."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not a {what}: {error}") from error
    if not isinstance(found, dict):
        raise BadInput(f"{where} is not a {what}: it holds no JSON object")
    return found


def read_regular(path: Path, most_bytes: int) -> bytes:
    """What a regular file holds; `OSError`, or `ValueError` for any other file and longer ones."""
    with open(path, "rb", opener=_open_regular) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"it has more than {most_bytes >> 20} MiB")
    return data


def _open_regular(path: str, flags: int) -> int:
    """A descriptor; without O_NONBLOCK a pipe that nobody writes to would be waited for."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is no regular file")
    return os.open(path, flags | os.O_NONBLOCK)
