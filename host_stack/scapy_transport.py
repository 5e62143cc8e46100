"""The plain transport: one packet at a time through the Scapy layers, for teaching and debugging.

It is slow. What is sent is built by the layers of `packets.py`; what is received is dissected into
them, and a one-line summary of either is logged, so that a run can be read packet by packet.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Sequence

import numpy as np

from host_stack import packets
from host_stack.codec import Bytes
from host_stack.fixedpoint import IntArray
from host_stack.layout import UDP_PORT
from host_stack.transport import MAX_BATCH, PASSING_ERRORS, Received, ipv4, open_udp
from host_stack.wire import HEADER_BYTES

_LOG = logging.getLogger(__name__)


class ScapyTransport:
    """A `Transport` over Scapy packets."""

    def __init__(
        self, address: str, max_bytes: int, lanes: int, groups: Sequence[str] = ()
    ) -> None:
        """Open the UDP port at `address`; datagrams longer than `max_bytes` come out truncated."""
        packets.bind(lanes)
        self._sock = open_udp(address, groups=groups)
        self._data = np.zeros((MAX_BATCH, max_bytes + 8 - max_bytes % 8), np.uint8)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._sock.fileno()

    def sockets(self) -> Sequence[int]:
        """The same."""
        return (self._sock.fileno(),)

    def send(self, batch: Bytes, lengths: IntArray, destination: int) -> int:
        """Send the leading packets of uint8[n, stride]; return how many the kernel took."""
        address = socket.inet_ntoa(struct.pack(">I", destination))
        for sent, (row, length) in enumerate(zip(batch, lengths, strict=True)):
            packet = packets.Libra(row[:length].tobytes())
            _LOG.debug("to %s: %s", address, packet.summary())
            try:
                self._sock.sendto(bytes(packet), (address, UDP_PORT))
            except OSError as error:
                if error.errno in PASSING_ERRORS:
                    return sent
                raise
        return len(batch)

    def receive(self) -> Received:
        """The datagrams that wait, at most `MAX_BATCH`."""
        lengths: list[int] = []
        sources: list[int] = []
        ports: list[int] = []
        while len(lengths) < MAX_BATCH:
            try:
                raw, (address, port) = self._sock.recvfrom(self._data.shape[1])
            except OSError as error:
                if error.errno in PASSING_ERRORS:
                    break
                raise
            # The bytes go on as they came: the receiver judges what is malformed.
            _LOG.debug("from %s: %s", address, _summary(raw))
            self._data[len(lengths), : len(raw)] = np.frombuffer(raw, np.uint8)
            lengths.append(len(raw))
            sources.append(ipv4(address))
            ports.append(port)
        count = len(lengths)
        return Received(
            self._data[:count],
            np.array(lengths, np.int64),
            np.array(sources, np.uint32),
            np.array(ports, np.uint16),
        )

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def _summary(raw: bytes) -> str:
    if len(raw) < HEADER_BYTES:
        return f"{len(raw)} bytes, too short for a Libra header"
    return str(packets.Libra(raw).summary())
