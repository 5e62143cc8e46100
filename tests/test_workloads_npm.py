"""Tarballs of npm packages: the cache, npm as a process, and what goes wrong with it."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from workloads import cache, npm
from workloads.errors import WorkloadError

CONTENT = b"a tarball"


def package_of(content: bytes) -> npm.Package:
    """A package whose tarball is `content`."""
    return npm.Package("@a/b", "1.2.3", base64.b64encode(hashlib.sha512(content).digest()).decode())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and no program on PATH but those put there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def install_npm(home: Path, script: str) -> None:
    """Put a program `npm` on PATH: a shell script that gets the arguments of npm."""
    program = home / "bin" / "npm"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


PACKS = """[ "$1 $2 $3 $4" = "pack @a/b@1.2.3 --ignore-scripts --pack-destination" ] || exit 9
printf 'a tarball' > "$5/a-b-1.2.3.tgz\""""


def test_downloaded_once(home: Path) -> None:
    """It is asked for the first time; then the cache has it, and npm is not needed."""
    install_npm(home, PACKS)
    assert npm.tarball(package_of(CONTENT)) == CONTENT
    (home / "bin" / "npm").unlink()
    assert npm.tarball(package_of(CONTENT)) == CONTENT
    assert [path.name for path in cache.cache_dir().iterdir()] == ["a-b-1.2.3.tgz"]


def test_a_damaged_cache_is_downloaded_again(home: Path) -> None:
    """What is not the tarball is replaced."""
    install_npm(home, PACKS)
    cache.cache_dir().mkdir(parents=True)
    (cache.cache_dir() / "a-b-1.2.3.tgz").write_bytes(b"half a tarb")
    assert npm.tarball(package_of(CONTENT)) == CONTENT
    assert (cache.cache_dir() / "a-b-1.2.3.tgz").read_bytes() == CONTENT


def test_an_unwritable_cache_only_costs_time(home: Path) -> None:
    """The tarball is used all the same."""
    install_npm(home, PACKS)
    (home / "cache").write_text("")
    assert npm.tarball(package_of(CONTENT)) == CONTENT


def test_without_npm() -> None:
    """It says what is missing and where the tarball could be put instead."""
    with pytest.raises(WorkloadError, match=r"npm is not installed; .*a-b-1\.2\.3\.tgz, or use"):
        npm.tarball(package_of(CONTENT))


def test_npm_fails(home: Path) -> None:
    """The reason is npm's, in one line, without control characters."""
    install_npm(home, "printf 'npm error code ENOTFOUND\\nnpm error no \\033 way\\n' >&2; exit 1")
    with pytest.raises(WorkloadError, match=r"npm pack failed: code ENOTFOUND no \? way; install"):
        npm.tarball(package_of(CONTENT))


def test_npm_gives_nothing(home: Path) -> None:
    """An npm that ends well without a tarball has failed too."""
    install_npm(home, "exit 0")
    with pytest.raises(WorkloadError, match="npm pack failed: no reason given"):
        npm.tarball(package_of(CONTENT))


def test_another_tarball_is_refused(home: Path) -> None:
    """What the registry gives under the name is not taken unless it is what was expected."""
    install_npm(home, PACKS)
    with pytest.raises(WorkloadError, match=r"SHA-512 of the tarball is .* it is not used"):
        npm.tarball(package_of(b"something else"))
    assert not cache.cache_dir().exists()
