"""A network in memory for tests: hosts' transports around a switch, with seeded faults.

With a data plane, every datagram travels through it as an Ethernet frame; without one, hosts
reach each other directly. Addresses are loopback ones, so that ps-lite's TCP works beside it.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from host_stack.codec import Bytes
from host_stack.fixedpoint import IntArray
from host_stack.layout import UDP_PORT
from host_stack.transport import MAX_BATCH, Received, ipv4
from host_stack.wake import Wake

STRIDE = 512
_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_UDP = struct.Struct(">HHHH")


@dataclass
class Faults:
    """Shares of datagrams that are lost, doubled, or held back behind later ones."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    seed: int = 1


def checksum(header: bytes) -> int:
    """The Internet checksum of an even number of bytes."""
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(
    source: str, destination: str, payload: bytes, ttl: int = 64, source_port: int = UDP_PORT
) -> bytes:
    """An Ethernet frame with an IPv4 UDP datagram to Libra's port."""
    ends = socket.inet_aton(source), socket.inet_aton(destination)
    length = 28 + len(payload)
    header = _IPV4.pack(0x45, 0, length, 0, 0, ttl, 17, 0, *ends)
    header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    udp = _UDP.pack(source_port, UDP_PORT, 8 + len(payload), 0)
    return b"\x02" * 6 + b"\x04" * 6 + b"\x08\x00" + header + udp + payload


def datagram(raw: bytes) -> tuple[str, str, bytes]:
    """(source, destination, payload) of a frame; asserts that its IPv4 header is sound."""
    header = raw[14:34]
    assert checksum(header) == 0, "IPv4 checksum"
    total = struct.unpack(">H", header[2:4])[0]
    assert total == len(raw) - 14, "IPv4 length"
    assert struct.unpack(">H", raw[38:40])[0] == total - 20, "UDP length"
    source, destination = socket.inet_ntoa(header[12:16]), socket.inet_ntoa(header[16:20])
    return source, destination, raw[42:]


def udp_ports(raw: bytes) -> tuple[int, int]:
    """(source, destination) port of a frame with a UDP datagram."""
    source, destination, _, _ = _UDP.unpack_from(raw, 34)
    return source, destination


class Crashed(Exception):
    """The process that owns a transport dies here."""


class MemoryNetwork:
    """Hosts by address, each at a port of the switch.

    While the switch `is_dead` nothing arrives; `dies_after` counts down the datagrams to its end.
    """

    def __init__(
        self,
        ports: dict[str, int],
        group: str,
        members: list[str],
        dataplane: Any = None,
        faults: Faults | None = None,
    ) -> None:
        self._ports = ports
        self._hosts = {port: address for address, port in ports.items()}
        self._group = group
        self._members = members
        self.dataplane = dataplane
        self._faults = faults or Faults()
        self._random = random.Random(self._faults.seed)
        self._held: deque[tuple[str, str, bytes]] = deque()
        self._lock = threading.Lock()
        self.is_dead = False
        self.dies_after: int | None = None
        self._transports = {address: MemoryTransport(address, self) for address in ports}

    def transport(self, address: str) -> MemoryTransport:
        """The transport of a host."""
        return self._transports[address]

    def restart_host(self, address: str) -> MemoryTransport:
        """A new transport of a host whose process has died: what had arrived is lost."""
        self._transports[address] = MemoryTransport(address, self)
        return self._transports[address]

    def carry(self, source: str, destination: str, payload: bytes) -> None:
        """Carry a datagram, or do to it what the faults say."""
        with self._lock:
            if self.dies_after is not None:
                self.dies_after -= 1
                if self.dies_after <= 0:
                    self.is_dead, self.dies_after = True, None
            if self.is_dead:
                return
            chance = self._random.random()
            faults = self._faults
            if chance < faults.loss:
                return
            if chance < faults.loss + faults.reordering:
                self._held.append((source, destination, payload))
                return
            copies = 2 if chance > 1 - faults.duplication else 1
            for _ in range(copies):
                self._pass(source, destination, payload)
            if self._held and self._random.random() < 0.5:
                self._pass(*self._held.popleft())

    def _pass(self, source: str, destination: str, payload: bytes) -> None:
        if self.dataplane is None:
            receivers = self._members if destination == self._group else [destination]
            for receiver in receivers:
                if receiver in self._transports:
                    self._arrive(receiver, source, payload)
            return
        sent = frame(source, destination, payload)
        for port, raw in self.dataplane.inject(self._ports[source], sent):
            origin, _, content = datagram(raw)
            self._arrive(self._hosts[port], origin, content)

    def _arrive(self, address: str, source: str, payload: bytes) -> None:
        # The way back is as faulty as the way there.
        if self._random.random() >= self._faults.loss:
            self._transports[address].put(source, payload)


class MemoryTransport:
    """A `Transport` of one host."""

    def __init__(self, address: str, network: MemoryNetwork) -> None:
        self.address = address
        self.crashes_after: int | None = None
        self._network = network
        self._queue: deque[tuple[int, bytes]] = deque()
        self._wake = Wake()
        self._data = np.zeros((MAX_BATCH, STRIDE), np.uint8)

    def put(self, source: str, payload: bytes) -> None:
        """Called by the network when a datagram arrives."""
        self._queue.append((ipv4(source), payload))
        self._wake.set()

    def fileno(self) -> int:
        """Readable while datagrams wait."""
        return self._wake.fileno()

    def send(self, batch: Bytes, lengths: IntArray, destination: int) -> int:
        """Carry every packet."""
        self._live()
        address = socket.inet_ntoa(destination.to_bytes(4, "big"))
        for row, length in zip(batch, lengths, strict=True):
            self._network.carry(self.address, address, row[:length].tobytes())
        return len(batch)

    def receive(self) -> Received:
        """What waits, at most a batch."""
        self._live()
        self._wake.clear()
        taken = []
        while self._queue and len(taken) < MAX_BATCH:
            taken.append(self._queue.popleft())
        if self._queue:
            self._wake.set()
        return self._batch(taken)

    def _live(self) -> None:
        """Count a call; die at the one that was chosen."""
        if self.crashes_after is not None:
            self.crashes_after -= 1
            if self.crashes_after <= 0:
                raise Crashed(self.address)

    def _batch(self, taken: list[tuple[int, bytes]]) -> Received:
        for row, (_, payload) in zip(self._data, taken, strict=False):
            row[: len(payload)] = np.frombuffer(payload, np.uint8)
        return Received(
            self._data[: len(taken)],
            np.array([len(payload) for _, payload in taken], np.int64),
            np.array([source for source, _ in taken], np.uint32),
            np.full(len(taken), UDP_PORT, np.uint16),
        )

    def close(self) -> None:
        """Close the descriptor."""
        self._wake.close()
