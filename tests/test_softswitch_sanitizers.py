"""Generated switches, compiled with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from controller.artifacts import Artifact
from host_stack.wire import DrainFormat
from softswitch import dataplane
from softswitch.capture import CaptureOptions
from softswitch.compiler import build
from softswitch.dataplane import DataPlane, Direction, LinkFaults, MatchKey, TableEntry
from tests.sanitized import compile_sanitized, environment, sanitizer_library, use_sanitizers
from tests.switch_under_test import embedded

TIMEOUT_S = 600
"""For sanitized programs, which compilers and processors need minutes for where others run too."""

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.timeout(TIMEOUT_S),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="preloads the sanitizers"),
]

ROOT = Path(__file__).parents[1]
LIBRA = ROOT / "p4src" / "build" / "libra.json"
ROLLS = "random_copies and not processors and (1 or 2 or 3) or registers or signs"
"""Tests of loops with small programs. Libra's is in `test_all_lanes_are_clean`; the same without
loops, which others compare it with, takes a compiler minutes under the sanitizers."""

OVERFLOW = "int broken(int n) { int a[4] = {0}; return a[n]; }\n"
SHIFT = "int broken(int n) { return 1 << (n + 28); }\n"


@pytest.fixture(autouse=True)
def needs_sanitizers() -> None:
    """Skip where the compiler has none."""
    if sanitizer_library() is None:
        pytest.skip("the compiler has no address sanitizer")


def run(log: Path, *words: str, leaks: bool = False) -> tuple[int, str]:
    """Run Python under the sanitizers; return its exit code, and its output with all reports.

    What it has started is ended with it, compilers too, and keeps no pipe open: output is a file.
    """
    with (log / "output").open("w+") as output:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=environment(log / "report", leaks=leaks),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(TIMEOUT_S - 20)
        except subprocess.TimeoutExpired:
            output.seek(0)
            pytest.fail(f"{' '.join(words)} is not ready in time:\n{output.read()[-6000:]}")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        reports = [path.read_text(errors="replace") for path in sorted(log.glob("report*"))]
        return process.returncode, "\n".join([output.read(), *reports])


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("links", "capture"), ""),
        (("engine", "churn", "ternary"), ""),
        (("rolls",), ROLLS),
    ],
    ids=["links capture", "engine churn ternary", "rolls"],
)
def test_suites_are_clean(names: tuple[str, ...], chosen: str, tmp_path: Path) -> None:
    """Modules of tests pass without a report."""
    files = [f"tests/test_softswitch_{name}.py" for name in names]
    words = ("-q", "-x", "-m", "not root", "-k", chosen)
    code, text = run(tmp_path, "-m", "tests.sanitized", *words, *files)
    assert code == 0, text[-6000:]
    assert " passed" in text


@pytest.mark.parametrize("source", [OVERFLOW, SHIFT], ids=["address", "undefined"])
def test_sanitizers_do_report(source: str, tmp_path: Path) -> None:
    """A library that is wrong ends its process with a report."""
    library = build(source, tmp_path / "cache", sanitize=True)
    code, text = run(tmp_path, "-c", f"import ctypes; ctypes.CDLL({str(library)!r}).broken(4)")
    assert code != 0
    assert "in broken" in text


def test_all_lanes_are_clean(tmp_path: Path) -> None:
    """Random packets, such as Libra's, and gradients, through the program with 32 lanes."""
    code, text = run(tmp_path, "-m", "tests.test_softswitch_sanitizers", "lanes")
    assert (code, "clean" in text) == (0, True), text[-6000:]


def test_a_closed_switch_leaves_nothing(tmp_path: Path) -> None:
    """What the engine has allocated is freed, whatever was still waiting."""
    words = ("-m", "tests.test_softswitch_sanitizers", "close", str(tmp_path))
    code, text = run(tmp_path, *words, leaks=True)
    assert (code, "clean" in text) == (0, True), text[-6000:]
    blocks = [block for block in text.split("\n\n") if "leak of" in block and " in ss_" in block]
    assert blocks == []


def pass_lanes() -> None:
    """Run random packets through all of Libra's pipeline."""
    rng = random.Random(3)
    with DataPlane.load(LIBRA.read_bytes()) as switch:
        for number in range(1, 5):
            switch.mcast_group_set(number, [(1, 1), (2, 2)])
        for _ in range(2000):
            ethernet = rng.randbytes(12) + b"\x08\0"
            ip = b"\x45\0" + rng.randbytes(7) + b"\x11" + rng.randbytes(10)
            udp = rng.randbytes(2) + (19522).to_bytes(2, "big") + rng.randbytes(4)
            libra = bytes([0x10 | rng.randrange(8)]) + rng.randbytes(rng.randrange(250))
            switch.inject(rng.randrange(8), (ethernet + ip + udp + libra)[: rng.randrange(400)])
    push_lanes()


def push_lanes() -> None:
    """Add gradients up, of any bits and such as jobs have, and drain them in both formats."""
    bits = np.random.default_rng(7)
    with embedded(Artifact.load(), workers=2) as switch:
        lanes = switch.artifact.layout.lanes
        for number in range(100):
            values = bits.integers(0, 1 << 32, lanes, dtype=np.uint32).view(np.float32)
            if number % 4:
                values = bits.standard_normal(lanes).astype(np.float32)
            record = switch.grad(number % 2, bits.integers(0, 8, lanes), values, 0)
            record["used"] &= bits.integers(0, 1 << lanes, dtype=np.uint64)
            switch.push(number % 2, record)
            switch.drain(number % 8, 3, list(DrainFormat)[number % 2], 0)


def close_busy(folder: Path) -> None:
    """Close a switch with entries, groups, waiting packets and a capture in progress."""
    for name in ("router", "replication"):
        source = (ROOT / "tests" / "p4" / f"softswitch_{name}.json").read_bytes()
        with DataPlane.load(source) as switch:
            switch.capture_start(CaptureOptions.create(folder / name))
            switch.mcast_group_set(1, [(1, 1), (2, 2)])
            switch.clone_session_set(1, [(1, 1)])
            for port in range(4):
                faults = LinkFaults(duplicate=0.5, reorder=0.5, delay_s=1.0)
                switch.set_link_faults(port, Direction.RX, faults)
            if name == "router":
                for number in range(100):
                    key = (MatchKey(number << 12, prefix_len=24),)
                    route = TableEntry(key, 0, "RouterIngress.route", (1, 2))
                    switch.table_add("RouterIngress.routes", route)
            for number in range(200):
                switch.inject(number % 4, bytes([number % 12]) * 60)


if __name__ == "__main__":
    use_sanitizers()
    assert dataplane.compile_program is compile_sanitized  # type: ignore[attr-defined]
    if sys.argv[1] == "lanes":
        pass_lanes()
    else:
        close_busy(Path(sys.argv[2]))
    print("clean")
