"""The congestion window and its pace, and what they make of a link that several workers share."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.congestion import (
    BURST,
    DELAY_FLOOR,
    DELAY_GAIN,
    INCREASE,
    INITIAL_WINDOW,
    MIN_WINDOW,
    TARGET_S,
    Congestion,
)
from host_stack.transport import ipv4
from tests.bottleneck import Bottleneck, jain_index
from tests.host_support import Datagram
from tests.test_host_push import SERVER, ack, grads, seq_of

W = 256
RATE_PPS = 8000.0
"""About 20 Mbit/s of GRADs with 32 lanes."""

NOTHING = np.zeros(0)


def rtts(*seconds: float) -> np.ndarray:
    """Measured round-trip times."""
    return np.array(seconds)


def test_slow_start_then_some_packets_a_window() -> None:
    """A packet per ACK below the threshold, a few per window above, never more than W."""
    congestion = Congestion(W)
    congestion.acknowledged(10, rtts(0.001), 0.0)
    assert congestion.window == INITIAL_WINDOW + 10
    congestion.lost(0.0, 1.0)
    window = congestion.window
    congestion.acknowledged(1, rtts(0.001), 1.0)
    assert congestion.window == window + INCREASE / window
    for _ in range(100_000):
        congestion.acknowledged(1, NOTHING, 2.0)
    assert congestion.window == W


def test_a_loss_counts_once_a_window() -> None:
    """Packets that were under way when the window was halved are part of the same loss."""
    congestion = Congestion(W)
    assert congestion.lost(1.0, 2.0)
    assert congestion.window == INITIAL_WINDOW / 2
    assert not congestion.lost(1.9, 2.1)
    assert congestion.window == INITIAL_WINDOW / 2
    assert congestion.lost(2.0, 3.0)
    for at in range(4, 20):
        congestion.lost(at, at)
    assert congestion.window == MIN_WINDOW


def test_queueing_shrinks_the_window() -> None:
    """By as much as it is above the target, at most by half, once a round trip; not at all below.

    A long way is no congestion.
    """
    congestion = Congestion(W)
    congestion.acknowledged(100, rtts(0.8 * TARGET_S), 0.0)
    window = congestion.window
    congestion.acknowledged(1, rtts(TARGET_S), 1.0)
    assert congestion.window == window + 1
    congestion.acknowledged(1, rtts(1.25 * TARGET_S), 2.0)
    expected = (window + 1) * (1 - DELAY_GAIN * 0.2)
    assert congestion.window == pytest.approx(expected)
    congestion.acknowledged(1, rtts(1.25 * TARGET_S), 2.0 + TARGET_S)
    assert congestion.window == pytest.approx(expected)
    for at in range(10, 30):
        congestion.acknowledged(1, rtts(1.0), 10.0 * at)
    assert congestion.window == DELAY_FLOOR
    far = Congestion(W)
    far.acknowledged(1, rtts(5 * TARGET_S), 0.0)
    far.acknowledged(1, rtts(5.5 * TARGET_S), 1.0)
    assert far.window == INITIAL_WINDOW + 2


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    srtt_s=st.floats(1e-4, 1.0),
    gaps_s=st.lists(st.floats(0, 0.1), min_size=1, max_size=200),
    window=st.integers(2, W),
)
def test_the_pace_is_kept(srtt_s: float, gaps_s: list[float], window: int) -> None:
    """Over any time no more goes than the pace allows, and a burst; who waits may go."""
    congestion = Congestion(window)
    rate = congestion.rate_pps(srtt_s)
    burst = max(BURST, rate * 0.001)
    now, sent = 0.0, 0
    for gap_s in gaps_s:
        now += gap_s
        permitted = congestion.permits(srtt_s, now)
        congestion.spend(permitted)
        sent += permitted
        assert sent <= burst + rate * now + 1e-6
        wait_s = congestion.wait_s(srtt_s, 3)
        assert congestion.permits(srtt_s, now + wait_s * 1.0001 + 1e-9) >= min(3, int(burst))
        now += wait_s * 1.0001 + 1e-9


def test_without_an_estimate_nothing_is_held_back() -> None:
    """Before the first round trip there is no pace to keep."""
    congestion = Congestion(W)
    assert math.isinf(congestion.rate_pps(None))
    assert congestion.permits(None, 0.0) >= INITIAL_WINDOW


def acknowledge(packet: bytes) -> Datagram:
    """The ACK of the server."""
    return SERVER, ack(seq_of(packet))


def share(workers: int, queue: int, packets: int, apart_s: float) -> Bottleneck:
    """Let workers push over one link, beginning one after the other."""
    link = Bottleneck(RATE_PPS, 0.001, queue, acknowledge)
    pushes = [(rank * apart_s, grads(packets)) for rank in range(workers)]
    link.run(W, ipv4(SERVER), pushes)
    return link


@pytest.mark.parametrize(
    ("workers", "queue", "apart_s", "packets"),
    [(2, 220, 0.05, 16000), (2, 1000, 0.0, 6000), (8, 220, 0.0, 3000), (8, 1000, 0.05, 4000)],
)
def test_workers_share_a_link_equally(
    workers: int, queue: int, apart_s: float, packets: int
) -> None:
    """Jain's index over the packets while all of them push, whoever began first.

    The link is busy meanwhile for nine tenths of the time.
    """
    link = share(workers, queue, packets, apart_s)
    last = {rank: at for at, (_, rank) in enumerate(link.delivered)}
    first_end = min(last.values())
    settled_s = workers * apart_s + (1.0 if workers == 2 and apart_s else 0.3)
    begun = next(at for at, (when_s, _) in enumerate(link.delivered) if when_s > settled_s)
    counts = Counter(rank for _, rank in link.delivered[begun:first_end])
    assert len(counts) == workers
    assert jain_index(counts.values()) > 0.95
    elapsed_s = link.delivered[first_end][0] - link.delivered[begun][0]
    assert (first_end - begun) / (RATE_PPS * elapsed_s) > 0.9


def test_a_deep_queue_is_not_filled() -> None:
    """The response to queueing keeps it near its target; nothing is lost."""
    link = share(4, 10_000, 2500, 0.0)
    assert link.dropped == 0
    assert link.longest < 4 * W / 2


def test_jain() -> None:
    """1 for equals, 1/n where one has all."""
    assert jain_index([5, 5, 5]) == 1
    assert jain_index([9, 0, 0]) == pytest.approx(1 / 3)
