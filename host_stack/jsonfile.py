"""Reading JSON files that may hold anything: whatever is wrong with one is a `BadInput`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from host_stack.errors import BadInput


def read_json_object(path: Path, what: str) -> dict[str, Any]:
    """The object in a file; `BadInput` says that `path` is not a `what`, and why."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not a {what}: {error}") from error
    if not isinstance(found, dict):
        raise BadInput(f"{path} is not a {what}: it holds no JSON object")
    return found
