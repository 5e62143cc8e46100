"""The program of docs/pslite.md runs as it stands there."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "pslite.md"
LIMIT_S = 120.0


def blocks() -> tuple[str, str]:
    """The Python program and the commands of the section that has a whole one."""
    text = PAGE.read_text()
    section = text[text.index("## A whole program") : text.index("## The environment")]
    (program,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (commands,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    return program, commands


def test_the_whole_program_gives_what_the_page_says(tmp_path: Path) -> None:
    """Both workers print the sums; scheduler, servers and workers end by themselves."""
    program, commands = blocks()
    (tmp_path / "table.py").write_text(program)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    assert commands.count("DMLC_PS_ROOT_PORT=8000") == 1
    paths = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    shell = subprocess.Popen(
        ["bash", "-c", commands.replace("8000", port)],
        cwd=tmp_path,
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
    assert "Traceback" not in errors
    assert [line for line in printed.splitlines() if line.startswith("[")] == ["[2. 4. 6.]"] * 2
    assert "both workers print `[2. 4. 6.]`" in PAGE.read_text()
