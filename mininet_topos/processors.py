"""What the machine's processors did while a mode trained, as Linux counts it.

A kernel may lack any of it: pressure (`/proc/pressure/cpu`), how long some task or every one
waited for a processor; what all processors did (`/proc/stat`); and of each thread, how long it ran
and how long it was ready without a processor (`schedstat`).
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVERY_S = 0.5
"""How often is looked, at most: what a process did between the last look and its end is lost."""

_TOTAL = re.compile(r"^(some|full) .*total=([0-9]+)$", re.MULTILINE)
_IDLE, _IOWAIT, _GUESTS = 3, 4, 8  # places in the first line of /proc/stat; guests count twice

Thread = tuple[str, int]
"""A process's name, and a thread of it or of its children."""


@dataclass(frozen=True)
class _Machine:
    """Seconds since the machine started, at a time; empty or None where the kernel counts none."""

    at_s: float
    busy_s: float | None
    pressure_s: Mapping[str, float]


class ProcessorMeter:
    """Counts from when it is made to its last look, of the machine and of some processes.

    `pids` are those processes by name, as they are at a look, with their children.
    """

    def __init__(self, pids: Mapping[str, int], proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._began = self._ended = self._machine()
        self._first = self._last = dict(self._threads(pids))

    def look(self, pids: Mapping[str, int]) -> None:
        """Count again, unless that was done just now."""
        if time.monotonic() - self._ended.at_s >= EVERY_S:
            self._ended = self._machine()
            self._last = {**self._last, **dict(self._threads(pids))}

    def as_fields(self) -> dict[str, Any]:
        """`processors` of a mode in run.json (docs/run-json.md)."""
        began, ended = self._began, self._ended
        busy = None if began.busy_s is None or ended.busy_s is None else ended.busy_s - began.busy_s
        return {
            "count": os.cpu_count(),
            "watched_s": ended.at_s - began.at_s,
            "busy_s": busy,
            "pressure": {
                f"{name}_s": ended.pressure_s[name] - since_s
                for name, since_s in began.pressure_s.items()
                if name in ended.pressure_s
            }
            or None,
            "processes": self._processes() or None,
        }

    def _processes(self) -> dict[str, dict[str, float]]:
        used: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for thread, now in self._last.items():
            for i, since in enumerate(self._first.get(thread, (0.0, 0.0))):
                used[thread[0]][i] += now[i] - since
        return {name: {"busy_s": busy, "waited_s": wait} for name, (busy, wait) in used.items()}

    def _machine(self) -> _Machine:
        now = time.monotonic()
        pressure = {
            name: int(total) / 1e6 for name, total in _TOTAL.findall(self._read("pressure/cpu"))
        }
        return _Machine(now, self._busy_s(), pressure)

    def _busy_s(self) -> float | None:
        """Seconds of all processors that were neither idle nor taken by the hypervisor."""
        name, *ticks = self._read("stat").partition("\n")[0].split() or [""]
        if name != "cpu" or len(ticks) < _GUESTS:
            return None
        idle = int(ticks[_IDLE]) + int(ticks[_IOWAIT])
        return (sum(map(int, ticks[: _GUESTS - 1])) - idle) / os.sysconf("SC_CLK_TCK")

    def _threads(self, pids: Mapping[str, int]) -> Iterator[tuple[Thread, tuple[float, float]]]:
        """Seconds on a processor, and waiting for one, of each thread."""
        children = self._children()
        for name, pid in pids.items():
            family = [pid]
            for member in family:  # grows
                family += children.get(member, [])
            for member in family:
                for task in self._proc.glob(f"{member}/task/*"):
                    counted = self._read(f"{member}/task/{task.name}/schedstat").split()
                    if len(counted) == 3:
                        yield (name, int(task.name)), (int(counted[0]) / 1e9, int(counted[1]) / 1e9)

    def _children(self) -> dict[int, list[int]]:
        """Process → the processes that it started."""
        children: dict[int, list[int]] = defaultdict(list)
        for folder in self._proc.glob("[0-9]*"):
            _, _, after = self._read(f"{folder.name}/stat").rpartition(")")  # a name may have any
            if len(fields := after.split()) > 1:
                children[int(fields[1])].append(int(folder.name))
        return children

    def _read(self, path: str) -> str:
        """A file of /proc; empty where the kernel has none, or the process is gone."""
        with suppress(OSError):
            return (self._proc / path).read_text()
        return ""
