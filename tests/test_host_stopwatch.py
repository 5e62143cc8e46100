"""Phases of a thread: what passed, what it worked, and what it waited for a processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from host_stack import stopwatch
from host_stack.stopwatch import SCHEDSTAT, Phases, Stopwatch


def spin(seconds: float) -> None:
    """Be on a processor for so long, however long that takes."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@contextmanager
def a_rival() -> Iterator[None]:
    """Share one processor with a process that always wants it."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    rival = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        rival.kill()
        rival.wait()
        os.sched_setaffinity(0, allowed)


@pytest.mark.skipif(
    not Path(SCHEDSTAT).exists(), reason="this kernel does not count what threads wait"
)
def test_work_waiting_and_sleep_are_told_apart():
    """Who sleeps does not wait; who shares a processor does, beside its work."""
    phases = Phases()
    with a_rival(), Stopwatch() as watch:
        time.sleep(0.05)
        watch.lap(phases, "sleep")
        spin(0.25)
        watch.lap(phases, "work")
    assert phases.elapsed_s["sleep"] >= 0.05
    assert phases.busy_s["sleep"] < 0.05
    assert phases.busy_s["work"] >= 0.25
    assert phases.waited_s["work"] > 0
    # The kernel counts a wait as it ends, so that a little of one may belong to the next phase.
    assert phases.elapsed_s["work"] > 0.9 * (phases.busy_s["work"] + phases.waited_s["work"])


def test_a_phase_that_comes_twice_has_the_sum():
    """Also where phases of another time are added."""
    phases = Phases({"a": 1.0, "b": 2.0}, {"a": 0.5})
    phases.add(Phases({"a": 0.25}, {"a": 0.125, "b": 1.0}, {"b": 4.0}))
    assert phases == Phases({"a": 1.25, "b": 2.0}, {"a": 0.625, "b": 1.0}, {"b": 4.0})


def test_without_the_kernels_counter_waiting_is_unknown(monkeypatch: pytest.MonkeyPatch):
    """What passed and what was work are there all the same."""
    monkeypatch.setattr(stopwatch, "SCHEDSTAT", "/proc/none")
    phases = Phases()
    with Stopwatch() as watch:
        spin(0.001)
        watch.lap(phases, "work")
    assert phases.busy_s["work"] >= 0.001
    assert phases.waited_s == {}
