"""Where the published task graphs are, which are not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "LIBRA_TOPOOPT_DATA"


def task_graph(name: str) -> Path:
    """A published task graph in the folder that the environment names, or skip the test."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} does not name a folder with the published task graphs")
    path = Path(folder, f"{name}.json.gz")
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path
