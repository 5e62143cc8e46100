"""What waits in a UDP socket, and what found no room there, as the kernel counts it."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
"""Of Linux, linux/sock_diag.h: bytes allocated for reading and writing, and datagrams dropped."""


@dataclass(frozen=True)
class SocketQueue:
    """The queues of a socket.

    Attributes:
        receive_bytes, send_bytes: of memory, that datagrams take which are not fetched, or not
            sent, yet; somewhat more than they are long.
        drops: datagrams that came and found no room, since the socket was opened.
    """

    receive_bytes: int
    send_bytes: int
    drops: int


def socket_queue(descriptor: int) -> SocketQueue:
    """The queues of the socket of a descriptor, which stays open. Raises OSError if it is none."""
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        found = _MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))
    return SocketQueue(found[0], found[2], found[8])
