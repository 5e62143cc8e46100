"""The Ethernet frames that the benchmarks send: GRADs of the Libra program, and plain datagrams."""

from __future__ import annotations

import socket

import numpy as np
from numpy.typing import NDArray

from host_stack.codec import Bytes, Codec, fill_header
from host_stack.layout import UDP_PORT, Layout, make_tag
from host_stack.wire import HEADER_BYTES, Op

UDP_AT = 34
CHECKSUM_AT = UDP_AT + 6
PAYLOAD_AT = 42
SEQ_AT = PAYLOAD_AT + 12
"""Where a Libra packet has its sequence number, which makes each one new."""

ACK_BYTES = PAYLOAD_AT + HEADER_BYTES

_FRAME = np.dtype(
    [
        ("dst", "u1", (6,)),
        ("src", "u1", (6,)),
        ("ether_type", ">u2"),
        ("version_ihl", "u1"),
        ("diffserv", "u1"),
        ("total_len", ">u2"),
        ("identification", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("ip_src", ">u4"),
        ("ip_dst", ">u4"),
        ("src_port", ">u2"),
        ("dst_port", ">u2"),
        ("length", ">u2"),
        ("udp_checksum", ">u2"),
    ]
)


def address(dotted: str) -> int:
    """An IPv4 address as a number."""
    return int.from_bytes(socket.inet_aton(dotted), "big")


def datagrams(payloads: Bytes, source: str, destination: str, port: int = UDP_PORT) -> Bytes:
    """uint8[n, 42 + m]: UDP datagrams with these payloads (uint8[n, m]), checksums filled in."""
    count, size = payloads.shape
    padded = np.zeros((count, PAYLOAD_AT + size + size % 2), np.uint8)
    padded[:, PAYLOAD_AT : PAYLOAD_AT + size] = payloads
    head = np.zeros(count, _FRAME)
    head["dst"], head["src"] = 2, 4
    head["ether_type"] = 0x0800
    head["version_ihl"], head["ttl"], head["protocol"] = 0x45, 64, socket.IPPROTO_UDP
    head["total_len"], head["length"] = 28 + size, 8 + size
    head["ip_src"], head["ip_dst"] = address(source), address(destination)
    head["src_port"] = head["dst_port"] = port
    padded[:, :PAYLOAD_AT] = head.view(np.uint8).reshape(count, PAYLOAD_AT)
    head["checksum"] = ~fold(sum16(padded[:, 14:UDP_AT])) & 0xFFFF
    pseudo = sum16(padded[:, 26:UDP_AT]) + socket.IPPROTO_UDP + 8 + size
    total = fold(pseudo + sum16(padded[:, UDP_AT:]))
    # Zero would say that there is no checksum.
    head["udp_checksum"] = np.where(total == 0xFFFF, 0xFFFF, ~total & 0xFFFF)
    padded[:, :PAYLOAD_AT] = head.view(np.uint8).reshape(count, PAYLOAD_AT)
    return padded[:, : PAYLOAD_AT + size]


def sum16(octets: Bytes) -> NDArray[np.int64]:
    """int64[n]: sums of the big-endian 16-bit words of each row."""
    words = np.ascontiguousarray(octets).view(">u2").astype(np.int64)
    result: NDArray[np.int64] = words.sum(axis=1)
    return result


def fold(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """One's complement sums, folded to 16 bits."""
    for _ in range(3):
        sums = (sums & 0xFFFF) + (sums >> 16)
    return sums


def grads(
    layout: Layout,
    count: int,
    *,
    job: int,
    epoch: int,
    rank: int,
    source: str,
    server: str,
    rows: int,
    lanes: int | None = None,
    seed: int = 1,
) -> Bytes:
    """GRADs of one worker with normally distributed gradients in random rows.

    Args:
        layout: of the program.
        count: of packets; sequence numbers run from 1.
        job: its number.
        epoch: its epoch; the round is 0.
        rank: of the worker.
        source: IPv4 address of the worker.
        server: IPv4 address that GRADs go to.
        rows: of the job.
        lanes: how many lanes each packet uses, the first ones; default all.
        seed: of rows and gradients.

    Returns:
        uint8[count, size]: Ethernet frames with UDP checksums.
    """
    lanes = layout.lanes if lanes is None else lanes
    rng = np.random.default_rng(seed)
    n = count * lanes
    records = Codec(layout).encode_grads(
        np.repeat(np.arange(count), lanes),
        np.tile(np.arange(lanes, dtype=np.int64), count),
        rng.integers(0, rows, n),
        rng.standard_normal(n).astype(np.float32),
        count,
    )
    fill_header(records["header"], Op.GRAD, job=job, worker=rank, tag=make_tag(epoch, 0))
    records["header"]["seq"] = np.arange(1, count + 1)
    return datagrams(records.view(np.uint8).reshape(count, records.itemsize), source, server)


def renumber(frames: Bytes, first: int) -> None:
    """Give GRADs new sequence numbers, from `first` on, and correct their UDP checksums."""
    before = sum16(frames[:, SEQ_AT : SEQ_AT + 4])
    seq = np.arange(first, first + len(frames), dtype=np.int64).astype(">u4")
    frames[:, SEQ_AT : SEQ_AT + 4] = seq.view(np.uint8).reshape(len(frames), 4)
    after = sum16(frames[:, SEQ_AT : SEQ_AT + 4])
    old = sum16(frames[:, CHECKSUM_AT : CHECKSUM_AT + 2])
    total = fold((~old & 0xFFFF) + 2 * 0xFFFF - before + after)
    new = np.where(total == 0xFFFF, 0xFFFF, ~total & 0xFFFF).astype(">u2")
    frames[:, CHECKSUM_AT : CHECKSUM_AT + 2] = new.view(np.uint8).reshape(len(frames), 2)
