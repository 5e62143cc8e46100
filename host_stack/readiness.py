"""Waiting for one descriptor: of any number, and as exactly as the kernel's clock."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import select

MAX_WAIT_S = 1e6
"""Longer than anything here waits."""


class _PollFd(ctypes.Structure):
    _fields_ = (
        ("descriptor", ctypes.c_int),
        ("wanted", ctypes.c_short),
        ("found", ctypes.c_short),
    )


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_libc = ctypes.CDLL(None, use_errno=True)


def wait_readable(descriptor: int, timeout_s: float) -> bool:
    """Wait until something can be read, or its end or an error is there; false if nothing is.

    At most `timeout_s` seconds, in nanoseconds: `select` fails on descriptors above 1,023, such as
    a process with many files or connections has, and `poll` and `epoll` of Python round to
    milliseconds, which is too coarse for the pace of packets. A signal may end the wait early.

    Raises:
        OSError: the descriptor is closed.
    """
    return _wait(descriptor, select.POLLIN, timeout_s)


def wait_writable(descriptor: int, timeout_s: float) -> bool:
    """Wait until something can be written; otherwise as `wait_readable`."""
    return _wait(descriptor, select.POLLOUT, timeout_s)


def _wait(descriptor: int, wanted: int, timeout_s: float) -> bool:
    part_s, whole_s = math.modf(min(max(timeout_s, 0.0), MAX_WAIT_S))
    asked = _PollFd(descriptor, wanted, 0)
    timeout = _Timespec(int(whole_s), int(part_s * 1e9))
    count = _libc.ppoll(ctypes.byref(asked), ctypes.c_ulong(1), ctypes.byref(timeout), None)
    code = ctypes.get_errno() if count < 0 else 0
    # The kernel passes over negative descriptors: what is closed would seem to be silent.
    if descriptor < 0 or asked.found & select.POLLNVAL:
        code = errno.EBADF
    if code not in {0, errno.EINTR}:
        raise OSError(code, os.strerror(code))
    return bool(count > 0)
