"""UDP in batches: sendmmsg and recvmmsg over numpy matrices, one system call for many packets."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from host_stack.codec import Bytes, Index, Records
from host_stack.errors import BadInput, PushFailed
from host_stack.fixedpoint import IntArray
from host_stack.layout import UDP_PORT
from host_stack.readiness import wait_writable

MAX_BATCH = 256
"""Packets of one system call."""

RECEIVE_BUFFER_BYTES = 4 << 20
SEND_BUFFER_BYTES = 64 << 10
"""Small, so that a slow link pushes back here instead of dropping in its queue."""

MULTICAST_TTL = 8

PASSING_ERRORS = frozenset(
    {
        errno.EAGAIN,
        errno.EINTR,
        errno.ENOBUFS,
        errno.ECONNREFUSED,
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.EPERM,
        errno.ENETDOWN,
    }
)
"""Queues that are full, and answers to earlier datagrams: retransmission deals with them."""

_HINTS = {
    errno.EADDRINUSE: (
        "; another process of a job has it: give each a host or network namespace of its own, or "
        "each worker an address of its own and no multicast (LIBRA_MULTICAST=0, or "
        "connected(…, multicast=False))"
    ),
    errno.EADDRNOTAVAIL: "; no interface of this host has this address: is the job file right?",
}
"""What to do where a port cannot be opened."""

_MMSGHDR = np.dtype(
    {
        "names": ["name", "name_len", "iov", "iov_len", "control", "control_len", "flags", "len"],
        "formats": ["u8", "u4", "u8", "u8", "u8", "u8", "i4", "u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": 64,
    }
)
_IOVEC = np.dtype([("base", "u8"), ("len", "u8")])
_SOCKADDR_IN = np.dtype([("family", "u2"), ("port", ">u2"), ("address", ">u4"), ("zero", "u8")])

_libc = ctypes.CDLL(None, use_errno=True)
_DONTWAIT = int(socket.MSG_DONTWAIT)


@dataclass(frozen=True)
class Received:
    """A batch of datagrams: views of the transport's buffer, valid until the next `receive`.

    Attributes:
        data: uint8[n, stride]; the bytes behind a datagram's end are undefined.
        lengths: int64[n] bytes.
        sources: uint32[n], IPv4 addresses of the senders.
        ports: uint16[n], their UDP ports.
    """

    data: Bytes
    lengths: IntArray
    sources: NDArray[np.uint32]
    ports: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.lengths)


class Transport(Protocol):
    """What worker and server need of a way to send and receive datagrams."""

    def fileno(self) -> int:
        """A descriptor that is readable when a datagram waits."""

    def sockets(self) -> Sequence[int]:
        """The descriptors of its sockets (`host_stack.socket_queue`)."""

    def send(self, batch: Bytes, lengths: IntArray, destination: int) -> int:
        """Send the leading packets of uint8[n, stride]; return how many the kernel took."""

    def receive(self) -> Received:
        """The datagrams that wait, at most a batch; never blocks."""

    def close(self) -> None:
        """Close the socket."""


def ipv4(address: str) -> int:
    """An IPv4 address in dotted decimal as a number; `BadInput` if it is none."""
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET, address), "big")
    except OSError as error:
        raise BadInput(f"{address!r} is not an IPv4 address") from error


def open_udp(
    address: str,
    *,
    port: int = UDP_PORT,
    groups: Sequence[str] = (),
    peer: str | None = None,
    beside: bool = False,
) -> socket.socket:
    """A non-blocking UDP socket, member of the multicast `groups` on the interface of `address`.

    A socket of group members is bound to all addresses, since a bound unicast address would hide
    multicast datagrams. With `peer` it takes that host's datagrams alone; so that another one
    can be opened `beside` it.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        own = socket.inet_aton(address)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, MULTICAST_TTL)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, beside)
        sock.bind(("0.0.0.0" if groups else address, port))  # noqa: S104
        if peer is not None:
            # Only now, so that the first one finds out whether somebody else has the port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.connect((peer, port))
        for group in groups:
            membership = socket.inet_aton(group) + own
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        why = f"{error.strerror}{_HINTS.get(error.errno or 0, '')}"
        raise BadInput(f"cannot open UDP port {port} at {address}: {why}") from error
    return sock


