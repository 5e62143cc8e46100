"""What the kernel tells of a UDP socket."""

from __future__ import annotations

import os
import socket

import pytest

from host_stack.socket_queue import socket_queue


def test_what_waits_and_what_finds_no_room() -> None:
    """Datagrams that are not fetched wait; those behind a full buffer are counted."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
    ):
        here.bind(("127.0.0.1", 0))
        here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        here.setblocking(False)
        assert socket_queue(here.fileno()).receive_bytes == 0
        there.sendto(bytes(100), here.getsockname())
        one = socket_queue(here.fileno())
        assert one.receive_bytes >= 100
        assert one.drops == 0
        for _ in range(200):
            there.sendto(bytes(100), here.getsockname())
        fetched = 0
        while True:
            try:
                here.recv(200)
            except BlockingIOError:
                break
            fetched += 1
        end = socket_queue(here.fileno())
        assert (end.receive_bytes, fetched + end.drops) == (0, 201)
        assert end.drops > 0


def test_what_is_no_socket() -> None:
    """Nothing is guessed."""
    descriptor = os.eventfd(0)
    with pytest.raises(OSError, match="socket"):
        socket_queue(descriptor)
    os.close(descriptor)
