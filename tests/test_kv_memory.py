"""Memory of large messages is kept for the next ones."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
import sys
from pathlib import Path

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

HUGE_PROGRAM = """
from pathlib import Path
from host_stack.kv.memory import KeptHeap, keep_memory

def huge_kib():
    lines = Path("/proc/self/smaps").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))

assert keep_memory()
heap = KeptHeap()
before = huge_kib()
block = bytearray(40 << 20)  # written, in whatever pages there are
heap.use_huge_pages()
print(huge_kib() - before)
heap.use_huge_pages()
"""
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def kernel() -> tuple[int, ...]:
    """The first two numbers of its version."""
    return tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])


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


@pytest.mark.skipif(
    not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text(), reason="no huge pages"
)
@pytest.mark.skipif(kernel() < (6, 1), reason="this kernel collapses no pages when asked")
def test_a_heap_that_has_grown_is_of_huge_pages() -> None:
    """Also what was written before they were asked for."""
    done = subprocess.run(
        [sys.executable, "-c", HUGE_PROGRAM], capture_output=True, check=True, text=True
    )
    assert int(done.stdout) > 30 << 10
