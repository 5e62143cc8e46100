"""The fault matrix: whatever goes wrong, the trained model keeps its bits.

`pytest -m faults` runs every cell, some of which take long; without it a few cells of each kind
run, one emulation each.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.test_run_end_to_end import libra, needs_emulation

LIMIT_S = 1200
"""For one training, so that a busy machine is slow and not wrong; a cell makes two at most."""

pytestmark = [*needs_emulation, pytest.mark.timeout(2 * LIMIT_S + 60)]

WORKERS = (1, 4, 8)
ROUNDS = 4
LINKS = {
    "none": "",
    "loss1": "loss=0.01,seed=11",
    "loss5": "loss=0.05,seed=12",
    "loss20": "loss=0.2,seed=13",
    "duplication": "dup=0.2,seed=14",
    "reordering": "reorder=0.2,seed=15",
    "spikes": "spike=0.05,spike_delay=80ms,seed=16",
}
PHASES = ("compute", "push", "drain", "update")
VICTIMS = ("switch", "server", "worker1", "controller")
NEEDS_THE_NEXT_CONTROLLER = ",kill=worker1@r3"
"""A worker that joins takes another epoch, which nobody but a controller gives."""

KILLS = {
    f"{who}-{phase}": f"kill={who}@r2:{phase}"
    + (NEEDS_THE_NEXT_CONTROLLER if who == "controller" else "")
    for who in VICTIMS
    for phase in PHASES
} | {
    "switch": "kill=switch@r2",
    "cut-worker": "cut=worker1@r2+2s",
    "cut-server": "cut=server@r2+2s",
    "switch+controller": "kill=switch@r2,kill=controller@r2",
    "switch+server": "kill=switch@r2:push,kill=server@r2:drain",
    "server+worker": "kill=server@r2,kill=worker1@r2",
    "switch+worker": "kill=switch@r2:drain,kill=worker1@r2:drain",
}
EVERY_RUN = {
    (4, "loss5", "libra"),
    (4, "switch-drain", "libra"),
    (4, "server+worker", "libra"),
    (4, "controller-push", "libra"),
}
ON_BMV2 = ("none", *(name for name in KILLS if not name.startswith("cut")))


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
    tmp_path: Path, references: Path, workers: int, mode: str, fault: str, target: str = "soft"
) -> None:
    """Train under faults, and compare with the training without."""
    folder = references / str(workers)
    folder.mkdir(exist_ok=True)
    expected = reference(folder, workers)
    run = train(tmp_path, workers, mode, fault, target)
    assert run["model_sha256"] == expected["model_sha256"]
    assert run["audit"]["conserved"]
    assert run["audit"]["pushed_sha256"] == expected["audit"]["pushed_sha256"]
    kills = fault.count("=") if "@" in fault else 0
    assert len(run["faults"]) == kills
    for each in run["faults"]:
        assert each["ended_s"] is not None


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


def cells() -> list:
    """All cells of the matrix."""
    listed = []
    for workers in WORKERS:
        for name, fault in (LINKS | KILLS).items():
            for mode in ("libra", "server-only"):
                mark = pytest.mark.faults(every_run=(workers, name, mode) in EVERY_RUN)
                cell = pytest.param(
                    workers, mode, fault, "soft", id=f"{mode}-{workers}-{name}", marks=mark
                )
                listed.append(cell)
            if name in ON_BMV2:
                marks = [*needs_bmv2, pytest.mark.faults]
                cell = pytest.param(
                    workers, "libra", fault, "bmv2", id=f"bmv2-{workers}-{name}", marks=marks
                )
                listed.append(cell)
    return listed


@pytest.mark.parametrize(("workers", "mode", "fault", "target"), cells())
def test_faults_keep_the_bits(
    workers: int, mode: str, fault: str, target: str, tmp_path: Path, references: Path
) -> None:
    """Model and pushed gradients are those of the training without faults and without a switch."""
    check(tmp_path, references, workers, mode, fault, target)


@pytest.mark.parametrize(
    "workers", [pytest.param(w, marks=pytest.mark.faults(every_run=w == 4)) for w in WORKERS]
)
def test_the_switch_stays_dead(workers: int, tmp_path: Path, references: Path) -> None:
    """Where there is another path, training goes on over it, and everything is the same."""
    folder = references / str(workers)
    folder.mkdir(exist_ok=True)
    expected = reference(folder, workers)
    run = train(tmp_path, workers, "libra", "dead=switch@r2:drain", "soft", "--backup-path")
    assert run["model_sha256"] == expected["model_sha256"]
    assert run["audit"] == expected["audit"]
    assert run["faults"][0]["recovery_s"] is not None
    assert run["modes"]["libra"]["server_counters"]["fallback_added"] > 0


@pytest.mark.parametrize(
    "workers", [pytest.param(w, marks=pytest.mark.faults(every_run=w == 4)) for w in WORKERS]
)
def test_the_switch_comes_back(workers: int, tmp_path: Path, references: Path) -> None:
    """Training goes on around it, and through it again when it is there.

    Meanwhile a worker is away, so that rounds are left for that. The counters are of the switch
    that came back.
    """
    folder = references / str(workers)
    folder.mkdir(exist_ok=True)
    expected = reference(folder, workers)
    fault = "kill=switch@r1+1s,kill=worker1@r3+30s"
    run = train(tmp_path, workers, "libra", fault, "soft", "--backup-path")
    assert run["model_sha256"] == expected["model_sha256"]
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
    folder = references / str(workers)
    folder.mkdir(exist_ok=True)
    expected = reference(folder, workers)
    fault = "kill=worker1@r2:compute"
    run = train(tmp_path, workers, "libra", fault, "soft", "--change-hot-set", "2")
    assert run["model_sha256"] == expected["model_sha256"]
    assert run["audit"] == expected["audit"]
    assert run["modes"]["libra"]["server_counters"]["incarnations"] >= 1
