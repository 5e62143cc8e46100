"""Whether network interfaces have a link."""

from __future__ import annotations

import fcntl
import socket
import struct
import sys

_SIOCGIFFLAGS = 0x8913
_IFF_UP, _IFF_RUNNING = 0x1, 0x40
_NAME_BYTES = 16


def link_is_up(ifname: str) -> bool:
    """Return True when an interface exists, is up and has a carrier."""
    request = struct.pack("16sH14x", ifname.encode()[: _NAME_BYTES - 1], 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, _SIOCGIFFLAGS, request)
        except OSError:
            return False
    flags = int.from_bytes(answer[_NAME_BYTES : _NAME_BYTES + 2], sys.byteorder)
    return flags & (_IFF_UP | _IFF_RUNNING) == _IFF_UP | _IFF_RUNNING
