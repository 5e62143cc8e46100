"""The lock that P4Runtime's requests take in turns."""

from __future__ import annotations

import threading
import time

import pytest

from softswitch.p4runtime.turns import FairLock

TIMEOUT_S = 20.0


def test_it_is_reentrant() -> None:
    """Its owner may take it again; others only when it was given back as often."""
    lock, seen = FairLock(), []

    def look() -> None:
        seen.append(lock.acquire(blocking=False))

    def elsewhere() -> bool:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(TIMEOUT_S)
        return seen.pop()

    with lock:
        assert lock.acquire(blocking=False)
        lock.release()
        assert not elsewhere()
    assert elsewhere()


def test_a_stranger_cannot_release_it() -> None:
    """Nor can anybody who does not have it."""
    with pytest.raises(RuntimeError, match="does not have it"):
        FairLock().release()


def test_threads_have_it_in_the_order_in_which_they_asked() -> None:
    """Who gives it back and asks again at once comes last."""
    lock, order = FairLock(), []

    def work(name: str) -> None:
        with lock:
            order.append(name)

    with lock:
        threads = []
        for number in range(5):
            thread = threading.Thread(target=work, args=(str(number),))
            thread.start()
            threads.append(thread)
            end = time.monotonic() + TIMEOUT_S
            while lock.waiting <= number and time.monotonic() < end:
                time.sleep(0.001)
    with lock:
        order.append("again")
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert order == ["0", "1", "2", "3", "4", "again"]
