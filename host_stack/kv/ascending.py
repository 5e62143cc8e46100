"""Whether keys are sorted and unique, which both ends have to find out of each new array.

After the copies nothing that is done to a large array takes longer, so that it is done by the
fastest comparison that numpy has, and by several cores.
"""

import os
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_stack.kv.message import KeyArray

BLOCK = 1 << 17
"""Keys that are compared at a time: few calls, with answers that stay in the cache."""

PARALLEL_FROM = 1 << 19
"""From so many keys on, it is worth waking other threads."""

MAX_HELPERS = 3

_NAN = 0x7FF0 << 48
_NEGATIVE_NAN = 0xFFF0 << 48
_EDGES = np.array([_NAN, 1 << 63, _NEGATIVE_NAN], np.uint64)

_Pairs = tuple[np.ufunc, NDArray[Any], NDArray[Any]]


def is_increasing(keys: KeyArray) -> bool:
    """Whether keys (uint64, one dimension) are sorted and unique."""
    if keys.size > BLOCK and _increase_as_floats(keys):
        return True
    return bool(np.all(keys[1:] > keys[:-1]))


def _increase_as_floats(keys: KeyArray) -> bool:
    """Whether the float64 numbers of the same bits show that keys increase, where they are some.

    With AVX-512, numpy compares those in two thirds of the time of integers. They have the order
    of the keys below `_NAN`, and the reverse order from 2^63, the first negative one, to
    `_NEGATIVE_NAN`. If the first of such a part has its sign, and each is before the next, all have
    that sign. What is between and behind these parts is compared as it is.
    """
    signed, floats = keys.view(np.int64), keys.view(np.float64)
    nan, negative, negative_nan = np.searchsorted(keys, _EDGES).tolist()
    if not nan <= negative <= negative_nan:
        return False
    if (nan and signed[0] < 0) or (negative < negative_nan and signed[negative] >= 0):
        return False
    comparison = _Comparison(
        [
            *_blocks(np.less, floats[:nan]),
            *_blocks(np.less, keys[max(nan - 1, 0) : negative + 1]),
            *_blocks(np.greater, floats[negative:negative_nan]),
            *_blocks(np.less, keys[max(negative_nan - 1, 0) :]),
        ]
    )
    at_work = _HELPERS.call(comparison) if keys.size >= PARALLEL_FROM else []
    comparison.work()
    for helper in at_work:
        with helper:  # has finished what it took, or will find nothing
            pass
    return comparison.holds


def _blocks(before: np.ufunc, numbers: NDArray[Any]) -> Iterator[_Pairs]:
    """What is to be compared by `before`: each number with the next, in blocks."""
    for begin in range(0, numbers.size - 1, BLOCK):
        end = min(begin + BLOCK, numbers.size - 1)
        yield before, numbers[begin:end], numbers[begin + 1 : end + 1]


class _Comparison:
    """Blocks of which several threads each take the next; it holds if all were found to hold."""

    def __init__(self, pairs: list[_Pairs]) -> None:
        self._count = len(pairs)
        self._left = iter(pairs)  # a list's: no two threads get the same
        self._held: list[bool] = []
        self._fails = False

    def work(self) -> None:
        """Compare blocks until none is left, or one does not hold."""
        answers = np.empty(BLOCK, np.bool_)
        for before, numbers, others in self._left:
            if self._fails:
                return
            held = before(numbers, others, out=answers[: numbers.size])
            if not held.all():
                self._fails = True
                return
            self._held.append(True)

    @property
    def holds(self) -> bool:
        return len(self._held) == self._count


class _Helpers:
    """Threads that help with comparisons, started with the first one. numpy lets them run."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Have no threads, as a process that was forked."""
        self._lock = threading.Lock()
        self._count: int | None = None
        self._work: SimpleQueue[tuple[_Comparison, threading.Lock]] = SimpleQueue()

    def call(self, comparison: _Comparison) -> list[threading.Lock]:
        """Let each thread help when it can; it holds one of the locks meanwhile."""
        with self._lock:
            if self._count is None:
                self._count = self._start(min(len(os.sched_getaffinity(0)) - 1, MAX_HELPERS))
        locks = [threading.Lock() for _ in range(self._count)]
        for lock in locks:
            self._work.put((comparison, lock))
        return locks

    def _start(self, wanted: int) -> int:
        """Start threads; how many of them there are."""
        for started in range(wanted):
            try:
                threading.Thread(target=self._help, name="kv keys", daemon=True).start()
            except RuntimeError:  # the system gives no more
                return started
        return wanted

    def _help(self) -> None:
        work = self._work
        while True:
            comparison, lock = work.get()
            with lock:
                comparison.work()
            del comparison  # and the arrays with it


_HELPERS = _Helpers()
os.register_at_fork(after_in_child=_HELPERS.forget)
