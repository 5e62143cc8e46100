"""Memory of large messages is kept for the next ones."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, threading
from host_stack.kv.memory import keep_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def blocks():
    for megabytes in (80, 40, 20) * 5:
        bytearray(megabytes << 20)

if sys.argv[1] == "keep":
    assert keep_memory()
blocks()
thread = threading.Thread(target=blocks)
before = faults()
thread.start()
thread.join()
print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="malloc is not glibc's")
def test_blocks_take_new_pages_only_once() -> None:
    """Seven hundred megabytes, in a thread of its own, are of the pages of those before."""
    kept, given_back = (
        int(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, how], capture_output=True, check=True
            ).stdout
        )
        for how in ("keep", "give back")
    )
    pages = (80 + 40 + 20) * 5 * 256
    assert kept < pages / 100
    assert given_back > pages / 20
