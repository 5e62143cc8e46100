"""Table writes under load: no packet is lost, and each sees a write as a whole or not at all."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.in_namespace import observe


@pytest.mark.root
@pytest.mark.compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for raw sockets and namespaces")
@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("ip"), reason="needs iproute2")
def test_writes_are_atomic_for_packets_and_lose_none() -> None:
    """Single writes, atomic batches, and growth of a table while packets pass without a pause."""
    seen, _ = observe("softswitch_load_session")
    assert seen == {
        "none_lost": True,
        "batches_whole": True,
        "entries_whole": True,
        "never_back": True,
        "drops": {},
        "written": True,
    }
