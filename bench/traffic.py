"""The load generator and the reflector of `traffic.c`, as ctypes functions."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from host_stack.codec import Bytes
from host_stack.errors import BadInput, LibraError
from softswitch.compiler import build

SOURCE = Path(__file__).parent / "traffic.c"


class TrafficFailed(LibraError):
    """The load generator or the reflector could not open or use an interface."""


class _Flow(ctypes.Structure):
    """struct flow of traffic.c."""

    _fields_ = (
        ("fd", c_int32),
        ("count", c_uint32),
        ("size", c_uint32),
        ("window", c_uint32),
        ("frames", c_void_p),
        ("counter_at", c_uint32),
        ("checksum_at", c_uint32),
        ("counter", c_uint32),
        ("next", c_uint32),
        ("in_flight", c_uint32),
        ("answer_size", c_uint32),
        ("sent", c_uint64),
        ("answered", c_uint64),
        ("lost", c_uint64),
        ("strange", c_uint64),
    )


@dataclass(frozen=True)
class Load:
    """What is sent into one interface.

    Attributes:
        ifname: interface of the generator.
        frames: uint8[n, size], sent one after another, again and again.
        window: frames in flight.
        answer_bytes: size of an answer.
        counter_at: offset of a 32-bit counter that no two frames share; 0 for none.
        checksum_at: offset of an Internet checksum that covers the counter; 0 for none.
        first: where the counter starts.
    """

    ifname: str
    frames: Bytes
    window: int
    answer_bytes: int
    counter_at: int = 0
    checksum_at: int = 0
    first: int = 1

    def __post_init__(self) -> None:
        count, size = self.frames.shape
        if count < 1 or self.window < 1:
            raise BadInput(f"{count} frames and a window of {self.window}: at least one of each")
        if self.counter_at and (self.counter_at % 2 or self.counter_at + 4 > size):
            raise BadInput(f"counter at byte {self.counter_at} of {size}: it is even and inside")


@dataclass(frozen=True)
class Sent:
    """What became of a load.

    Attributes:
        seconds: from the first frame to the last answer.
        sent, answered, lost: frames; strange: answers of another size, or that nobody asked for.
    """

    seconds: float
    sent: int
    answered: int
    lost: int
    strange: int

    @property
    def packets_per_s(self) -> float:
        """Answered frames per second."""
        return self.answered / self.seconds if self.seconds else 0.0


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build(SOURCE.read_text())))
    library.bench_open.argtypes = [c_char_p]
    library.bench_generate.restype = c_int64
    library.bench_generate.argtypes = [POINTER(_Flow), c_uint32, c_uint64]
    library.bench_reflect.argtypes = [c_int, c_uint32, c_void_p]
    return library


@contextmanager
def open_socket(ifname: str) -> Iterator[int]:
    """A packet socket on an interface; `TrafficFailed` if there is none or it is not allowed."""
    fd = int(_library().bench_open(os.fsencode(ifname)))
    if fd < 0:
        raise TrafficFailed(f"no packet socket on {ifname!r}: {os.strerror(-fd)}")
    try:
        yield fd
    finally:
        os.close(fd)


class Generator:
    """Sends loads through interfaces; counters of frames go on from one `run` to the next."""

    def __init__(self, loads: Sequence[Load], sockets: Sequence[int]) -> None:
        self._frames = [np.ascontiguousarray(load.frames, np.uint8).copy() for load in loads]
        self._flows = (_Flow * len(loads))(
            *(
                _Flow(
                    fd=fd,
                    count=frames.shape[0],
                    size=frames.shape[1],
                    window=load.window,
                    frames=frames.ctypes.data,
                    counter_at=load.counter_at,
                    checksum_at=load.checksum_at,
                    counter=load.first,
                    answer_size=load.answer_bytes,
                )
                for load, fd, frames in zip(loads, sockets, self._frames, strict=True)
            )
        )

    def run(self, duration_s: float) -> Sent:
        """Keep the windows full for so long. The thread that calls is the generator's."""
        for flow in self._flows:
            flow.sent = flow.answered = flow.lost = flow.strange = 0
        elapsed = _library().bench_generate(self._flows, len(self._flows), int(duration_s * 1e9))
        if elapsed < 0:
            raise TrafficFailed(f"the load generator cannot send: {os.strerror(-elapsed)}")
        total = {
            name: sum(getattr(flow, name) for flow in self._flows)
            for name in ("sent", "answered", "lost", "strange")
        }
        return Sent(elapsed / 1e9, **total)


def reflect(ifname: str, answer_bytes: int, on_ready: Callable[[], None]) -> None:
    """Answer every frame on an interface with its first bytes, once it is `on_ready`.

    Does not return.
    """
    running = ctypes.c_int(0)
    with open_socket(ifname) as fd:
        on_ready()
        error = _library().bench_reflect(fd, answer_bytes, ctypes.byref(running))
    raise TrafficFailed(f"the reflector on {ifname!r} failed: {os.strerror(error)}")
