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

from tests.fault_cells import BMV2, EMBEDDED, WORKERS, Cell, all_cells, lost_for_good
from tests.test_run_end_to_end import libra, needs_emulation

LIMIT_S = 1200
"""For one training, so that a busy machine is slow and not wrong; a cell makes two at most."""

pytestmark = [*needs_emulation, pytest.mark.timeout(2 * LIMIT_S + 60)]

ROUNDS = 4
EVERY_RUN = {
    "libra-4-loss5",
    "libra-4-switch-drain",
    "libra-4-dead-drain",
    "libra-4-controller-push",
    "libra-4-server+worker1-compute",
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


def check(
    tmp_path: Path, references: Path, cell: Cell, *options: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train under faults, and compare with the training without; returns both run.json."""
    folder = references / str(cell.workers)
    folder.mkdir(exist_ok=True)
    expected = reference(folder, cell.workers)
    mode, target = ("libra", "bmv2") if cell.way == BMV2 else (cell.way, "soft")
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


OUT_OF_STEP = ("ssp:2", "ssp:1,steps=6", "async:steps=3", "async:seconds=0.3")
SEVERAL = "loss=0.05,seed=17,kill=switch@r1,kill=server@r2,kill=worker1@r5:push,kill=controller@r3"


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, marks=pytest.mark.faults(every_run=rule in {"ssp:2", "async:steps=3"}))
        for rule in OUT_OF_STEP
    ],
)
def test_nothing_is_lost_out_of_step(rule: str, tmp_path: Path) -> None:
    """Switch, server, a worker and the controller die one after the other: each step counts once.

    Rounds are fewer than steps, and how many there are depends on time: a fault behind the last
    one does not happen.
    """
    options = ("--consistency", rule, "--rounds", "12")
    run = train(tmp_path, 4, "libra", SEVERAL, "soft", *options)
    mode = run["modes"]["libra"]
    assert run["audit"]["conserved"]
    assert mode["audit"]["steps"] == 4 * 12
    assert {"switch", "server"} <= {fault["target"] for fault in run["faults"]}


needs_bmv2 = [
    pytest.mark.bmv2,
    pytest.mark.skipif(
        shutil.which("simple_switch_grpc") is None, reason="simple_switch_grpc is not on PATH"
    ),
]


def params(cells: Iterable[Cell]) -> list:
    """Cells for pytest, with what each needs."""
    return [
        pytest.param(
            cell,
            id=cell.id,
            marks=[
                pytest.mark.faults(every_run=cell.id in EVERY_RUN),
                *(needs_bmv2 if cell.way == BMV2 else ()),
            ],
        )
        for cell in cells
    ]


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
