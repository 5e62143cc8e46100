"""Resident memory of a tree of processes over time, and how fast it grows."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LEAST_LIFE_S = 30.0
"""Of shorter lives no growth is told: a process needs some time to load what it needs."""

SETTLE_SHARE = 0.5
"""The beginning of a life that is left out of its growth: what is needed is loaded then."""

RoleOf = Callable[[list[str]], str | None]


@dataclass(frozen=True)
class Growth:
    """Memory of the processes of one role.

    Attributes:
        lives: processes seen.
        peak_bytes: the most that one of them held.
        early_peak_bytes: the same of the first half of the lives: what grows from life to life, as
            state on disk may, shows in the difference.
        slope_bytes_per_min: of the longest life's second half, by least squares; None if it was
            too short.
        longest_s: that life.
    """

    lives: int
    peak_bytes: int
    slope_bytes_per_min: float | None
    longest_s: float
    early_peak_bytes: int

    @property
    def late_bytes(self) -> float:
        """What was grown over the second half of the longest life; 0 if it was too short."""
        late_s = (1 - SETTLE_SHARE) * self.longest_s
        return (self.slope_bytes_per_min or 0.0) * late_s / 60


class MemorySampler:
    """Samples the descendants of a process every few seconds, in a thread, while the block runs."""

    def __init__(self, root: int, role_of: RoleOf, every_s: float = 2.0) -> None:
        """Of process `root`; `role_of` is given a command line, None leaves a process out."""
        self._root = root
        self._role_of = role_of
        self._every_s = every_s
        self._lives: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def growth(self) -> dict[str, Growth]:
        """What was seen, by role."""
        by_role: dict[str, list[list[tuple[float, int]]]] = defaultdict(list)
        for (role, _pid), samples in sorted(list(self._lives.items())):
            by_role[role].append(samples)
        return {role: growth_of(lives) for role, lives in by_role.items()}

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            now = time.monotonic()
            for pid in descendants(self._root):
                try:
                    argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                except (OSError, ValueError, IndexError):
                    continue  # it has just ended
                role = self._role_of(argv)
                if role is not None and pages:
                    self._lives[role, pid].append((now, pages * _PAGE_BYTES))


def growth_of(lives: list[list[tuple[float, int]]]) -> Growth:
    """Sum up lives, each a list of (seconds, bytes), in any order."""
    longest = max(lives, key=lambda samples: samples[-1][0] - samples[0][0])
    times = np.array([at for at, _ in longest])
    held = np.array([size for _, size in longest], np.float64)
    life_s = float(times[-1] - times[0])
    slope = None
    if life_s >= LEAST_LIFE_S:
        settled = times >= times[0] + SETTLE_SHARE * life_s
        slope = 60.0 * float(np.polyfit(times[settled] - times[0], held[settled], 1)[0])
    peaks = [max(size for _, size in samples) for samples in sorted(lives)]
    early = max(peaks[: (len(peaks) + 1) // 2])
    return Growth(len(lives), max(peaks), slope, life_s, early)


def descendants(root: int) -> Iterator[int]:
    """The processes below `root`, itself too, whatever namespaces they are in."""
    yield root
    try:
        tasks = list(Path(f"/proc/{root}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from descendants(int(child))
