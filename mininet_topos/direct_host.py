"""The process of a server in a direct-connect network: real rings, real transfers.

    python -m mininet_topos.direct_host FILE

FILE is what `direct_traffic` wrote for this server. The process connects, says `ready`, waits for
a line on its standard input, communicates, checks every sum, and says `done` with the times.
"""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PORT = 5210
CONNECT_S = 60.0
IDLE_S = 120.0
"""How long nothing may arrive before the process gives up."""
_LABEL_BYTES = 32
_PIECE_BYTES = 1 << 16
_CHUNK_VALUES = 1 << 12
_HIGHEST = 1024
"""Values are whole numbers below it, so that sums in float32 are exact."""


def vector(member: int, values: int, seed: int) -> npt.NDArray[np.float32]:
    """What a member reduces: whole numbers in float32, (values,)."""
    random = np.random.default_rng([seed, member])
    return random.integers(0, _HIGHEST, values).astype(np.float32)


class Sockets:
    """Connections by label: those that others open to us, and those that we open."""

    def __init__(self, expected: int, window_bytes: int) -> None:
        self._listener = socket.create_server(("0.0.0.0", PORT), backlog=4096)  # noqa: S104  own namespace
        # Connections inherit it: no more than so much is under way on one.
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window_bytes)
        self._accepted: dict[str, socket.socket] = {}
        self._ready = threading.Event()
        self._expected = expected
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while len(self._accepted) < self._expected:
            connection, _ = self._listener.accept()
            label = bytearray(_LABEL_BYTES)
            receive(connection, memoryview(label))
            self._accepted[bytes(label).rstrip(b"\0").decode()] = connection
        self._ready.set()

    def wait(self) -> dict[str, socket.socket]:
        """All expected connections, by label; TimeoutError if they do not come."""
        if not self._ready.wait(CONNECT_S):
            raise TimeoutError(f"{len(self._accepted)} of {self._expected} connections came")
        return self._accepted

    @staticmethod
    def connect(label: str, to: str, source: str) -> socket.socket:
        """Open a connection along a route; OSError if nobody answers in time."""
        deadline = time.monotonic() + CONNECT_S
        while True:
            try:
                made = socket.create_connection((to, PORT), CONNECT_S, (source, 0))
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        made.settimeout(IDLE_S)
        made.sendall(label.encode().ljust(_LABEL_BYTES, b"\0"))
        return made


def tcp_counters(snmp: str) -> dict[str, int]:
    """TCP's counters of this network namespace, from the text of /proc/net/snmp."""
    names, values = (line.split()[1:] for line in snmp.splitlines() if line.startswith("Tcp:"))
    return {name: int(value) for name, value in zip(names, values, strict=True)}


def receive(connection: socket.socket, view: memoryview) -> None:
    """Fill a buffer from a connection; ConnectionError if it ends before."""
    connection.settimeout(IDLE_S)
    while len(view):
        count = connection.recv_into(view)
        if not count:
            raise ConnectionError("a peer closed its connection too early")
        view = view[count:]


def allreduce(
    values: npt.NDArray[np.float32],
    position: int,
    members: int,
    into: socket.socket,
    out: socket.socket,
) -> None:
    """Sum a vector with those of the ring's other members, in place: float32, (v,).

    Reduce-scatter, then all-gather: 2 (g − 1) steps, each with one of g pieces. What a member
    receives it adds and hands on in chunks, while the rest of a piece is still arriving: its link
    has up to a piece to send at any time, and does not wait for processes at every step.
    """
    bounds = np.linspace(0, len(values), members + 1).astype(np.int64)
    pieces = [values[a:b] for a, b in pairwise(bounds)]
    arriving = np.empty(_CHUNK_VALUES, dtype=np.float32)
    outgoing: queue.Queue[bytes | None] = queue.Queue()
    failed: list[OSError] = []

    def send() -> None:
        try:
            while (data := outgoing.get()) is not None:
                out.sendall(data)
        except OSError as error:
            failed.append(error)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    steps = 2 * (members - 1)
    outgoing.put(pieces[position].tobytes())
    for step in range(steps):
        piece = pieces[(position - step - 1) % members]
        for first in range(0, len(piece), _CHUNK_VALUES):
            chunk = piece[first : first + _CHUNK_VALUES]
            view = arriving[: len(chunk)]
            receive(into, view.data.cast("B"))
            if step < members - 1:
                chunk += view
            else:
                chunk[:] = view
            if step < steps - 1:
                outgoing.put(chunk.tobytes())
    outgoing.put(None)
    sender.join()
    if failed:
        raise failed[0]


class Traffic:
    """What a server does, as told by its file."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told
        self._ends: dict[str, float] = {}
        self._errors: list[str] = []
        self._out: dict[str, socket.socket] = {}
        self._into: dict[str, socket.socket] = {}

    def connect(self) -> None:
        """Open and accept all connections."""
        told = self._told
        expected = len(told["rings"]) + len(told["receives"])
        sockets = Sockets(expected, told["window_bytes"])
        for each in (*told["rings"], *told["sends"]):
            label = each["label"]
            self._out[label] = Sockets.connect(label, each["to"], each["source"])
        self._into = sockets.wait()

    def run(self) -> dict[str, Any]:
        """Communicate; returns start and ends by label, in seconds of the machine's clock."""
        works: list[tuple[str, Callable[[], None]]] = []
        for each in self._told["rings"]:
            works.append((each["label"], lambda each=each: self._ring(each)))  # type: ignore[misc]
        for each in self._told["sends"]:
            works.append(("", lambda each=each: self._send(each)))  # type: ignore[misc]
        for each in self._told["receives"]:
            works.append((each["label"], lambda each=each: self._receive(each)))  # type: ignore[misc]
        threads = [threading.Thread(target=self._work, args=work) for work in works]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {
            "start_s": start,
            "ends_s": self._ends,
            "errors": self._errors,
            "tcp": tcp_counters(Path("/proc/net/snmp").read_text()),
        }

    def _work(self, label: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, ArithmeticError) as error:
            self._errors.append(f"{label}: {error}")
        else:
            if label:
                self._ends.setdefault(label, time.monotonic())

    def _ring(self, told: dict[str, Any]) -> None:
        label, members = told["label"], told["members"]
        values = vector(told["server"], told["values"], told["seed"])
        position = told["position"]
        allreduce(values, position, len(members), self._into[label], self._out[label])
        self._ends[label] = time.monotonic()  # before the sum is checked
        expected = sum(vector(each, told["values"], told["seed"]) for each in members)
        if not np.array_equal(values, expected):
            raise ArithmeticError("the sum of the ring is wrong")

    def _send(self, told: dict[str, Any]) -> None:
        left, piece = told["size_bytes"], bytes(_PIECE_BYTES)
        while left > 0:
            self._out[told["label"]].sendall(piece[:left])
            left -= len(piece)

    def _receive(self, told: dict[str, Any]) -> None:
        buffer = memoryview(bytearray(_PIECE_BYTES))
        left = told["size_bytes"]
        while left > 0:
            receive(self._into[told["label"]], buffer[:left])
            left -= len(buffer)


def main() -> None:
    """Run the process of one server."""
    traffic = Traffic(json.loads(Path(sys.argv[1]).read_text()))
    traffic.connect()
    print(json.dumps({"event": "ready"}), flush=True)
    sys.stdin.readline()
    print(json.dumps({"event": "done", **traffic.run()}), flush=True)


if __name__ == "__main__":
    main()
