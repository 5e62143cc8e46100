"""Idle timeouts: which entries have not been hit for as long as controllers allow.

Each hit of a packet writes the time into its entry, nothing else. Here a heap holds when each entry
may be idle at the earliest; only then is it looked at, together with all that are due.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from dataclasses import dataclass

from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.p4runtime.schema_types import TableInfo

MIN_TIMEOUT_US = 10_000
"""Shorter timeouts count as this long."""

MAX_LOOKED_AT = 2048
"""Entries that one poll looks at: the data plane's lock is held as long as that takes."""

Key = tuple[int, int]
"""Id of a table, and index of the entry's direct resources."""


@dataclass(frozen=True)
class _Watched:
    """An entry with a timeout; `since_us` is when it was written, or last reported."""

    serial: int
    table: str
    timeout_us: int
    since_us: int
    message: p4r.TableEntry


class IdleTimeouts:
    """The entries of one pipeline that have an idle timeout. Thread-safe."""

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane
        self._lock = threading.Lock()
        self._watched: dict[Key, _Watched] = {}
        self._due: list[tuple[int, int, Key]] = []
        self._serial = itertools.count()

    def watch(self, table: TableInfo, index: int, message: p4r.TableEntry) -> None:
        """Watch an entry, from now on; `message` is what a notification says of it."""
        timeout_us = max(-(-message.idle_timeout_ns // 1000), MIN_TIMEOUT_US)
        with self._lock:
            self._add((table.id, index), table.name, timeout_us, message)
        self._dataplane.digests.wake()

    def forget(self, table: TableInfo, index: int) -> None:
        """Watch an entry no more."""
        with self._lock:
            self._watched.pop((table.id, index), None)

    def poll(self) -> tuple[list[p4r.TableEntry], int | None]:
        """Return the entries that are idle, and in how many us the next may be (None: never).

        An entry that is returned is watched again from now on.
        """
        with self._lock:
            now_us = self._dataplane.clock_us()
            looked_at = self._take_due(now_us)
            hits_us = self._last_hits_us(looked_at)
            idle: list[p4r.TableEntry] = []
            for key, item in looked_at:
                last_us = max(hits_us[key], item.since_us)
                if now_us - last_us >= item.timeout_us:
                    idle.append(item.message)
                    self._add(key, item.table, item.timeout_us, item.message)
                else:
                    heapq.heappush(self._due, (last_us + item.timeout_us, item.serial, key))
            left_us = max(self._due[0][0] - now_us, 0) if self._due else None
        return idle, left_us

    def _add(self, key: Key, table: str, timeout_us: int, message: p4r.TableEntry) -> None:
        now_us, serial = self._dataplane.clock_us(), next(self._serial)
        self._watched[key] = _Watched(serial, table, timeout_us, now_us, message)
        heapq.heappush(self._due, (now_us + timeout_us, serial, key))

    def _take_due(self, now_us: int) -> list[tuple[Key, _Watched]]:
        """Take entries that may be idle off the heap."""
        result: list[tuple[Key, _Watched]] = []
        while self._due and self._due[0][0] <= now_us and len(result) < MAX_LOOKED_AT:
            _, serial, key = heapq.heappop(self._due)
            item = self._watched.get(key)
            if item is not None and item.serial == serial:  # else deleted or written anew
                result.append((key, item))
        return result

    def _last_hits_us(self, items: list[tuple[Key, _Watched]]) -> dict[Key, int]:
        """Return when entries were hit last: one call per table."""
        by_table: dict[str, list[Key]] = {}
        for key, item in items:
            by_table.setdefault(item.table, []).append(key)
        result: dict[Key, int] = {}
        for table, keys in by_table.items():
            times = self._dataplane.last_hits_us(table, [index for _, index in keys])
            result.update(zip(keys, times, strict=True))
        return result
