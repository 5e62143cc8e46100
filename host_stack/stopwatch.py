"""Phases of a thread: how long each took, and what the thread did meanwhile.

A thread is on a processor, or it is ready and waits for one, or it sleeps until something comes
from others. The wait tells a machine with too few processors from a network that is slow; Linux
counts it for each thread (`/proc/thread-self/schedstat`, in kernels with scheduler statistics).
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

SCHEDSTAT = "/proc/thread-self/schedstat"


@dataclass
class Phases:
    """Seconds by phase; one that was entered several times has the sum.

    Attributes:
        elapsed_s: that passed.
        busy_s: of them on a processor.
        waited_s: of them ready, but waiting for a processor; empty where the kernel counts none.
    """

    elapsed_s: dict[str, float] = field(default_factory=dict)
    busy_s: dict[str, float] = field(default_factory=dict)
    waited_s: dict[str, float] = field(default_factory=dict)

    def add(self, other: Phases) -> None:
        """Add phases of another time."""
        for mine, its in (
            (self.elapsed_s, other.elapsed_s),
            (self.busy_s, other.busy_s),
            (self.waited_s, other.waited_s),
        ):
            for phase, seconds in its.items():
                mine[phase] = mine.get(phase, 0.0) + seconds


@dataclass
class RoundTimes:
    """Seconds of a step's phases at one worker, and how its keys travelled.

    Attributes:
        phases: `push`, until every gradient is acknowledged; `commit`, until the server lets the
            worker go on, under BSP until the commit; `update`, until the parameters of the next
            step are here.
        hot_keys, cold_keys, packets: of this push.
        fetched_rows: rows whose UPDATE was missed.
        replays: how often steps were pushed again in another epoch.
    """

    phases: Phases = field(default_factory=Phases)
    hot_keys: int = 0
    cold_keys: int = 0
    packets: int = 0
    fetched_rows: int = 0
    replays: int = 0


class Stopwatch:
    """Times the phases of the thread that makes it, one after the other; use it as a context."""

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        self._last = self._now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)

    def lap(self, phases: Phases, name: str) -> None:
        """End a phase and add it to `phases`; the next one begins."""
        before, self._last = self._last, self._now()
        elapsed_s, busy_s, waited_s = (
            (now - then) / 1e9 for then, now in zip(before, self._last, strict=True)
        )
        waits = {} if self._file is None else {name: waited_s}
        phases.add(Phases({name: elapsed_s}, {name: busy_s}, waits))

    def _now(self) -> tuple[int, int, int]:
        """Nanoseconds: of the clock, on a processor, waiting for one."""
        waited = 0
        if self._file is not None:
            _, text, _ = os.pread(self._file, 80, 0).split()
            waited = int(text)
        return time.monotonic_ns(), time.thread_time_ns(), waited
