"""Compiling and caching of generated sources."""

from __future__ import annotations

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
