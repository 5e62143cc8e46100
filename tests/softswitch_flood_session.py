"""A switch whose port 0 is flooded, and what else it has to do; run in a network namespace.

Prints one JSON object with what was observed.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench.traffic import Generator, Load, Sent, open_socket
from softswitch.dataplane import DataPlane
from tests.softswitch_json import ProgramBuilder, assign, field
from tests.softswitch_port_session import frame, make_links, open_host, receive, wait_for

BYTES = 60
OTHERS = 50
"""Frames through the other port, one after another."""


def bounce_program() -> bytes:
    """Every frame leaves by the port that it came from."""
    b = ProgramBuilder()
    b.header("first", [["byte", 8, False]])
    b.deparser = ["first"]
    b.state("start", [b.extract("first")])
    spec = field("standard_metadata", "egress_spec")
    b.run("send", [assign(spec, field("standard_metadata", "ingress_port"))])
    return b.json()


def watched() -> int:
    """How many descriptors are in the epoll set of the switch."""
    fds = Path("/proc/self/fd")
    epolls = [fd.name for fd in fds.iterdir() if "eventpoll" in str(_target(fd))]
    assert len(epolls) == 1, epolls
    return Path(f"/proc/self/fdinfo/{epolls[0]}").read_text().count("tfd:")


def _target(fd: Path) -> str:
    try:
        return os.readlink(fd)
    except OSError:  # the descriptor that lists the folder
        return ""


@contextmanager
def flood(generator: Generator, seconds: float) -> Iterator[list[Sent]]:
    """Flood while the block runs, for at least so long; the list then holds what became of it."""
    stop, found = threading.Event(), []

    def run() -> None:
        while not stop.is_set():
            found.append(generator.run(seconds))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def observe() -> dict[str, object]:
    """Flood port 0 and use port 1, the control plane and the thread meanwhile."""
    make_links()
    other = open_host("host1")
    frames = np.frombuffer(frame(0, BYTES) * 64, np.uint8).reshape(64, BYTES)
    load = Load("host0", frames, window=64, answer_bytes=BYTES)
    with DataPlane.load(bounce_program()) as switch, open_socket("host0") as near:
        for i in range(2):
            switch.attach_port(i, f"port{i}")
        switch.start()
        generator, all_watched = Generator([load], [near]), watched()
        with flood(generator, 0.2) as runs:
            seen = [all_watched]
            wait_for(lambda: seen.append(watched()) or min(seen) < all_watched)
            answered = _echoes(other)
        calm = {
            "awake": min(seen) < all_watched,
            "others_answered": answered,
            "none_lost": all(run.lost == 0 and run.sent == run.answered for run in runs),
        }
        wait_for(lambda: watched() == all_watched)
        asleep = watched() == all_watched
        with flood(generator, 0.2):
            for _ in range(20):
                switch.detach_port(0)
                switch.attach_port(0, "port0")
                switch.stop()
                switch.start()
        after = generator.run(0.2)
        wait_for(lambda: watched() == all_watched)
        return {
            **calm,
            "asleep_again": asleep and watched() == all_watched,
            "none_lost_after": after.lost == 0 and after.sent == after.answered > 0,
            "no_port": switch.drop_stats()["no_port"],
        }


def _echoes(other: socket.socket) -> int:
    """Send frames through port 1, each when the last has come back."""
    for number in range(OTHERS):
        other.send(frame(number, BYTES))
        if receive(other, 1) != [frame(number, BYTES)]:
            return number
    return OTHERS


if __name__ == "__main__":
    print(json.dumps(observe()))
