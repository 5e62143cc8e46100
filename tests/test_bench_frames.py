"""Frames of the benchmarks: checksums, and that each is new."""

from __future__ import annotations

import numpy as np
import pytest

from bench.frames import ACK_BYTES, PAYLOAD_AT, SEQ_AT, datagrams, fold, grads, renumber, sum16
from host_stack.codec import Codec
from host_stack.layout import Layout

LAYOUT = Layout(lanes=32, rows=8192, window=256, program=1)


def udp_sums(frames: np.ndarray) -> np.ndarray:
    """One's complement sums of pseudo header and datagram: 0xffff when the checksum is right."""
    even = np.pad(frames[:, 34:], ((0, 0), (0, frames.shape[1] % 2)))
    return fold(sum16(frames[:, 26:34]) + 17 + frames.shape[1] - 34 + sum16(even))


def some_grads(count: int = 20, lanes: int | None = None) -> np.ndarray:
    """GRADs of one worker."""
    return grads(
        LAYOUT,
        count,
        job=1,
        epoch=1,
        rank=0,
        source="10.0.0.2",
        server="10.0.0.1",
        rows=64,
        lanes=lanes,
    )


@pytest.mark.parametrize("size", [0, 1, 22, 1001])
def test_datagrams_have_right_checksums(size: int) -> None:
    """Of IPv4 and of UDP, for payloads of any length."""
    payloads = np.random.default_rng(1).integers(0, 256, (5, size)).astype(np.uint8)
    frames = datagrams(payloads, "10.0.0.2", "10.0.0.1")
    assert frames.shape == (5, 42 + size)
    assert (fold(sum16(frames[:, 14:34])) == 0xFFFF).all()
    assert (udp_sums(frames) == 0xFFFF).all()
    assert np.array_equal(frames[:, PAYLOAD_AT:], payloads)


def test_grads_use_the_first_lanes() -> None:
    """A record of the codec behind the headers, with as many lanes as were asked for."""
    frames = some_grads(lanes=5)
    records = np.ascontiguousarray(frames[:, PAYLOAD_AT:]).view(Codec(LAYOUT).grad)[:, 0]
    assert (records["used"] == 0b11111).all()
    assert (records["header"]["seq"] == np.arange(1, 21)).all()
    assert ACK_BYTES == 58


def test_renumbered_grads_are_new_and_whole() -> None:
    """Numbers go on, checksums follow, nothing else changes."""
    frames = some_grads(300)
    before = frames.copy()
    for first in (301, 2**16 - 10, 2**31, 2**32 - 300):
        renumber(frames, first)
        seq = frames[:, SEQ_AT : SEQ_AT + 4].copy().view(">u4")[:, 0]
        assert np.array_equal(seq, np.arange(first, first + 300))
        assert (udp_sums(frames) == 0xFFFF).all()
    changed = (frames != before).any(axis=0)
    assert set(np.flatnonzero(changed)) <= {40, 41, 54, 55, 56, 57}
