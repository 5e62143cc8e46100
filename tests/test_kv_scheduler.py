"""The scheduler as a program."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from host_stack.kv import Node, Role
from host_stack.kv.scheduler import main
from tests.kv_jobs import HOST, LIMIT_S, config, together

ENV = {
    "DMLC_ROLE": "worker",
    "DMLC_PS_ROOT_URI": HOST,
    "DMLC_PS_ROOT_PORT": "1",
    "DMLC_NUM_WORKER": "1",
    "DMLC_NUM_SERVER": "1",
}


@contextlib.contextmanager
def launch(*arguments: str, env: dict[str, str] | None = None) -> Iterator["subprocess.Popen[str]"]:
    """Run the program with pipes; nothing of it outlives the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "host_stack.kv.scheduler", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (env or {}),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("by_environment", [False, True])
def test_program_serves_one_job_and_exits(by_environment: bool) -> None:
    """It reports readiness, the roster and the end, and exits with 0."""
    arguments = () if by_environment else ("--workers", "1", "--servers", "1")
    env = ENV | {"DMLC_ROLE": "scheduler", "DMLC_PS_ROOT_PORT": "0"}
    with launch(*arguments, "--log-format", "json", env=env) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        assert ready["host"] == HOST
        nodes = [Node(config(role, ready["port"], 1, 1)) for role in (Role.WORKER, Role.SERVER)]
        together(*(node.start for node in nodes))
        roster = json.loads(process.stdout.readline())
        assert [node["id"] for node in roster["nodes"]][-1] == 1
        assert {node["role"] for node in roster["nodes"]} == {"worker", "server", "scheduler"}
        together(*(node.finalize for node in nodes))
        output, errors = process.communicate(timeout=LIMIT_S)
        assert json.loads(output) == {"event": "done"}
        assert [json.loads(line)["text"] for line in errors.splitlines()] == [
            "listening",
            "all nodes have registered",
            "all nodes have finished",
        ]
        assert process.returncode == 0


def test_port_in_use_is_one_line() -> None:
    """The second scheduler on a port says so and exits with 1."""
    first = Node(config(Role.SCHEDULER, 0, 1, 1))
    port = first.bind()
    try:
        with launch("--port", str(port), "--workers", "1", "--servers", "1") as process:
            _, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 1
        assert errors.count("\n") == 1
        assert f"cannot listen on {HOST}:{port}" in errors
    finally:
        first.close()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--workers", "0", "--servers", "1"), 2, "num_workers = 0"),
        (("--workers", "1", "--servers", "1", "--port", "70000"), 2, "root_port = 70000"),
        (("--workers", "1"), 2, "--workers and --servers go together"),
        ((), 2, "DMLC_ROLE = worker: this is the scheduler"),
        (("--workers", "1", "--servers", "1", "--host", "no such"), 2, "cannot be resolved"),
        (
            ("--workers", "2", "--servers", "1", "--start-timeout-s", "0.1"),
            1,
            "2 of 2 workers and 1 of 1 servers have not registered",
        ),
    ],
)
def test_failures_are_one_line_and_a_code(arguments, code, words, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Never a traceback."""
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        assert main(arguments) == code
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)
    *logged, error = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert words in error
    assert all(line.endswith(" info scheduler: listening") for line in logged)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_quietly(number: signal.Signals) -> None:
    """A stopped scheduler leaves no traceback, but its log."""
    with launch("--workers", "1", "--servers", "1") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number
    assert [line.split(" ", 1)[1] for line in errors.splitlines()] == ["info scheduler: listening"]
