"""Batches of UDP over the loopback interface."""

from __future__ import annotations

import itertools
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from host_stack.codec import Codec
from host_stack.errors import BadInput, PushFailed
from host_stack.transport import (
    MAX_BATCH,
    BatchTransport,
    Received,
    Transport,
    gather,
    ipv4,
    open_udp,
    send_all,
)
from tests.host_support import LAYOUT, ScriptedTransport

HERE, THERE = "127.0.7.1", "127.0.7.2"
MAX_BYTES = 100

Opener = Callable[[str], BatchTransport]


@pytest.fixture
def port() -> int:
    """A UDP port that is free at both addresses."""
    for candidate in itertools.count(29522):
        with ExitStack() as stack:
            try:
                for address in (HERE, THERE):
                    sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                    sock.bind((address, candidate))
            except OSError:
                continue
            return candidate
    raise AssertionError


@pytest.fixture
def opened(port: int) -> Iterator[Opener]:
    """Opens transports that are closed after the test."""
    with ExitStack() as stack:

        def opener(address: str) -> BatchTransport:
            transport = BatchTransport(open_udp(address, port=port), MAX_BYTES, port)
            stack.callback(transport.close)
            return transport

        yield opener


def receive_all(transport: Transport, count: int) -> list[tuple[int, int, bytes]]:
    """(source, port, payload) of `count` datagrams; fails if they do not all come."""
    found: list[tuple[int, int, bytes]] = []
    while len(found) < count:
        assert select.select([transport.fileno()], [], [], 30.0)[0], f"{len(found)} of {count}"
        batch: Received = transport.receive()
        assert len(batch) <= MAX_BATCH
        for row, length, source, port in zip(
            batch.data, batch.lengths, batch.sources, batch.ports, strict=True
        ):
            found.append((int(source), int(port), row[:length].tobytes()))
    return found


def numbered(count: int, stride: int = 64) -> np.ndarray:
    """Packets that differ, uint8[count, stride]."""
    batch = np.zeros((count, stride), np.uint8)
    batch[:, :4] = np.arange(count, dtype=">u4").view(np.uint8).reshape(count, 4)
    batch[:, 4:] = (np.arange(count)[:, None] + np.arange(stride - 4)) % 251
    return batch


def test_more_packets_than_a_system_call(opened: Opener, port: int) -> None:
    """All packets of three batches arrive whole, in order, with their source."""
    here, there = opened(HERE), opened(THERE)
    batch = numbered(2 * MAX_BATCH + 10)
    lengths = 4 + np.arange(len(batch), dtype=np.int64) % 61
    assert here.send(batch, lengths, ipv4(THERE)) == len(batch)
    got = receive_all(there, len(batch))
    assert got == [
        (ipv4(HERE), port, row[:length].tobytes())
        for row, length in zip(batch, lengths, strict=True)
    ]
    assert len(there.receive()) == 0


def test_nothing_waits(opened: Opener) -> None:
    """Receiving never blocks; sending nothing sends nothing."""
    here = opened(HERE)
    assert len(here.receive()) == 0
    assert here.send(numbered(0), np.zeros(0, np.int64), ipv4(THERE)) == 0


def test_a_slice_of_a_batch(opened: Opener) -> None:
    """Rows that lie apart in memory are sent from where they are."""
    here, there = opened(HERE), opened(THERE)
    batch = numbered(20)[4:16:3]
    here.send(batch, np.full(4, 64, np.int64), ipv4(THERE))
    assert [payload for _, _, payload in receive_all(there, 4)] == [row.tobytes() for row in batch]


@pytest.mark.parametrize("length", [0, 1, MAX_BYTES - 1, MAX_BYTES])
def test_lengths_up_to_the_longest(length: int, opened: Opener, port: int) -> None:
    """Any datagram up to the longest expected comes with its length, an empty one too."""
    there = opened(THERE)
    payload = bytes(range(1, length + 1))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((HERE, 0))
        sender.sendto(payload, (THERE, port))
        assert receive_all(there, 1) == [(ipv4(HERE), sender.getsockname()[1], payload)]


