"""A lock that is taken in turns."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import Self


class FairLock:
    """A reentrant lock that threads get in the order in which they asked for it.

    Who releases it and asks again at once comes after those that wait; with the locks of the
    standard library it would mostly get it first.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[tuple[int, threading.Lock]] = deque()
        self._owner: int | None = None
        self._depth = 0

    @property
    def waiting(self) -> int:
        """How many threads wait for it."""
        with self._guard:
            return len(self._waiting)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the lock; return whether this thread has it, always True unless not `blocking`."""
        me = threading.get_ident()
        with self._guard:
            if self._owner in (None, me):
                self._owner = me
                self._depth += 1
                return True
            if not blocking:
                return False
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append((me, turn))
        turn.acquire()  # whoever releases the lock hands it over
        return True

    def release(self) -> None:
        """Give the lock back, or to the thread that has waited longest."""
        with self._guard:
            if self._owner != threading.get_ident():
                raise RuntimeError("a lock is released by a thread that does not have it")
            self._depth -= 1
            if self._depth:
                return
            self._owner = None
            if self._waiting:
                self._owner, turn = self._waiting.popleft()
                self._depth = 1
                turn.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
