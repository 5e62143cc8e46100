"""The numpy codec against the Scapy layers, byte for byte."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.packet import Raw

from host_stack import codec as codec_module
from host_stack import packets as layers
from host_stack.codec import HEADER, Codec, fill_header, overlay
from host_stack.layout import Layout
from host_stack.wire import DrainFormat, Op

LAYOUT = Layout(lanes=32, rows=8192, window=256, program=1)
CODEC = Codec(LAYOUT)
HEADER_FIELDS = {"job": 7, "worker": 3, "epoch": 5, "round": 9}
TAG = 5 << 20 | 9


def header(op: Op, seq: int = 0) -> layers.Libra:
    """The Scapy header that `fill_header` writes for the same values."""
    return layers.Libra(op=op, seq=seq, **HEADER_FIELDS)


def cells(seed: int, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """A random bitmap and random float32 bit patterns, NaN and Inf among them."""
    rng = np.random.default_rng(seed)
    mask = rng.random(lanes) < rng.random()
    bits = rng.integers(0, 1 << 32, lanes, dtype=np.uint32)
    # Signalling NaNs do not survive Python's floats, which Scapy's layers go through.
    bits[(bits & 0x7F800000 == 0x7F800000) & (bits & 0x7FFFFF != 0)] |= 0x400000
    return mask, bits.view(np.float32)


def bitmap(mask: np.ndarray) -> int:
    """Lane i is bit i."""
    return sum(1 << int(i) for i in np.flatnonzero(mask))


@pytest.mark.parametrize("lanes", [32, 64])
@settings(max_examples=40, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_grad_equals_scapy(lanes: int, seed: int) -> None:
    """A GRAD has the same bytes in both."""
    layout = Layout(lanes=lanes, rows=8192, window=256, program=1)
    codec = Codec(layout)
    mask, values = cells(seed, lanes)
    rows = np.random.default_rng(seed).integers(0, layout.rows, lanes)
    index = np.flatnonzero(mask)
    batch = codec.encode_grads(np.zeros(len(index), np.intp), index, rows[index], values[index], 1)
    fill_header(batch["header"], Op.GRAD, job=7, worker=3, tag=TAG)
    batch["header"]["seq"] = seed
    lane = [
        layers.LaneGradient(row=int(rows[i]), grad=float(values[i]))
        if mask[i]
        else layers.LaneGradient()
        for i in range(lanes)
    ]
    expected = header(Op.GRAD, seed) / layers.grad_layer(lanes)(used=bitmap(mask), lanes=lane)
    assert batch.tobytes() == bytes(expected)
    _, got_lanes, got_rows, got = codec.decode_grads(batch)
    assert np.array_equal(got_lanes, index)
    assert np.array_equal(got_rows, rows[index])
    assert np.array_equal(got.view(np.uint32), values[index].view(np.uint32))


@settings(max_examples=40, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_update_equals_scapy(seed: int) -> None:
    """An UPDATE has the same bytes in both, and decodes to what was encoded."""
    mask, values = cells(seed, 32)
    batch, lengths = CODEC.encode_updates(np.array([321]), mask[None], values[None])
    fill_header(batch["header"], Op.UPDATE, job=7, worker=3, tag=TAG)
    expected = header(Op.UPDATE) / layers.update_layer(32)(
        row=321,
        used=bitmap(mask),
        cells=[layers.FloatCell(value=float(v)) for v in values[mask]],
    )
    assert batch.tobytes()[: lengths[0]] == bytes(expected)
    assert CODEC.update_lengths(batch)[0] == lengths[0]
    rows, lanes, got = CODEC.decode_updates(batch)
    assert set(rows.tolist()) <= {321}
    assert np.array_equal(lanes, np.flatnonzero(mask))
    assert np.array_equal(got.view(np.uint32), values[mask].view(np.uint32))


@pytest.mark.parametrize("form", list(DrainFormat))
@settings(max_examples=40, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_drained_decodes_what_scapy_builds(form: DrainFormat, seed: int) -> None:
    """A DRAINED built by Scapy decodes to its cells, in both formats."""
    mask, values = cells(seed, 32)
    digits = np.random.default_rng(seed).integers(-(2**31), 2**31, (32, 2))
    if form is DrainFormat.DIGITS:
        body = [layers.DigitsCell(d1=int(a) % 2**32, d0=int(b) % 2**32) for a, b in digits[mask]]
    else:
        body = [layers.FloatCell(value=float(v)) for v in values[mask]]
    payload = layers.drained_layer(32)(row=9, format=form, used=bitmap(mask), cells=body)
    raw = bytes(header(Op.DRAINED) / payload)
    data = np.zeros((1, CODEC.drained.itemsize), np.uint8)
    data[0, : len(raw)] = np.frombuffer(raw, np.uint8)
    batch = overlay(data, CODEC.drained)
    assert CODEC.drained_lengths(batch)[0] == len(raw)
    drained = CODEC.decode_drained(batch, form)
    assert np.array_equal(drained.lanes, np.flatnonzero(mask))
    if form is DrainFormat.DIGITS:
        expected = (digits[mask, 0] << 24) + digits[mask, 1]
        assert np.array_equal(drained.sums, expected)
    else:
        assert np.array_equal(drained.values.view(np.uint32), values[mask].view(np.uint32))


def test_golden_bytes() -> None:
    """The format itself is pinned: these bytes are version 1 of the protocol."""
    lane = [layers.LaneGradient(row=2, grad=1.5), layers.LaneGradient(row=3, grad=-2.0)]
    lane += [layers.LaneGradient()] * 30
    grad = bytes(header(Op.GRAD, 77) / layers.grad_layer(32)(used=3, lanes=lane))
    assert len(grad) == 212
    assert (
        grad[:32].hex() == ("1100000700030000005000090000004d0000000300023fc000000003c0000000")[:64]
    )
    assert bytes(header(Op.ACK, 77)).hex() == "1200000700030000005000090000004d"
    drain = header(Op.DRAIN) / layers.Drain(row=4, rows=2, format=1, switches=[])
    assert bytes(drain).hex() == "13000007000300000050000900000000000400020100"
    paired = header(Op.DRAIN, 513 << 16 | 16) / layers.Drain(row=4, rows=2, format=1, switches=[])
    assert bytes(paired).hex() == "13000007000300000050000902010010000400020100"
    hops = layers.Drain(row=4, rows=2, switches=["10.0.0.254"])
    assert bytes(hops).hex() == "0004000200010a0000fe"
    probe = layers.Probe(program=1, lanes=32, window=256, epoch=5, rows=8192)
    assert bytes(probe).hex() == "000100200100000520000000"
    update = layers.update_layer(32)(row=1, used=4, cells=[layers.FloatCell(value=1.0)])
    assert bytes(update).hex() == "0001000000043f800000"
    drained = layers.drained_layer(32)(
        row=1, format=0, used=1, cells=[layers.DigitsCell(d1=2**32 - 1, d0=5)]
    )
    assert bytes(drained).hex() == "0001000000000001ffffffff00000005"


def test_scapy_dissects_what_it_builds() -> None:
    """Bound layers find their way through a captured packet."""
    layers.bind(32)
    raw = struct.pack(">HHHH", 5, 19522, 34, 0) + bytes(
        header(Op.UPDATE) / layers.update_layer(32)(row=1, used=2, cells=[layers.FloatCell()])
    )
    packet = layers.UDP(raw)
    assert packet[layers.Libra].op == Op.UPDATE
    assert packet[layers.update_layer(32)].row == 1
    assert Raw not in packet


def test_header_is_16_bytes() -> None:
    """The common header has no padding."""
    assert HEADER.itemsize == 16
    assert codec_module.DRAIN.itemsize == 22
    assert codec_module.PROBE.itemsize == 28
