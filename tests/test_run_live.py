"""A run as its operator works on it: cells looked into, and other hot keys pushed, while it trains.

A worker is stopped in the middle of a round, as one that lags behind, so that everything happens
in that round. The next rounds show what came of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_stack.audit.log import read_commits
from host_stack.layout import split_tag
from host_stack.placement import Placement, heat_based
from tests.test_run_end_to_end import SMALL, libra, needs_emulation, wait_for

pytestmark = [*needs_emulation, pytest.mark.timeout(1800)]

ROUNDS = 60
PUSHED = 300
OPTIONS = (
    *("--rounds", str(ROUNDS), "--mode", "libra", "--mode", "server-only", "--audit"),
    # With faults a run is patient: a worker may be away for minutes.
    *("--fault", "loss=0.002", "--log-format", "json"),
)


@dataclass(frozen=True)
class Story:
    """What was seen in the round in which a worker was stopped, and what the run came to."""

    folder: Path
    open_round: int
    by_drains: dict[str, Any]
    by_registers: dict[str, Any]
    pushed: dict[str, Any]
    status: dict[str, Any]
    summary: dict[str, Any]


class Emulation:
    """A run in a process of its own, and the commands that find it."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out"
        self._environment = {**os.environ, "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            libra("run", "--out", str(self.out), *SMALL, *OPTIONS),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
            start_new_session=True,
        )

    @property
    def mode(self) -> Path:
        """The folder of mode libra."""
        return next(self.out.glob("*/libra"))

    def await_file(self, pattern: str) -> None:
        """Wait until the run has written a file."""
        wait_for(self.process, lambda: any(self.out.glob(pattern)))

    def told(self, *arguments: str) -> dict[str, Any]:
        """What a command tells programs."""
        done = subprocess.run(
            libra(*arguments, "--json"),
            capture_output=True,
            text=True,
            env=self._environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def pid_of(self, *words: str) -> int:
        """The process whose command line has some words, one behind the other."""
        wanted = b"\0".join(word.encode() for word in ("", *words, ""))
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found = wanted in entry.read_bytes()
            except OSError:  # it has ended
                continue
            if found:
                return int(entry.parent.name)
        raise AssertionError(f"no process {words}")

    def end(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        self.process.communicate(timeout=120)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The whole story, once."""
    emulation = Emulation(tmp_path_factory.mktemp("live"))
    try:
        yield tell(emulation, tmp_path_factory.mktemp("keys") / "others.npz")
    finally:
        emulation.end()


def tell(emulation: Emulation, others: Path) -> Story:
    """Stop a worker in a round, look into it, push other keys, and let it go on."""
    emulation.await_file("*/libra/snapshots/0000004.npy")
    worker = emulation.pid_of("workloads.train_worker", str(emulation.mode), "1")
    os.kill(worker, signal.SIGSTOP)
    try:
        at_rest(emulation)
        rows = ("--rows", str(emulation.told("job", "describe", "-j", "1")["job"]["rows"]))
        by_registers = emulation.told("dump", "-j", "1", *rows, "--through", "registers")
        by_drains = emulation.told("dump", "-j", "1", *rows, "--through", "drains")
        first = Placement.load(emulation.mode / "placement-1.npz")
        keys = np.setdiff1d(np.arange(2000, dtype=np.uint64), first.keys)[:PUSHED]
        heat_based(keys, first.layout).save(others)
        pushed = emulation.told("push", str(others), "-j", "1")["job"]
        status = emulation.told("status", "-j", "1")
    finally:
        os.kill(worker, signal.SIGCONT)
    out, err = emulation.process.communicate(timeout=1200)
    assert emulation.process.returncode == 0, out + err
    summary = json.loads((emulation.out / "latest" / "run.json").read_text())
    open_round = by_drains["open_round"]
    return Story(emulation.mode, open_round, by_drains, by_registers, pushed, status, summary)


def at_rest(emulation: Emulation) -> None:
    """Wait until the other worker has pushed all that it can, and waits too."""
    counts: list[dict[str, Any]] = []
    while len(counts) < 3 or counts[-1] != counts[-3]:
        counts.append(emulation.told("stats", "-j", "1")["members"])
        time.sleep(0.5)


def test_pushed_keys_take_effect_between_two_rounds(story: Story) -> None:
    """They wait for the round that is open; nothing is pushed twice, and no bit changes."""
    assert (story.pushed["version"], story.pushed["installed_version"]) == (2, 1)
    assert (story.status["epoch"], story.status["placement"]) == (1, 1)
    epochs = [split_tag(commit.tag)[0] for commit in read_commits(story.folder / "audit")]
    before = story.open_round + 1
    assert epochs == [1] * before + [2] * (ROUNDS - before)

    modes = story.summary["modes"]
    assert story.summary["audit"]["conserved"] is True
    assert modes["libra"]["model_sha256"] == modes["server-only"]["model_sha256"]
    assert modes["libra"]["audit"] == modes["server-only"]["audit"]
    assert modes["libra"]["audit"]["discarded"] == 0
    assert modes["libra"]["server_counters"]["incarnations"] == 1
    assert modes["libra"]["server_counters"].get("stale_push", 0) == 0


def test_logs_tell_job_epoch_and_round(story: Story) -> None:
    """Of every process, in lines that programs read."""
    logs = {
        path.stem: [json.loads(line) for line in path.read_text().splitlines()]
        for path in (story.folder / "logs").glob("*.log")
        if path.stem != "s1"
    }
    assert {name: {line["process"] for line in lines} for name, lines in logs.items()} == {
        "controller": {"controller"},
        "scheduler": {"scheduler"},
        "server": {"server"},
        "worker1": {"worker"},
        "worker2": {"worker"},
    }
    events = {line["event"]: line for line in logs["controller"] if line.get("job") == 1}
    assert {"job-created", "placement", "epoch"} <= set(events)
    assert (events["placement"]["epoch"], events["epoch"]["epoch"]) == (1, 2)
    begun = [line for line in logs["server"] if line["text"].startswith("round ")]
    assert [(line["job"], line["epoch"], line["round"]) for line in begun] == [
        (1, 2, story.open_round + 1)
    ]
    for rank in range(2):
        moved = logs[f"worker{rank + 1}"][-2]
        assert moved["text"] == f"the job goes on behind step {story.open_round + 1}, in epoch 2"
        assert (moved["job"], moved["worker"]) == (1, rank)


def test_drains_find_what_registers_hold(story: Story) -> None:
    """Of the rounds that may have cells; of one worker, for the other one was stopped."""
    assert story.open_round > 3
    rounds = range(story.open_round - 1, story.open_round + 2)
    held = [cell for cell in story.by_registers["cells"] if cell["round"] in rounds]
    found = story.by_drains["cells"]
    order = ("round", "row", "lane")
    assert sorted(found, key=lambda cell: [cell[name] for name in order]) == sorted(
        held, key=lambda cell: [cell[name] for name in order]
    )
    assert {story.open_round - 1, story.open_round} <= {cell["round"] for cell in found}
    assert story.by_drains["epoch"] == story.by_registers["epoch"] == 1
    assert story.by_registers["open_round"] == story.open_round