class BatchTransport:
    """The fast path: one `sendmmsg` or `recvmmsg` per batch, buffers allocated once."""

    def __init__(self, sock: socket.socket, max_bytes: int, port: int = UDP_PORT) -> None:
        """Wrap a socket of `open_udp`; `max_bytes` is the longest datagram expected."""
        self._sock = sock
        self._port = port
        # One byte more, so that an oversize datagram is seen as such and not as a truncated one.
        self._data = np.zeros((MAX_BATCH, max_bytes + 1 + (-(max_bytes + 1)) % 8), np.uint8)
        self._names = np.zeros(MAX_BATCH, _SOCKADDR_IN)
        self._vectors = _iovecs(self._data, np.full(MAX_BATCH, self._data.shape[1]))
        self._headers = _headers(self._vectors, self._names)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._sock.fileno()

    def sockets(self) -> Sequence[int]:
        """The same."""
        return (self._sock.fileno(),)

    def send(self, batch: Bytes, lengths: IntArray, destination: int) -> int:
        """Send the leading packets of uint8[n, stride]; return how many the kernel took."""
        names = np.zeros(1, _SOCKADDR_IN)
        names["family"] = socket.AF_INET
        names["port"] = self._port
        names["address"] = destination
        vectors = _iovecs(batch, lengths)
        headers = _headers(vectors, np.broadcast_to(names, len(batch)))
        sent = 0
        while sent < len(batch):
            count = self._call("sendmmsg", headers[sent : sent + MAX_BATCH])
            if count <= 0:
                break
            sent += count
        return sent

    def receive(self) -> Received:
        """The datagrams that wait, at most `MAX_BATCH`."""
        self._headers["name_len"] = _SOCKADDR_IN.itemsize
        count = max(0, self._call("recvmmsg", self._headers))
        return Received(
            self._data[:count],
            self._headers["len"][:count].astype(np.int64),
            self._names["address"][:count].astype(np.uint32),
            self._names["port"][:count].astype(np.uint16),
        )

    def _call(self, name: str, headers: NDArray[Any]) -> int:
        """One system call on an array of mmsghdr; 0 where it would block or queues are full."""
        arguments = [self._sock.fileno(), ctypes.c_void_p(headers.ctypes.data), len(headers)]
        arguments.append(_DONTWAIT)
        if name == "recvmmsg":
            arguments.append(None)
        count = int(getattr(_libc, name)(*arguments))
        if count >= 0:
            return count
        code = ctypes.get_errno()
        if code in PASSING_ERRORS:
            return 0
        raise OSError(code, os.strerror(code))

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def send_all(
    transport: Transport, batch: Bytes, lengths: IntArray, destination: int, deadline_s: float
) -> None:
    """Send every packet of a batch, waiting while the kernel's queue is full.

    Raises `PushFailed` when nothing could be sent for `deadline_s` seconds.
    """
    sent = 0
    progress = time.monotonic()
    while sent < len(batch):
        count = transport.send(batch[sent:], lengths[sent:], destination)
        sent += count
        if count:
            progress = time.monotonic()
        elif time.monotonic() - progress > deadline_s:
            raise PushFailed(f"the link took no packet for {deadline_s:g} s")
        elif sent < len(batch):
            wait_writable(transport.fileno(), deadline_s)


def open_group(group: str, address: str, *, port: int = UDP_PORT) -> socket.socket:
    """A non-blocking UDP socket that takes the datagrams to a multicast group, and no others."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        membership = socket.inet_aton(group) + socket.inet_aton(address)
        sock.bind((group, port))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise BadInput(f"cannot join group {group} at {address}: {error.strerror}") from error
    return sock


def _iovecs(batch: Bytes, lengths: IntArray) -> NDArray[Any]:
    vectors = np.zeros(len(batch), _IOVEC)
    vectors["base"] = batch.ctypes.data + np.arange(len(batch), dtype=np.uint64) * batch.strides[0]
    vectors["len"] = lengths
    return vectors


def _headers(vectors: NDArray[Any], names: NDArray[Any]) -> NDArray[Any]:
    headers = np.zeros(len(vectors), _MMSGHDR)
    steps = np.arange(len(vectors), dtype=np.uint64)
    headers["name"] = names.ctypes.data + steps * names.strides[0]
    headers["name_len"] = _SOCKADDR_IN.itemsize
    headers["iov"] = vectors.ctypes.data + steps * _IOVEC.itemsize
    headers["iov_len"] = 1
    return headers


def gather(records: Records, index: Index) -> Bytes:
    """The packets `index` of an array of records, as a uint8 matrix for `Transport.send`."""
    chosen = records[index]
    return chosen.view(np.uint8).reshape(len(chosen), records.itemsize)
