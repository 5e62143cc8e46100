"""Whether keys increase: as floats where that shows it, and by several threads."""

import os
import threading
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_stack.kv import ascending
from host_stack.kv.ascending import is_increasing

LIMIT_S = 30
EDGES = [0, 1 << 52, 0x7FF0 << 48, 1 << 63, 0xFFF0 << 48, (1 << 64) - 1]
NEAR_EDGES = st.builds(
    lambda edge, offset: min(max(edge + offset, 0), (1 << 64) - 1),
    st.sampled_from(EDGES),
    st.integers(-4, 4),
)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short arrays take the way of long ones: blocks of 3, and helpers from 6 on."""
    monkeypatch.setattr(ascending, "BLOCK", 3)
    monkeypatch.setattr(ascending, "PARALLEL_FROM", 6)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    monkeypatch.setattr(ascending, "_HELPERS", ascending._Helpers())


@pytest.mark.usefixtures("small_blocks")
def test_is_increasing_compares_all_of_64_bits() -> None:
    """At the edges of the floats too the answer is that of the integers."""

    @given(st.lists(NEAR_EDGES | st.integers(0, (1 << 64) - 1), max_size=24), st.integers(0, 3))
    def check(numbers: list[int], swaps: int) -> None:
        numbers = sorted(set(numbers))
        for place in range(min(swaps, len(numbers) - 1)):
            other = (place * 7 + 3) % len(numbers)
            numbers[place], numbers[other] = numbers[other], numbers[place]
        expected = all(a < b for a, b in pairwise(numbers))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert is_increasing(np.array(numbers, np.uint64)) == expected

    check()


@pytest.mark.usefixtures("small_blocks")
def test_is_increasing_finds_each_pair_that_does_not() -> None:
    """Wherever two neighbours are equal or change places, it is noticed."""
    step = ((1 << 64) - 1) // 40
    keys = np.arange(40, dtype=np.uint64) * np.uint64(step)
    assert is_increasing(keys)
    assert ascending._increase_as_floats(keys)
    for place in range(39):
        equal, exchanged = keys.copy(), keys.copy()
        equal[place] = keys[place + 1]
        exchanged[[place, place + 1]] = keys[[place + 1, place]]
        assert not is_increasing(equal), place
        assert not is_increasing(exchanged), place


@pytest.mark.usefixtures("small_blocks")
def test_is_increasing_of_every_second_key_and_of_none() -> None:
    """Keys need not lie beside each other in memory."""
    keys = np.arange(40, dtype=np.uint64)
    assert is_increasing(keys[::2])
    assert not is_increasing(keys[::-1])
    assert is_increasing(keys[:0])


def test_floats_show_it_of_keys_of_all_sizes() -> None:
    """Keys over all 64 bits, small ones (subnormal floats) and large arrays need no second look."""
    for step in (1, 1 << 20, ((1 << 64) - 1) // ascending.PARALLEL_FROM):
        keys = np.arange(ascending.PARALLEL_FROM, dtype=np.uint64) * np.uint64(step)
        assert ascending._increase_as_floats(keys)
        keys[-1] = keys[-2]
        assert not ascending._increase_as_floats(keys)


class Entered:
    """A lock that lets a helper go on when somebody waits for it."""

    def __init__(self, lock: threading.Lock, go_on: threading.Event) -> None:
        self._lock, self._go_on = lock, go_on

    def __enter__(self) -> None:
        self._go_on.set()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


@pytest.mark.usefixtures("small_blocks")
def test_what_a_helper_has_taken_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper that is slower than the caller has its block counted all the same."""
    inside, go_on = threading.Event(), threading.Event()
    blocks, call = ascending._blocks, ascending._Helpers.call

    def slow(numbers: Any, others: Any, out: Any) -> Any:
        if threading.current_thread().name == "kv keys":
            inside.set()
            assert go_on.wait(LIMIT_S)
        else:
            assert inside.wait(LIMIT_S)
        return np.less(numbers, others, out=out)

    def slowly(before: np.ufunc, numbers: Any) -> Iterator[Any]:
        return ((slow, *rest) for _, *rest in blocks(before, numbers))

    def watched(self: ascending._Helpers, comparison: ascending._Comparison) -> list[Entered]:
        return [Entered(lock, go_on) for lock in call(self, comparison)]

    monkeypatch.setattr(ascending, "_blocks", slowly)
    monkeypatch.setattr(ascending._Helpers, "call", watched)
    assert ascending._increase_as_floats(np.arange(40, dtype=np.uint64))
    assert go_on.is_set()


@pytest.mark.usefixtures("small_blocks")
def test_a_helper_that_fails_leaves_its_blocks_unshown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody has compared is compared again, and not taken for good."""
    keys = np.arange(40, dtype=np.uint64)
    monkeypatch.setattr(ascending._Comparison, "work", lambda self: next(self._left, None))
    assert not ascending._increase_as_floats(keys)
    assert is_increasing(keys)
    keys[20] = 0
    assert not is_increasing(keys)


@pytest.mark.usefixtures("small_blocks")
def test_without_threads_the_caller_compares_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system gives none, nothing is left in a queue for them."""

    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    assert ascending._increase_as_floats(np.arange(40, dtype=np.uint64))
    assert ascending._HELPERS._work.empty()


def test_a_forked_process_has_helpers_of_its_own() -> None:
    """After a fork there are no threads to wait for, and new ones are started."""
    keys = np.arange(ascending.PARALLEL_FROM, dtype=np.uint64)
    assert is_increasing(keys)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on: of threads and fork
        child = os.fork()
    if child == 0:
        found = False
        try:
            found = is_increasing(keys) and not is_increasing(keys[::-1])
        finally:
            os._exit(0 if found else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
