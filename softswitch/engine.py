"""What the parts of the control plane share of a running switch."""

from __future__ import annotations

import threading

from softswitch.batch import Library
from softswitch.errors import SoftSwitchError


class Handle:
    """The compiled switch, its state until it is closed, and the lock that serializes its users."""

    def __init__(self, lib: Library, ctx: int, lock: threading.RLock) -> None:
        self.lib = lib
        self.lock = lock
        self._ctx: int | None = ctx

    @property
    def ctx(self) -> int:
        """The address of the switch's state; raises SoftSwitchError when it is closed."""
        if self._ctx is None:
            raise SoftSwitchError("the data plane is closed")
        return self._ctx

    def close(self) -> None:
        """Let every later use fail."""
        self._ctx = None


class Handles:
    """Small numbers for objects of the C side: freed ones are given out again."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    def take(self) -> int:
        """Return a number that is not in use."""
        if self._free:
            return self._free.pop()
        self._next += 1
        return self._next - 1

    def give_back(self, number: int) -> None:
        """Let a number be taken again."""
        self._free.append(number)
