"""Generated switches, compiled with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from softswitch import dataplane
from softswitch.capture import CaptureOptions
from softswitch.compiler import build
from softswitch.dataplane import DataPlane, Direction, LinkFaults, MatchKey, TableEntry
from tests.sanitized import compile_sanitized, environment, sanitizer_library, use_sanitizers

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="preloads the sanitizers"),
]

ROOT = Path(__file__).parents[1]
LIBRA = ROOT / "p4src" / "build" / "libra.json"
OVERFLOW = "int broken(int n) { int a[4] = {0}; return a[n]; }\n"
SHIFT = "int broken(int n) { return 1 << (n + 28); }\n"


@pytest.fixture(autouse=True)
def needs_sanitizers() -> None:
    """Skip where the compiler has none."""
    if sanitizer_library() is None:
        pytest.skip("the compiler has no address sanitizer")


def run(log: Path, *words: str, leaks: bool = False) -> tuple[int, str]:
    """Run Python under the sanitizers; return its exit code, and its output with all reports."""
    result = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment(log / "report", leaks=leaks),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    reports = [path.read_text(errors="replace") for path in sorted(log.glob("report*"))]
    return result.returncode, "\n".join([result.stdout, result.stderr, *reports])


@pytest.mark.parametrize(
    "names",
    [("links", "capture"), ("engine", "churn", "ternary"), ("rolls",)],
    ids=" ".join,
)
def test_suites_are_clean(names: tuple[str, ...], tmp_path: Path) -> None:
    """Whole modules of tests pass without a report."""
    files = [f"tests/test_softswitch_{name}.py" for name in names]
    code, text = run(tmp_path, "-m", "tests.sanitized", "-q", "-x", "-m", "not root", *files)
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
    """Random packets, and such as Libra's, through the program with 32 lanes."""
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
