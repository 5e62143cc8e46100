"""The plain transport does with every datagram what the fast one does."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from host_stack import packets as layers
from host_stack import scapy_transport as module
from host_stack.codec import Codec
from host_stack.connect import open_transport
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.layout import UDP_PORT
from host_stack.scapy_transport import ScapyTransport
from host_stack.transport import BatchTransport, Transport, ipv4, open_udp
from host_stack.wire import DrainFormat, Op
from tests.host_support import LAYOUT

FAST, PLAIN, OTHER = "127.0.8.1", "127.0.8.2", "127.0.8.3"
CODEC = Codec(LAYOUT)


@pytest.fixture
def transports() -> Iterator[dict[str, Transport]]:
    """Both transports, at their addresses and the protocol's port."""
    with ExitStack() as stack:
        try:
            pair: dict[str, Transport] = {
                FAST: BatchTransport(open_udp(FAST), CODEC.max_bytes),
                PLAIN: ScapyTransport(PLAIN, CODEC.max_bytes, LAYOUT.lanes),
            }
        except BadInput as error:
            pytest.skip(str(error))
        for transport in pair.values():
            stack.callback(transport.close)
        yield pair


def packets(seed: int) -> list[bytes]:
    """A packet of each kind, with random contents, whole and cut short or grown."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    used = int(rng.integers(0, 1 << 32))
    count = used.bit_count()
    head = {"job": 7, "worker": 3, "epoch": 5, "round": 9, "seq": int(rng.integers(0, 1 << 32))}

    def header(op: Op) -> bytes:
        return bytes(layers.Libra(op=op, **head))

    def raw(words: np.ndarray) -> bytes:
        return words.astype(">u4").tobytes()

    grad = header(Op.GRAD) + used.to_bytes(4, "big")
    grad += b"".join(bytes([0, lane]) + raw(bits[lane : lane + 1]) for lane in range(32))
    row = b"\x01\x05"
    whole = [
        grad,
        header(Op.ACK),
        header(Op.DRAIN) + bytes(layers.Drain(row=4, rows=9, format=1, switches=[])),
        header(Op.DRAIN) + bytes(layers.Drain(row=4, switches=["10.0.0.254", "10.0.0.253"])),
        header(Op.PROBE) + bytes(layers.Probe(lanes=32)),
        header(Op.UPDATE) + row + used.to_bytes(4, "big") + raw(bits[:count]),
        *(
            header(Op.DRAINED) + row + bytes([form, 0]) + used.to_bytes(4, "big")
            + raw(bits[: count * form.cell_bytes // 4])
            for form in DrainFormat
        ),
    ]  # fmt: skip
    for each in list(whole):
        whole.append(each[: int(rng.integers(0, len(each)))])
        whole.append(each + rng.bytes(int(rng.integers(1, 9))))
    rubbish = [rng.bytes(int(rng.integers(0, CODEC.max_bytes))) for _ in range(20)]
    known = [bytes([0x10 | int(rng.integers(0, 16))]) + rng.bytes(60) for _ in range(20)]
    return [*whole, b"", b"\x11", *rubbish, *known]


def receive_all(transport: Transport, count: int) -> list[tuple[int, bytes]]:
    """(source, payload) of `count` datagrams."""
    found: list[tuple[int, bytes]] = []
    while len(found) < count:
        assert select.select([transport.fileno()], [], [], 30.0)[0], f"{len(found)} of {count}"
        batch = transport.receive()
        found += [
            (int(source), row[:length].tobytes())
            for row, length, source in zip(batch.data, batch.lengths, batch.sources, strict=True)
        ]
    return found


@pytest.mark.parametrize("seed", range(8))
def test_both_receive_the_same(seed: int, transports: dict[str, Transport]) -> None:
    """Every datagram, whatever it holds, comes out of both with the same bytes."""
    sent = packets(seed)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((OTHER, 0))
        for address, transport in transports.items():
            for payload in sent:
                sender.sendto(payload, (address, UDP_PORT))
            assert receive_all(transport, len(sent)) == [(ipv4(OTHER), p) for p in sent]


@pytest.mark.parametrize("seed", range(4))
def test_both_send_the_same(seed: int, transports: dict[str, Transport]) -> None:
    """What the codec has made leaves both with the same bytes."""
    sent = packets(seed)[:8]
    batch = np.zeros((len(sent), CODEC.max_bytes), np.uint8)
    for row, payload in zip(batch, sent, strict=True):
        row[: len(payload)] = np.frombuffer(payload, np.uint8)
    lengths = np.array([len(payload) for payload in sent], np.int64)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((OTHER, UDP_PORT))
        receiver.settimeout(30.0)
        for address, transport in transports.items():
            assert transport.send(batch, lengths, ipv4(OTHER)) == len(sent)
            got = [receiver.recvfrom(2048) for _ in sent]
            assert got == [(payload, (address, UDP_PORT)) for payload in sent]


def test_both_see_an_oversize_datagram(transports: dict[str, Transport]) -> None:
    """A datagram longer than any packet never has the length of one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for address, transport in transports.items():
            sender.sendto(b"\x11" * 2000, (address, UDP_PORT))
            ((_, payload),) = receive_all(transport, 1)
            assert CODEC.max_bytes < len(payload) < 2000


