"""The plain transport: one packet at a time through the Scapy layers, for teaching and debugging.

It is slow. Every datagram is dissected into the layers of `packets.py` and built again from them,
and a one-line summary of it is logged, so that a run can be read packet by packet.
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
from host_stack.transport import MAX_BATCH, Received, ipv4, open_udp

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

    def send(self, batch: Bytes, lengths: IntArray, destination: int) -> int:
        """Send the leading packets of uint8[n, stride]; return how many the kernel took."""
        address = socket.inet_ntoa(struct.pack(">I", destination))
        for sent, (row, length) in enumerate(zip(batch, lengths, strict=True)):
            packet = packets.Libra(row[:length].tobytes())
            _LOG.debug("to %s: %s", address, packet.summary())
            try:
                self._sock.sendto(bytes(packet), (address, UDP_PORT))
            except BlockingIOError:
                return sent
        return len(batch)

    def receive(self) -> Received:
        """The datagrams that wait, at most `MAX_BATCH`."""
        lengths: list[int] = []
        sources: list[int] = []
        ports: list[int] = []
        while len(lengths) < MAX_BATCH:
            try:
                raw, (address, port) = self._sock.recvfrom(self._data.shape[1])
            except (BlockingIOError, ConnectionRefusedError):
                break
            packet = packets.Libra(raw)
            _LOG.debug("from %s: %s", address, packet.summary())
            built = bytes(packet)[: self._data.shape[1]]
            self._data[len(lengths), : len(built)] = np.frombuffer(built, np.uint8)
            lengths.append(len(built))
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
