"""TCP flows between two processes, for as long as is asked: `python -m planner.flows receive|send`.

The receiver counts, after a warm-up. Both end by themselves, at the latest `PATIENCE_S` after the
time that they were told.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

CHUNK_BYTES = 1 << 18
PATIENCE_S = 10.0
WARM_UP = 0.25
"""Share of the time that is not counted: windows open meanwhile."""


def receive(address: str, flows: int, seconds: float) -> None:
    """Accept flows at any free port, which an event tells; then tell bytes and seconds."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((address, 0), backlog=flows))
        listener.settimeout(PATIENCE_S)
        _tell({"event": "ready", "port": listener.getsockname()[1]})
        accepted = [stack.enter_context(listener.accept()[0]) for _ in range(flows)]
        buffer = bytearray(CHUNK_BYTES)
        take: Callable[[socket.socket], int] = lambda flow: flow.recv_into(buffer)  # noqa: E731
        _pump(accepted, selectors.EVENT_READ, take, WARM_UP * seconds)
        begin = time.monotonic()
        received = _pump(accepted, selectors.EVENT_READ, take, seconds)
        elapsed_s = time.monotonic() - begin
        _tell({"event": "received", "bytes": received, "seconds": elapsed_s})


def send(address: str, port: int, flows: int, seconds: float) -> None:
    """Fill flows to a receiver until it closes them."""
    chunk = bytes(CHUNK_BYTES)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection((address, port), timeout=PATIENCE_S))
            for _ in range(flows)
        ]
        with suppress(ConnectionError):
            _pump(
                opened,
                selectors.EVENT_WRITE,
                lambda flow: flow.send(chunk),
                (1 + WARM_UP) * seconds + PATIENCE_S,
            )


def _tell(event: dict[str, float | str]) -> None:
    """An event for the process that started this one, see `mininet_topos.processes`."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _pump(
    flows: list[socket.socket], event: int, move: Callable[[socket.socket], int], seconds: float
) -> int:
    """Move bytes wherever that is possible without waiting, until the time is over: how many."""
    moved, end = 0, time.monotonic() + seconds
    with selectors.DefaultSelector() as ready:
        for flow in flows:
            flow.setblocking(False)
            ready.register(flow, event)
        while (left_s := end - time.monotonic()) > 0:
            for key, _ in ready.select(left_s):
                assert isinstance(key.fileobj, socket.socket)  # noqa: S101
                with suppress(BlockingIOError):
                    moved += move(key.fileobj)
    return moved


def main() -> None:
    """Run one side."""
    parser = argparse.ArgumentParser(prog="python -m planner.flows", description=main.__doc__)
    parser.add_argument("side", choices=("receive", "send"))
    parser.add_argument("address")
    parser.add_argument("--port", type=int, default=0, help="of the receiver, for send")
    parser.add_argument("--flows", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    if options.side == "receive":
        receive(options.address, options.flows, options.seconds)
    else:
        send(options.address, options.port, options.flows, options.seconds)


if __name__ == "__main__":
    main()
