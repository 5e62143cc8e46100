"""What tests of an operator's commands have in common."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller import cli
from controller.artifacts import Artifact
from host_stack.codec import Codec, fill_header
from host_stack.job import Job
from host_stack.layout import make_tag
from host_stack.placement import heat_based
from host_stack.wire import Op
from tests.job_in_memory import GROUP, SERVER, ports
from tests.memory_network import frame

Libra = Callable[..., tuple[int, str, str]]
WORKERS = 2
JOB = ("--job", "1", "--num-keys", "4000", "--server", SERVER, "-F", "33", "--group", GROUP)


def run_libra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Run `libra …` in this process; its exit code, and what it wrote to both streams."""
    monkeypatch.setattr(sys, "argv", ["libra", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def placement_file(folder: Path, hot: int) -> str:
    """A placement of so many keys."""
    path = folder / f"placement-{hot}.npz"
    heat_based(np.arange(hot, dtype=np.uint64), Artifact.load().layout).save(path)
    return str(path)


def told(libra: Libra, *arguments: str) -> dict:
    """What a command tells programs."""
    code, out, err = libra(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def push_one(job: Job, dataplane: Any, seq: int) -> None:
    """A GRAD of worker 0 with -1.5 in lane 0 of row 1."""
    codec = Codec(job.layout)
    records = np.zeros(1, codec.grad)
    fill_header(records["header"], Op.GRAD, job=job.job, worker=0, tag=make_tag(job.epoch, 0))
    records["header"]["seq"] = seq
    records["used"] = codec.bitmap(np.arange(job.layout.lanes)[np.newaxis] == 0)
    records["lane"]["row"][:, 0] = 1
    records["lane"]["grad"][:, 0] = -1.5
    dataplane.inject(
        ports(WORKERS)[job.workers[0]], frame(job.workers[0], SERVER, records.tobytes())
    )