def test_nobody_listens(transports: dict[str, Transport]) -> None:
    """Sending to a closed port is no error in either."""
    batch = np.zeros((2, 16), np.uint8)
    batch[:, 0] = 0x12
    for transport in transports.values():
        for _ in range(2):
            assert transport.send(batch, np.array([16, 16]), ipv4("127.0.8.9")) == 2
        assert len(transport.receive()) == 0


def test_an_unreachable_network(
    transports: dict[str, Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that is down for a moment takes nothing, as in the fast transport."""

    class Down:
        """A socket whose network is unreachable."""

        def sendto(self, _payload: bytes, _destination: object) -> int:
            """Fail as the kernel does."""
            raise OSError(101, "Network is unreachable")

    plain = transports[PLAIN]
    with monkeypatch.context() as patched:
        patched.setattr(plain, "_sock", Down())
        batch = np.zeros((2, 16), np.uint8)
        batch[:, 0] = 0x12
        assert plain.send(batch, np.array([16, 16]), ipv4(OTHER)) == 0


def test_packets_can_be_read_in_the_log(
    transports: dict[str, Transport], caplog: pytest.LogCaptureFixture
) -> None:
    """Every packet is logged with its operation, both ways."""
    with caplog.at_level("DEBUG", logger=module.__name__):
        batch = np.frombuffer(bytes(layers.Libra(op=Op.ACK, job=7)), np.uint8)[None].copy()
        transports[FAST].send(batch, np.array([16]), ipv4(PLAIN))
        receive_all(transports[PLAIN], 1)
    assert f"from {FAST}: Libra" in caplog.text


@pytest.mark.parametrize("kind", ["batch", "scapy"])
def test_open_transport(kind: str) -> None:
    """The job names the kind of its transport; a taken port is a `BadInput` in both."""
    job = Job(
        job=1, epoch=1, fraction_bits=40, num_keys=1, layout=LAYOUT, workers=("127.0.8.4",),
        server="127.0.8.5", switch="127.0.8.6", group="239.19.52.2",
        scheduler=("127.0.8.5", 9700), transport=kind,
    )  # fmt: skip
    transport = open_transport(job, "127.0.8.4")
    try:
        assert type(transport) is {"batch": BatchTransport, "scapy": ScapyTransport}[kind]
        with pytest.raises(BadInput, match="Address already in use"):
            open_transport(job, "127.0.8.4")
    finally:
        transport.close()


def test_an_unknown_transport() -> None:
    """The error lists those that exist."""
    job = Job(
        job=1, epoch=1, fraction_bits=40, num_keys=1, layout=LAYOUT, workers=("127.0.8.4",),
        server="127.0.8.5", switch="127.0.8.6", group="239.19.52.2",
        scheduler=("127.0.8.5", 9700), transport="dpdk",
    )  # fmt: skip
    with pytest.raises(BadInput, match="'dpdk': known are batch, scapy"):
        open_transport(job, "127.0.8.4")