@pytest.mark.parametrize("length", [MAX_BYTES + 1, 1000, 65507])
def test_an_oversize_datagram_is_seen_as_such(length: int, opened: Opener, port: int) -> None:
    """It is cut to the buffer, but never to a length that a packet may have."""
    there = opened(THERE)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"\x07" * length, (THERE, port))
        sender.sendto(b"next", (THERE, port))
        first, second = receive_all(there, 2)
    assert MAX_BYTES < len(first[2]) <= length
    assert second[2] == b"next"


def test_buffers_are_used_again(opened: Opener) -> None:
    """A short datagram after a long one has its own length and contents."""
    here, there = opened(HERE), opened(THERE)
    batch = numbered(2)
    for row, length in ((0, 64), (1, 8)):
        here.send(batch[row : row + 1], np.array([length]), ipv4(THERE))
        assert receive_all(there, 1)[0][2] == batch[row, :length].tobytes()


def test_nobody_listens(opened: Opener) -> None:
    """A closed port is no error of the sender: retransmission and deadlines deal with it."""
    here = opened(HERE)
    batch = numbered(3)
    for _ in range(3):
        assert here.send(batch, np.full(3, 64, np.int64), ipv4(THERE)) == 3
        assert len(here.receive()) == 0


def test_the_port_is_taken(opened: Opener, port: int) -> None:
    """The error names address, port and reason, and what to do."""
    opened(HERE)
    words = f"UDP port {port} at {HERE}: Address already in use; .*LIBRA_MULTICAST=0"
    with pytest.raises(BadInput, match=words):
        opened(HERE)


def test_an_address_of_another_machine(port: int) -> None:
    """An address that this host does not have."""
    with pytest.raises(BadInput, match=r"192\.0\.2\.1: Cannot assign .*no interface"):
        open_udp("192.0.2.1", port=port)


def test_a_group_that_is_none(port: int) -> None:
    """A unicast address cannot be joined."""
    with pytest.raises(BadInput, match="cannot open UDP port"):
        open_udp(HERE, port=port, groups=["10.0.0.1"])


@pytest.mark.parametrize(
    "address", ["", "localhost", "256.0.0.1", "10.0.0", "1", "10.0.0.1 x", "::1", "010.0.0.1 "]
)
def test_what_is_no_ipv4_address(address: str) -> None:
    """Only dotted decimals are addresses; the error shows what was given."""
    with pytest.raises(BadInput) as caught:
        ipv4(address)
    assert repr(address) in str(caught.value)


def test_ipv4() -> None:
    """The most significant byte comes first."""
    assert ipv4("10.0.0.254") == 0x0A0000FE


def test_send_all_waits_for_room() -> None:
    """Packets that the kernel refuses are offered again, each taken once."""
    taken: list[bytes] = []
    calls = itertools.count()

    class Narrow(ScriptedTransport):
        """Takes nothing every other time, and two packets in between."""

        def send(self, batch: np.ndarray, lengths: np.ndarray, destination: int) -> int:
            """Take up to two packets."""
            if next(calls) % 2 == 0:
                return 0
            return super().send(batch[:2], lengths[:2], destination)

    transport = Narrow(lambda packet, _destination: taken.append(packet) or ())
    batch = numbered(9)
    send_all(transport, batch, np.full(9, 64, np.int64), ipv4(THERE), 5.0)
    assert taken == [row.tobytes() for row in batch]


def test_send_all_gives_up() -> None:
    """A link that takes nothing is an error with the time that was waited."""

    class Blocked(ScriptedTransport):
        """Takes nothing."""

        def send(self, batch: np.ndarray, lengths: np.ndarray, destination: int) -> int:
            """Take nothing."""
            return 0

    with pytest.raises(PushFailed, match=r"took no packet for 0\.01 s"):
        send_all(Blocked(), numbered(1), np.array([64]), ipv4(THERE), 0.01)


def test_gather_copies_records_as_bytes() -> None:
    """Chosen packets, in the order of the choice, as a contiguous matrix."""
    records = np.zeros(5, Codec(LAYOUT).grad)
    records["header"]["seq"] = np.arange(5)
    data = gather(records, np.array([3, 1]))
    assert data.shape == (2, records.itemsize)
    assert data[:, 15].tolist() == [3, 1]
    assert data.flags.c_contiguous
