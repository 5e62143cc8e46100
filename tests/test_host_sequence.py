"""The server's duplicate check."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.sequence import SequenceWindow

WINDOW = 8


def offer(window: SequenceWindow, packets: list[tuple[int, int, int]]) -> list[bool]:
    """Check and mark a batch of (worker, epoch, seq), as the server does."""
    fields = np.array(packets, np.int64).reshape(-1, 3)
    workers, epochs, seqs = fields[:, 0], fields[:, 1], fields[:, 2]
    new = window.is_new(workers, epochs, seqs)
    window.mark(workers[new], epochs[new], seqs[new])
    return new.tolist()


def test_each_packet_is_new_once() -> None:
    """A second copy is not new, whether it comes later or in the same batch."""
    window = SequenceWindow(2, WINDOW)
    assert offer(window, [(0, 1, 1), (0, 1, 2), (0, 1, 1)]) == [True, True, False]
    assert offer(window, [(0, 1, 2), (0, 1, 3)]) == [False, True]


def test_sequence_zero_is_new_in_a_fresh_window() -> None:
    """Seq 0 is what an empty slot holds; the epoch tells them apart."""
    window = SequenceWindow(1, WINDOW)
    assert offer(window, [(0, 1, 0)]) == [True]
    assert offer(window, [(0, 1, 0)]) == [False]


def test_workers_do_not_share_slots() -> None:
    """The same seq of two workers in one batch is two packets."""
    window = SequenceWindow(3, WINDOW)
    assert offer(window, [(0, 1, 5), (2, 1, 5), (1, 1, 5)]) == [True, True, True]


def test_a_slot_takes_the_next_turn_and_refuses_the_last() -> None:
    """Seq + W replaces seq, which is a duplicate from then on."""
    window = SequenceWindow(1, WINDOW)
    assert offer(window, [(0, 1, 3)]) == [True]
    assert offer(window, [(0, 1, 3 + WINDOW)]) == [True]
    assert offer(window, [(0, 1, 3)]) == [False]
    assert offer(window, [(0, 1, 3 + WINDOW)]) == [False]


@pytest.mark.parametrize("epoch", [2, 4095])
def test_a_new_epoch_forgets(epoch: int) -> None:
    """An epoch of its own counts every seq again, also lower ones."""
    window = SequenceWindow(1, WINDOW)
    assert offer(window, [(0, 1, 1000)]) == [True]
    assert offer(window, [(0, epoch, 1000 - 2 * WINDOW), (0, epoch, 1000 - WINDOW)])[0]
    assert offer(window, [(0, epoch, 1000)]) == [True]
    assert offer(window, [(0, epoch, 1000)]) == [False]


def test_serial_arithmetic_across_the_wrap() -> None:
    """Seq 2^32 - 1 is older than 0, in whose slot the previous turn is refused."""
    window = SequenceWindow(1, WINDOW)
    last_turn = [(0, 1, 2**32 - WINDOW + i) for i in range(WINDOW)]
    assert all(offer(window, last_turn))
    first_turn = [(0, 1, i) for i in range(WINDOW)]
    assert all(offer(window, first_turn))
    assert not any(offer(window, last_turn))
    assert not any(offer(window, first_turn))


def test_half_the_numbers_are_older() -> None:
    """A distance of 2^31 and more is the past."""
    window = SequenceWindow(1, WINDOW)
    assert offer(window, [(0, 1, 0)]) == [True]
    assert offer(window, [(0, 1, 1 << 31)]) == [False]
    assert offer(window, [(0, 1, (1 << 31) - WINDOW)]) == [True]


def test_an_empty_batch() -> None:
    """Nothing is new in nothing."""
    assert offer(SequenceWindow(1, WINDOW), []) == []


@settings(max_examples=100, derandomize=True, deadline=None)
@given(data=st.data(), start=st.sampled_from([1, 1000, 2**32 - 20, 2**31 - 20]))
def test_any_delivery_within_the_window_counts_once(data: st.DataObject, start: int) -> None:
    """Whatever is repeated and reordered: a sender that keeps its window is counted once."""
    window = SequenceWindow(1, WINDOW)
    counted: dict[int, int] = {}
    acked_below, total = 0, 40
    while acked_below < total:
        edge = min(total, acked_below + WINDOW)
        # Old packets may still arrive, up to a turn late; none beyond the window is sent.
        batch = data.draw(
            st.lists(st.integers(max(0, acked_below - WINDOW), edge - 1), min_size=1, max_size=12)
        )
        batch = [i for i in batch if i >= acked_below or i in counted]
        new = offer(window, [(0, 1, (start + i) % 2**32) for i in batch])
        for i, fresh in zip(batch, new, strict=True):
            counted[i] = counted.get(i, 0) + fresh
        if acked_below not in counted:
            assert offer(window, [(0, 1, (start + acked_below) % 2**32)]) == [True]
            counted[acked_below] = 1
        while acked_below in counted:
            acked_below += 1
    assert counted == dict.fromkeys(range(total), 1)
