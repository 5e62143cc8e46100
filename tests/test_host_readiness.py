"""Waiting for a descriptor."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from host_stack.readiness import wait_readable, wait_writable

DESCRIPTORS = 2048


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a stream that do not block."""
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


def test_what_waits_is_readable(pair: tuple[socket.socket, socket.socket]) -> None:
    """Before and after something has come, and behind the end."""
    one, other = pair
    assert not wait_readable(one.fileno(), 0)
    other.send(b"x")
    assert wait_readable(one.fileno(), 30)
    one.recv(1)
    assert not wait_readable(one.fileno(), 0)
    other.close()
    assert wait_readable(one.fileno(), 30)


def test_what_is_full_is_not_writable(pair: tuple[socket.socket, socket.socket]) -> None:
    """Until the other end has read."""
    one, other = pair
    assert wait_writable(one.fileno(), 30)
    with pytest.raises(BlockingIOError):
        while True:
            one.send(bytes(1 << 16))
    assert not wait_writable(one.fileno(), 0)
    while wait_readable(other.fileno(), 0):
        other.recv(1 << 16)
    assert wait_writable(one.fileno(), 30)


@pytest.mark.parametrize("timeout_s", [-1.0, 0.0, 0.0003, 0.0101])
def test_a_time_out_is_not_cut_short(
    pair: tuple[socket.socket, socket.socket], timeout_s: float
) -> None:
    """Not to whole milliseconds either."""
    started_s = time.monotonic()
    assert not wait_readable(pair[0].fileno(), timeout_s)
    assert time.monotonic() - started_s >= timeout_s


def test_a_time_out_without_end(pair: tuple[socket.socket, socket.socket]) -> None:
    """It ends with what it waits for."""
    pair[1].send(b"x")
    assert wait_readable(pair[0].fileno(), float("inf"))


def test_a_closed_descriptor() -> None:
    """An error, and not a silence."""
    one, other = socket.socketpair()
    number = one.fileno()
    one.close()
    for descriptor in (number, one.fileno()):
        for wait in (wait_readable, wait_writable):
            with pytest.raises(OSError, match="Bad file descriptor"):
                wait(descriptor, 30)
    other.close()


SESSION = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)
taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(1100)]
from tests import test_host_drain, test_host_probe, test_host_transport, test_job
from host_stack.wake import Wake
from tests.host_support import VirtualTime
clock = VirtualTime()
test_host_drain.module.time, test_host_drain.module.wait_readable = clock, clock.wait_readable
assert Wake().fileno() > 1023
test_host_drain.test_the_link_is_not_flooded()
test_host_probe.test_a_switch_of_the_same_layout_answers()
test_host_transport.test_send_all_waits_for_room()
test_job.test_faulty_network_keeps_the_bits()
"""


def test_a_process_with_many_descriptors() -> None:
    """A user's process may have more than 1,023 open: push, drain, probe and wait all the same."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        pytest.skip(f"only {hard} files may be open here")
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(DESCRIPTORS)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
