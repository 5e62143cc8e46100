"""What waits before network interfaces: their queues (qdiscs), asked of the kernel over netlink.

A link that is shaped by `tc` has its packets there, and not in the switch.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

_RTM_NEWQDISC, _RTM_GETQDISC = 36, 38
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST_DUMP = 0x301
_ROOT = 0xFFFFFFFF
_TCA_STATS2, _TCA_STATS_QUEUE = 7, 3
_NESTED = 1 << 15
_HEADER = struct.Struct("=IHHII")
_MESSAGE = struct.Struct("=BBHiIII")
_ATTRIBUTE = struct.Struct("=HH")
_STATS = struct.Struct("=IIIII")
_BUFFER_BYTES = 1 << 16
TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Queue:
    """The queue before an interface.

    Attributes:
        packets, bytes: that wait now.
        drops: packets that found it full, since it was made.
    """

    packets: int = 0
    bytes: int = 0
    drops: int = 0


def read_queues() -> dict[str, Queue]:
    """The queue of every interface of this network namespace, by its name.

    Interfaces without one, such as plain virtual cables, have none that could fill. Empty where
    the kernel tells nothing.
    """
    found = {}
    with suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as kernel:
        kernel.settimeout(TIMEOUT_S)
        request = _MESSAGE.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0, 0)
        size = _HEADER.size + len(request)
        kernel.send(_HEADER.pack(size, _RTM_GETQDISC, _REQUEST_DUMP, 1, 0) + request)
        for body in _messages(kernel):
            _, _, _, index, _, parent, _ = _MESSAGE.unpack_from(body)
            stats = dict(_attributes(body[_MESSAGE.size :])).get(_TCA_STATS2)
            if parent != _ROOT or stats is None:
                continue
            queue = dict(_attributes(stats)).get(_TCA_STATS_QUEUE)
            with suppress(OSError):  # the interface has gone meanwhile
                if queue is not None:
                    packets, size_bytes, drops, _, _ = _STATS.unpack_from(queue)
                    found[socket.if_indextoname(index)] = Queue(packets, size_bytes, drops)
    return found


def _messages(kernel: socket.socket) -> Iterator[bytes]:
    """The bodies of the answer's messages."""
    while True:
        data = kernel.recv(_BUFFER_BYTES)
        while len(data) >= _HEADER.size:
            size, kind, _, _, _ = _HEADER.unpack_from(data)
            if kind in {_NLMSG_DONE, _NLMSG_ERROR} or size < _HEADER.size:
                return
            if kind == _RTM_NEWQDISC:
                yield data[_HEADER.size : size]
            data = data[_aligned(size) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        if size < _ATTRIBUTE.size:
            return
        yield kind & ~_NESTED, data[_ATTRIBUTE.size : size]
        data = data[_aligned(size) :]


def _aligned(size: int) -> int:
    return (size + 3) & ~3
