"""p4runtime-shell, unmodified and in an environment of its own, drives the switch."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.tls import TlsFiles
from tests.certificates import Authority, needs_openssl
from tests.p4rt_support import CPU_PORT, JSON_PATH, P4INFO_PATH, TIMEOUT_S

pytest_plugins = ("tests.p4rt_fixtures",)

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-shell" / "bin" / "python"
SESSION = Path(__file__).with_name("p4runtime_shell_session.py")


def needs_shell(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that needs the shell's environment; it is skipped where that is missing."""
    missing = pytest.mark.skipif(
        not any(PYTHON.parents[1].glob(".installed-*")),
        reason="needs p4runtime-shell in .venv-shell: setup/shell_venv.sh .venv-shell",
    )
    marked: Callable[..., None] = missing(pytest.mark.shell(pytest.mark.compiler(test)))
    return marked


def shell(commands: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `make shell`'s script, with what a user types."""
    return subprocess.run(
        [ROOT / "setup" / "shell.sh", ".venv-shell"],
        cwd=ROOT,
        input=commands,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S * 2,
        check=False,
        env={**os.environ, **variables},
    )


def session(address: str, *files: Path) -> dict[str, object]:
    """Run the session and return what it saw."""
    result = subprocess.run(
        [PYTHON, SESSION, address, P4INFO_PATH, JSON_PATH, *files],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S * 2,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    seen: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
    return seen


EXPECTED = {
    "l2": [["aa", "04"]],
    "routes": 1,
    "acl": 1,
    "left": 0,
    "cells": 16,
    "cell": 9,
    "direct": 1,
    "groups": [2],
    "sessions": [7],
    "same": True,
}


def check(seen: dict[str, object]) -> None:
    """Check what a session saw."""
    assert str(seen.pop("version")).startswith("1.4.")
    assert "ALREADY_EXISTS" in str(seen.pop("error"))
    assert seen == EXPECTED


@needs_shell
def test_session(empty_switch: P4RuntimeServer) -> None:
    """It pushes the pipeline, writes and reads entities of many kinds, and exchanges packets."""
    check(session(empty_switch.address))


@needs_shell
@needs_openssl
def test_session_with_mutual_tls(p4rt_cache: Path, tmp_path: Path) -> None:
    """The same over mutual TLS."""
    authority = Authority(tmp_path)
    server_pair, client_pair = authority.issue("switch"), authority.issue("shell")
    tls = TlsFiles(server_pair.cert, server_pair.key, authority.cert)
    with P4RuntimeServer("127.0.0.1:0", cache_dir=p4rt_cache, cpu_port=CPU_PORT, tls=tls) as server:
        check(session(server.address, authority.cert, client_pair.cert, client_pair.key))


@needs_shell
def test_make_shell(switch: P4RuntimeServer) -> None:
    """The shell opens on a running switch and does what is typed."""
    commands = (
        "te = table_entry['SwitchIngress.l2'](action='SwitchIngress.forward')\n"
        "te.match['dst'] = '00:00:00:00:00:01'\n"
        "te.action['port'] = '5'\n"
        "te.insert()\n"
        "exit()\n"
    )
    result = shell(commands=commands, ADDRESS=switch.address)
    assert result.returncode == 0, result.stderr
    assert "Welcome to the IPython shell for P4Runtime" in result.stdout
    assert switch.dataplane is not None
    (entry,) = switch.dataplane.table_entries("SwitchIngress.l2")
    assert (entry.key[0].value, entry.params) == (1, (5,))


@needs_shell
def test_make_shell_pushes_a_pipeline(empty_switch: P4RuntimeServer) -> None:
    """P4INFO and JSON are pushed first; what the shell cannot do is an error."""
    files = {"P4INFO": str(P4INFO_PATH), "JSON": str(JSON_PATH)}
    result = shell("exit()\n", ADDRESS=empty_switch.address, **files)
    assert result.returncode == 0, result.stderr
    assert empty_switch.dataplane is not None
    result = shell("exit()\n", ADDRESS=empty_switch.address, DEVICE_ID="7", **files)
    assert result.returncode == 1
    assert "p4runtime-shell ended with an error" in result.stderr


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ADDRESS": "127.0.0.1:1"}, r"no switch serves P4Runtime at 127.0.0.1:1\. Start one"),
        ({"P4INFO": "x"}, "P4INFO and JSON go together"),
        ({"P4INFO": "/nowhere", "JSON": "/nowhere"}, "cannot read /nowhere"),
        ({"TLS_CA": "/nowhere"}, "cannot read /nowhere"),
    ],
)
def test_make_shell_says_what_to_do(variables: dict[str, str], words: str) -> None:
    """Without a switch, or with wrong variables, one line says what to do."""
    result = shell(**variables)
    assert result.returncode == 1
    assert re.search(words, result.stderr)
    assert len(result.stderr.splitlines()) == 1
