"""The console command: ready line, clean stop, and errors of one line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4r, rpc_code

from softswitch import cli
from tests.p4rt_support import (
    IDS,
    JSON_PATH,
    P4INFO,
    P4INFO_PATH,
    TIMEOUT_S,
    Client,
    insert,
    l2_entry,
)

COMMAND = [sys.executable, "-c", "from softswitch.cli import main; main()"]


def run(*args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S * 4,
        check=False,
        env={**os.environ, **env},
    )


def fails(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """Check that a run failed with one line on stderr that holds all words."""
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("softswitch: ")
    assert all(word in line for word in words), line
    assert "Traceback" not in result.stderr


@contextmanager
def serving(*args: str | Path, **env: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """Start `softswitch run` and yield the process with its ready line."""
    process = subprocess.Popen(
        [*COMMAND, "run", "--grpc", "127.0.0.1:0", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


def test_help_and_version() -> None:
    """Help names every option and the ready line; the version is the package's."""
    assert "softswitch 0." in run("--version").stdout
    text = run("run", "--help").stdout
    for option in ("--grpc", "--interface", "--device-id", "--json", "--p4info", "--cpu-port"):
        assert option in text
    assert '"event": "ready"' in text
    assert "PROG.json" in run("compile", "--help").stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ready_and_stop(tmp_path: Path, number: signal.Signals) -> None:
    """It says where it serves, answers there, and stops cleanly on a signal."""
    log = tmp_path / "log"
    with serving("--device-id", "7", "--log-file", log) as (process, ready):
        assert ready["event"] == "ready"
        with Client(ready["grpc"]) as client:
            assert client.arbitrate(device_id=7).status.code == rpc_code.OK
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert "serving P4Runtime" in log.read_text()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "-i", "veth1"], ["-i veth1", "PORT@IFNAME"]),
        (["run", "-i", "x@veth1"], ["PORT@IFNAME"]),
        (["run", "-i", "511@lo"], ["0 to 510"]),
        (["run", "-i", "1@lo", "-i", "1@eth0"], ["port 1 is already taken"]),
        (["run", "-i", "1@lo", "-i", "2@lo"], ["lo is already attached"]),
        (["run", "-i", "1@lo", "--cpu-port", "1"], ["port 1 is already taken"]),
        (["run", "--cpu-port", "600"], ["--cpu-port", "510"]),
        (["run", "--device-id", "0"], ["--device-id", "equal to 1"]),
        (["run", "--device-id", str(2**64)], ["--device-id", "18446744073709551615"]),
        (["run", "--grpc", "localhost"], ["HOST:PORT"]),
        (["run", "--grpc", "127.0.0.1:99999"], ["HOST:PORT"]),
        (["run", "--json", "x.json"], ["--p4info"]),
        (["run", "--nonsense"], ["--nonsense"]),
        (["compile"], ["PROG.json"]),
    ],
)
def test_wrong_usage(args: list[str], words: list[str]) -> None:
    """Wrong arguments end with exit code 2 and a line that says what is right."""
    fails(run(*args), 2, *words)


def test_missing_files(tmp_path: Path) -> None:
    """Files that are not there, or not what they should be, are named."""
    fails(run("compile", tmp_path / "none.json"), 1, "none.json", "No such file")
    bad = tmp_path / "bad.txtpb"
    bad.write_text("not a P4Info")
    fails(run("run", "--json", JSON_PATH, "--p4info", bad), 1, "bad.txtpb", "P4Info")
    fails(run("run", "--log-file", tmp_path / "none" / "log"), 1, "none/log")


def test_missing_interface() -> None:
    """An interface that does not exist is refused at start, not when a pipeline arrives."""
    fails(run("run", "-i", "1@no-such-if"), 1, "no-such-if", "lo")


def test_no_raw_sockets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without CAP_NET_RAW the command says what it needs."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(cli.socket, "socket", refuse)
    monkeypatch.setattr(sys, "argv", ["softswitch", "run", "-i", "1@lo"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert "CAP_NET_RAW" in capsys.readouterr().err


def test_port_in_use() -> None:
    """A second server on a port is refused with the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        fails(run("run", "--grpc", address), 1, address, "in use")


@pytest.mark.compiler
def test_run_with_a_program(tmp_path: Path) -> None:
    """A program given at start runs at once; controllers can write and read."""
    files = ("--json", JSON_PATH, "--p4info", P4INFO_PATH, "--cache-dir", tmp_path)
    with serving(*files) as (_, ready), Client(ready["grpc"]) as client:
        client.arbitrate()
        assert client.get_config().config.p4info == P4INFO
        client.write(insert(table_entry=l2_entry(b"\x01")))
        query = p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["l2"]))
        assert client.read(query) == [p4r.Entity(table_entry=l2_entry(b"\x01"))]


@pytest.mark.root
@pytest.mark.compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a network namespace")
def test_interfaces() -> None:
    """On real interfaces frames are forwarded, flooded, and exchanged with the controller."""
    result = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", "from tests.p4rt_netns import main; main()"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S * 4,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["forwarded", "packet-in", "packet-out", "replaced"]


@pytest.mark.compiler
def test_compile(tmp_path: Path) -> None:
    """Compiling fills the cache and prints the library's path and the seconds."""
    result = run("compile", JSON_PATH, "--cache-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    path, seconds, unit = result.stdout.split()
    assert Path(path).is_file()
    assert Path(path).parent == tmp_path
    assert float(seconds) > 0
    assert unit == "s"
    again = run("compile", JSON_PATH, "--cache-dir", tmp_path)
    assert again.stdout.split()[0] == path


def test_bad_program(tmp_path: Path) -> None:
    """A file that is no bmv2 JSON is refused."""
    bad = tmp_path / "bad.json"
    bad.write_bytes(b"\x00 not JSON")
    fails(run("compile", bad, "--cache-dir", tmp_path), 1, "JSON")


def test_no_compiler(tmp_path: Path) -> None:
    """Without a C compiler the command says what to install."""
    for args in (("compile", JSON_PATH), ("run",)):
        result = run(*args, "--cache-dir", tmp_path, CC="/nonexistent/cc")
        fails(result, 1, "install gcc")
