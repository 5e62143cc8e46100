"""Runs a session module of the tests in a network namespace of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT_S = 240


def observe(module: str, *args: str) -> tuple[Any, str]:
    """What a session prints, one JSON value, and what it logs; its end has to be a good one."""
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-m", f"tests.{module}", *args],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr
