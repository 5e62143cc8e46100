"""Compiling and caching of generated sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from softswitch.codegen import generate
from softswitch.compiler import build, default_cache_dir, find_compiler
from softswitch.errors import NoCompiler
from softswitch.load import load_program

PROGRAMS = Path(__file__).parent / "p4"
ROOT = Path(__file__).parent.parent


def source() -> str:
    """The C text of a small program."""
    return generate(load_program((PROGRAMS / "softswitch_externs.json").read_bytes()))


@pytest.mark.compiler
def test_the_cache_is_keyed_by_content(tmp_path: Path) -> None:
    """The same source gives the same library without a compilation; another one another."""
    cache = tmp_path / "cache"
    first = build(source(), cache)
    stamp = first.stat().st_mtime_ns
    assert build(source(), cache) == first
    assert first.stat().st_mtime_ns == stamp
    assert build(source() + "\n", cache) != first
    assert sorted(p.suffix for p in cache.iterdir()) == [".sha256", ".sha256", ".so", ".so"]


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """CC decides, and the error says what to do."""
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(NoCompiler, match=r"no-such-compiler was not found.*set CC"):
        find_compiler()


@pytest.mark.compiler
def test_a_failing_compiler_shows_its_message(tmp_path: Path) -> None:
    """The end of the compiler's output is part of the error."""
    with pytest.raises(NoCompiler, match="no_such_type"):
        build("no_such_type x;", tmp_path / "cache")


def test_a_cache_that_others_can_write_is_refused(tmp_path: Path) -> None:
    """Code is only loaded from a directory of one's own."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(NoCompiler, match="writable by another user"):
        build("int x;", shared)


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_CACHE_HOME comes first, then the home directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache_dir() == Path("/somewhere/softswitch")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_cache_dir() == Path("/home/me/.cache/softswitch")


SANITIZED = """
import random
from pathlib import Path
from softswitch.dataplane import DataPlane, MatchKey, TableEntry
rng = random.Random(5)
for name in ("router", "replication", "headers", "externs"):
    text = Path(f"tests/p4/softswitch_{name}.json").read_bytes()
    switch = DataPlane.load(text, cache_dir=Path(CACHE), sanitize=True)
    switch.mcast_group_set(1, [(1, 1), (2, 2)])
    switch.clone_session_set(1, [(1, 1), (2, 2)], packet_length=7)
    for number in range(3000):
        packet = bytearray(rng.randbytes(rng.randint(0, 90)))
        if packet:
            packet[0] = rng.randint(0, 12)
        if len(packet) > 3 and rng.random() < 0.5:
            packet[1:4] = bytes([rng.randint(0, 9), 0, rng.randint(0, 3)])
        if name == "router":
            packet[12:14] = b"\\x08\\0"
            if number < 500:
                key = (MatchKey(rng.getrandbits(32) & ~255, prefix_len=24),)
                route = TableEntry(key, 0, "RouterIngress.route", (1, 2))
                switch.table_add("RouterIngress.routes", route)
                if number % 2:
                    switch.table_delete("RouterIngress.routes", key, 0)
        switch.inject(rng.randint(0, 510), bytes(packet))
    switch.close()
print("clean")
"""


@pytest.mark.compiler
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="preloads the GCC sanitizers")
def test_random_packets_are_clean_under_sanitizers(tmp_path: Path) -> None:
    """No undefined behaviour and no access out of bounds, whatever a packet contains."""
    compiler = find_compiler().command[0]
    found = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    script = f"CACHE = {str(tmp_path / 'cache')!r}\n{SANITIZED}"
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": found, "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.stdout == "clean\n", result.stderr[-4000:]


@pytest.mark.compiler
@pytest.mark.parametrize("kept", [0, 60_000])
def test_a_damaged_library_is_built_again(kept: int, tmp_path: Path) -> None:
    """A truncated file in the cache would end the process that loads it."""
    text = "int answer(void) { return 42; }\n"
    library = build(text, tmp_path / "cache")
    whole = library.read_bytes()
    library.write_bytes(whole[: min(kept, len(whole) - 1)])
    assert build(text, tmp_path / "cache") == library
    assert len(library.read_bytes()) == len(whole)
