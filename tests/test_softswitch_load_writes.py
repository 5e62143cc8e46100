"""Table writes under load: no packet is lost, and each sees a write as a whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.root
@pytest.mark.compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for raw sockets and namespaces")
@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("ip"), reason="needs iproute2")
def test_writes_are_atomic_for_packets_and_lose_none() -> None:
    """Single writes, atomic batches, and growth of a table while packets pass without a pause."""
    result = subprocess.run(
        ["unshare", "-n", sys.executable, "-m", "tests.softswitch_load_session"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "none_lost": True,
        "batches_whole": True,
        "entries_whole": True,
        "never_back": True,
        "drops": {},
        "written": True,
    }
