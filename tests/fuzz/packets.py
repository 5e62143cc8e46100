"""Target `packets`: frames into sanitized switches, with their coverage as the guide.

An input is a byte that names the program, two for the port, and the frame. A sanitizer's report
ends the process.
"""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Iterator
from pathlib import Path

from softswitch.codegen import generate
from softswitch.compiler import build, find_compiler
from softswitch.dataplane import DataPlane, Direction, LinkFaults, MatchKey, TableEntry
from softswitch.load import load_program
from tests.fuzz.mutate import mutate_bytes

TESTS = Path(__file__).parents[1]
NAMES = ("router", "replication", "headers", "externs")
FIRST = tuple(TESTS / "p4" / f"softswitch_{name}.json" for name in NAMES)
SOURCES = sorted((TESTS / "conformance" / "programs").glob("*.p4"))
MORE = tuple(path.with_suffix(".json") for path in SOURCES)
"""Left out of brief runs: each takes a second to compile."""

MAX_FRAME_BYTES = 12000
FLAGS = "-fsanitize-coverage=trace-pc -Wl,-Bsymbolic"
COVERAGE = Path(__file__).with_name("coverage.c")


class Packets:
    """Mutates frames; what reaches new code is mutated further."""

    def __init__(self, rng: random.Random, corpus: list[bytes], *, brief: bool = False) -> None:
        self._rng = rng
        self._switches = [start(path) for path in (FIRST if brief else FIRST + MORE)]
        for index in range(len(self._switches)):
            for op in range(16):
                corpus.append(bytes([index, 0, op % 4, op]) + rng.randbytes(60))
        self._pool = corpus
        self.reached = 0
        """Inputs that reached new code."""

    def inputs(self) -> Iterator[bytes]:
        """Return mutated frames without end."""
        yield from list(self._pool)
        while True:
            seed = self._rng.choice(self._pool)
            yield mutate_bytes(self._rng, seed, self._pool, MAX_FRAME_BYTES)

    def run(self, data: bytes) -> None:
        """Run a frame through its program."""
        if len(data) < 3:
            return
        switch = self._switches[data[0] % len(self._switches)]
        frame = data[3:10243]
        switch.inject(int.from_bytes(data[1:3], "big") % 511, frame)
        switch.advance(len(frame) * 1000)
        library = ctypes.CDLL(str(switch.library))
        if library.fuzz_take_new():
            self._pool.append(data)
            self.reached += 1

    def close(self) -> None:
        """Free the switches: what was lost or freed twice shows here."""
        for switch in self._switches:
            switch.close()


def start(path: Path) -> DataPlane:
    """Start a program with entries, sessions and faulty links."""
    program = load_program(path.read_bytes())
    before = os.environ.get("CC")
    os.environ["CC"] = " ".join((*find_compiler().command, FLAGS))
    try:
        library = build(generate(program) + COVERAGE.read_text(), sanitize=True)
    finally:
        del os.environ["CC"]
        if before is not None:
            os.environ["CC"] = before
    switch = DataPlane(program, library)
    for number in range(1, 5):
        switch.mcast_group_set(number, [(1, 1), (2, 2), (number, 3)])
        switch.clone_session_set(number, [(1, 1), (2, 2)], packet_length=7 * number)
    faults = LinkFaults(duplicate=0.1, reorder=0.2, loss=0.05, delay_s=1e-5, rate_bps=10**9)
    for direction in Direction:
        switch.set_link_faults(2, direction, faults)
    if "RouterIngress.routes" in program.tables:
        for number in range(256):
            key = (MatchKey(number << 24, prefix_len=8),)
            route = TableEntry(key, 0, "RouterIngress.route", (number % 4, 2))
            switch.table_add("RouterIngress.routes", route)
    return switch
