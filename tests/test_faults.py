"""The fault matrix: whatever goes wrong, the trained model keeps its bits.

`pytest -m faults` runs every cell, some of which take long; without it a few cells of each kind
run, one emulation each.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.fault_cells import BMV2, EMBEDDED, WORKERS, Cell, all_cells, lost_for_good, out_of_step
from tests.test_run_end_to_end import libra, needs_emulation

LIMIT_S = 1200
"""For one training, so that a busy machine is slow and not wrong; a cell makes two at most."""

pytestmark = [*needs_emulation, pytest.mark.timeout(2 * LIMIT_S + 60)]

ROUNDS = 4
STEPS = 12
"""Of each worker, where they are out of step."""
EVERY_RUN = {
    "libra-4-loss5",
    "libra-4-switch-drain",
    "libra-4-dead-drain",
    "libra-4-controller-push",
    "libra-4-server+worker1-compute",
    "ssp:2-libra-4-reordering",
    "async:steps=3-libra-8-mixed",
}
"""Cells that run among all other tests."""


def train(
    out: Path, workers: int, mode: str, fault: str, target: str = "soft", *options: str
) -> dict:
    """Run a small training in one mode; return run.json."""
    path = out / "run.json"
    done = subprocess.run(
        libra(
            *("run", "--out", str(out), "--mode", mode, "--fault", fault, "--audit"),
            *("--dataset", "synthetic:examples=3000,features=1500,nnz=20", "--seed", "3"),
            *("--workers", str(workers), "--rounds", str(ROUNDS), "--batch", "32"),
            *("--hot", "512", "--evaluate-every", "4", "--checkpoint-every", "1"),
            *("--target", target, "--json", str(path), *options),
        ),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(path.read_text())


@cache
def reference(out: Path, workers: int) -> dict:
    """The fault-free training without a switch."""
    return train(out, workers, "server-only", "")


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs go that the others are compared with."""
    return tmp_path_factory.mktemp("references")


def run_of(cell: Cell) -> tuple[str, str]:
    """The mode and the target of `libra run`."""
    return ("libra", "bmv2") if cell.way == BMV2 else (cell.way, "soft")


def check(
    tmp_path: Path, references: Path, cell: Cell, *options: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train under faults, and compare with the training without; returns both run.json."""
    folder = references / str(cell.workers)
    folder.mkdir(exist_ok=True)
    expected = reference(folder, cell.workers)
    mode, target = run_of(cell)
    run = train(tmp_path, cell.workers, mode, cell.fault, target, *options)
    assert run["model_sha256"] == expected["model_sha256"]
    assert run["audit"]["conserved"]
    assert run["audit"]["pushed_sha256"] == expected["audit"]["pushed_sha256"]
    assert len(run["faults"]) == cell.fault.count("@")
    assert run["faults_missed"] == []
    for each in run["faults"]:
        assert (each["ended_s"] is None) == (each["action"] == "dead")
        assert each["recovery_s"] >= each["next_commit_s"]
    return run, expected


needs_bmv2 = [
    pytest.mark.bmv2,
    pytest.mark.skipif(
        shutil.which("simple_switch_grpc") is None, reason="simple_switch_grpc is not on PATH"
    ),
]


def marks(cell: Cell, name: str) -> list[pytest.MarkDecorator]:
    """Whether a cell runs among all other tests, and what it needs."""
    every_run = pytest.mark.faults(every_run=name in EVERY_RUN)
    return [every_run, *(needs_bmv2 if cell.way == BMV2 else ())]


def params(cells: Iterable[Cell]) -> list:
    """Cells for pytest, with what each needs."""
    return [pytest.param(cell, id=cell.id, marks=marks(cell, cell.id)) for cell in cells]


@pytest.mark.parametrize(
    ("rule", "cell"),
    [
        pytest.param(rule, cell, id=f"{rule}-{cell.id}", marks=marks(cell, f"{rule}-{cell.id}"))
        for rule, cell in out_of_step()
    ],
)
def test_nothing_is_lost_out_of_step(rule: str, cell: Cell, tmp_path: Path) -> None:
    """Switch, server, controller and a worker die one after the other: each step counts once.

    Rounds are fewer than steps, and how many there are depends on time: a fault behind the last
    one does not happen.
    """
    options = ("--consistency", rule, "--rounds", str(STEPS))
    mode, target = run_of(cell)
    run = train(tmp_path, cell.workers, mode, cell.fault, target, *options)
    assert run["audit"]["conserved"]
    assert run["modes"][mode]["audit"]["steps"] == cell.workers * STEPS
    assert {"switch", "server"} <= {fault["target"] for fault in run["faults"]}


@pytest.mark.parametrize("cell", params(all_cells()))
def test_faults_keep_the_bits(cell: Cell, tmp_path: Path, references: Path) -> None:
    """Model and pushed gradients are those of the training without faults and without a switch."""
    check(tmp_path, references, cell)


@pytest.mark.parametrize("cell", params(lost_for_good()))
def test_the_switch_stays_dead(cell: Cell, tmp_path: Path, references: Path) -> None:
    """Where there is another path, training goes on over it, and everything is the same."""
    run, expected = check(tmp_path, references, cell, "--backup-path")
    assert run["audit"] == expected["audit"]
    assert run["modes"]["libra"]["server_counters"]["fallback_added"] > 0


@pytest.mark.parametrize(
    "workers", [pytest.param(w, marks=pytest.mark.faults(every_run=w == 4)) for w in WORKERS]
)
def test_the_switch_comes_back(workers: int, tmp_path: Path, references: Path) -> None:
    """Training goes on around it, and through it again when it is there.

    Meanwhile a worker is away, so that rounds are left for that. The counters are of the switch
    that came back.
    """
    cell = Cell(EMBEDDED, workers, "", "kill=switch@r1+1s,kill=worker1@r3+30s")
    run, expected = check(tmp_path, references, cell, "--backup-path")
    assert run["audit"] == expected["audit"]
    mode = run["modes"]["libra"]
    assert mode["server_counters"]["fallback_added"] > 0
    assert mode["counters"]["aggregated"] > 0
    assert mode["counters"]["drained"] > 0


@pytest.mark.parametrize(
    "workers", [pytest.param(w, marks=pytest.mark.faults(every_run=w == 4)) for w in WORKERS]
)
def test_the_hot_set_changes(workers: int, tmp_path: Path, references: Path) -> None:
    """Other keys become hot in the middle of the training, and a worker dies just then."""
    cell = Cell(EMBEDDED, workers, "", "kill=worker1@r2:compute")
    run, expected = check(tmp_path, references, cell, "--change-hot-set", "2")
    assert run["audit"] == expected["audit"]
    assert run["modes"]["libra"]["server_counters"]["incarnations"] >= 1
