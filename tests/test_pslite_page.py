"""The programs of docs/pslite.md run as they stand there."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.kv_jobs import loopback_network

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "pslite.md"
LIMIT_S = 300.0


def blocks(heading: str, end: str) -> tuple[str, str]:
    """The Python program and the commands between two headings."""
    text = PAGE.read_text()
    section = text[text.index(heading) : text.index(end)]
    (program,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (commands,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    return program, commands


def program_and_commands() -> tuple[str, str]:
    """Those of the section that has a whole program."""
    return blocks("## A whole program", "## The environment")


def run(commands: str, folder: Path) -> str:
    """What commands of the page print, which end by themselves; what they leave is ended."""
    paths = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    shell = subprocess.Popen(
        ["bash", "-c", commands],
        cwd=folder,
        env=os.environ | paths,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, errors = shell.communicate(timeout=LIMIT_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # what is left of them
    assert "Traceback" not in errors, errors
    return printed


def pulled(printed: str) -> list[str]:
    """What workers print, each in a write of its own or in two: lines may run together."""
    return re.findall(r"\[[-0-9. ]+\]", printed)


def test_the_whole_program_gives_what_the_page_says(tmp_path: Path) -> None:
    """Both workers print the sums; scheduler, servers and workers end by themselves."""
    program, commands = program_and_commands()
    (tmp_path / "table.py").write_text(program)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    assert commands.count("DMLC_PS_ROOT_PORT=8000") == 1
    assert pulled(run(commands.replace("8000", port), tmp_path)) == ["[2. 4. 6.]"] * 2
    assert "both workers print `[2. 4. 6.]`" in PAGE.read_text()


@pytest.mark.parametrize("servers", [1, 2])
def test_the_same_program_runs_in_a_job(tmp_path: Path, servers: int) -> None:
    """As the page walks through it; with two servers, barriers are those of the first."""
    program, _ = program_and_commands()
    start, commands = blocks("### A job on one machine", "## What is done otherwise")
    (tmp_path / "table.py").write_text(program)
    (tmp_path / "start.py").write_text(start)
    if servers == 2:
        commands = with_second_server(commands)
    commands = commands.replace("127.0.0", loopback_network())
    printed = run(commands, tmp_path)
    assert pulled(printed) == ["[-2. -4. -6.]"] * 2
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    added = [each["counters"].get("fallback_added", 0) for each in events if "counters" in each]
    if servers == 1:
        assert np.flatnonzero(np.load(tmp_path / "final.npy")).tolist() == [3, 5, 9]
        assert added == [2]
    else:
        assert sorted(added) == [2, 2]
    assert "both workers print `[-2. -4. -6.]`" in PAGE.read_text()
    assert "it has added (2, with both keys each)" in PAGE.read_text()


def with_second_server(commands: str) -> str:
    """The same job with keys 0 to 4 at a server and 5 to 9 at another one, which ends later."""
    lines = commands.replace("--keys 100", "--keys 10").replace("\\\n", "")
    lines = lines.replace("--server 127.0.0.1 ", "--server 127.0.0.1 127.0.0.2 ")
    more = []
    for line in lines.splitlines():
        more.append(line)
        if "kv.scheduler" in line:
            more.append(line.replace("127.0.0.1 ", "127.0.0.2 "))
        elif "tables_server" in line:
            more.append(line.replace("--save", "--shard 1 --save").replace("final", "final2"))
    return "\n".join(more)
