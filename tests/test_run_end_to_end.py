"""`libra run` as a user starts it: whole emulations, in namespaces of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.byte_model import PULL_BYTES
from controller.placing.measure import measure
from host_stack.placement import Placement
from planner.from_run import load_run, predict_run
from workloads.workload import Workload

SMALL = [
    *("--dataset", "synthetic:examples=4000,features=2000,nnz=20"),
    *("--workers", "2", "--rounds", "4", "--batch", "64", "--hot", "512", "--evaluate-every", "2"),
]

needs_emulation = [
    pytest.mark.root,
    pytest.mark.mininet,
    pytest.mark.compiler,
    pytest.mark.skipif(os.geteuid() != 0, reason="an emulation needs root"),
    pytest.mark.skipif(shutil.which("mnexec") is None, reason="Mininet's mnexec is missing"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]
pytestmark = needs_emulation


def libra(*arguments: str) -> list[str]:
    """A command line of the console script."""
    return [sys.executable, "-m", "controller.cli", *arguments]


def wait_for(process: subprocess.Popen, condition: Callable[[], bool]) -> None:
    """Wait until something holds, as long as a run goes on."""
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def run(out: Path, *arguments: str, timeout_s: float = 240.0) -> dict:
    """Run an emulation to its end; return run.json."""
    done = subprocess.run(
        libra("run", "--out", str(out), *SMALL, *arguments),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((out / "latest" / "run.json").read_text())


def test_three_modes_train_the_same_model(tmp_path: Path) -> None:
    """Through the switch, around it and without it: the same bits, and a whole report."""
    summary = run(tmp_path)
    modes = summary["modes"]
    assert list(modes) == ["libra", "server-only", "fallback"]
    assert len({mode["model_sha256"] for mode in modes.values()}) == 1
    assert summary["speedup"] > 0
    assert [mode["switch_answers"] for mode in modes.values()] == [True, False, False]
    libra_counts = modes["libra"]["counters"]
    assert libra_counts["aggregated"] > 0
    assert libra_counts["drained"] > 0
    assert modes["libra"]["server_counters"].get("fallback_added", 0) == 0
    assert modes["fallback"]["counters"]["no_job"] > 0
    assert modes["fallback"]["counters"]["aggregated"] == 0
    assert modes["fallback"]["server_counters"]["fallback_added"] > 0
    assert modes["server-only"]["packets_per_push"] is None
    assert set(modes["libra"]["bytes"]) == {"server", "worker1", "worker2"}
    folder = tmp_path / "latest"
    assert (folder / "report.html").stat().st_size > 1000
    assert list(folder.glob("*.png"))
    check_byte_model(summary, folder)
    check_prediction(folder)


def check_prediction(folder: Path) -> None:
    """The planner takes the bytes of a real run apart, each where it belongs."""
    found = {each.name: each for each in predict_run(load_run(folder))}
    sizes = {name: each.profile.traffic for name, each in found.items()}
    assert all(each.here.low_s <= each.here.round_s <= each.here.high_s for each in found.values())
    assert sizes["libra"].drained > 0
    assert sizes["fallback"].drained == sizes["server-only"].drained == 0
    assert sizes["libra"].push < sizes["fallback"].push < sizes["server-only"].push
    assert sizes["server-only"].update < 0.1 * sizes["server-only"].values


def check_byte_model(summary: dict, folder: Path) -> None:
    """What the byte model says of the pushes of a run is what the run has counted."""
    workers, rounds = summary["workers"], summary["rounds"]
    workload = Workload.open(
        summary["dataset"],
        summary["model"],
        seed=summary["seed"],
        workers=workers,
        batch_size=summary["batch"],
    )
    pushes = [[workload.keys(rank, number) for rank in range(workers)] for number in range(rounds)]
    for name in ("libra", "server-only"):
        mode = summary["modes"][name]
        placement = Placement.load(folder / name / "placement-1.npz")
        cost = measure(placement, pushes)
        assert mode["server_counters"]["drained_rows"] == pytest.approx(rounds * cost.rows_touched)
        if name == "libra":
            assert len(placement.pairs) > 0
            assert mode["packets_per_push"]["ratio"] == pytest.approx(cost.packets_ratio)
        # Nothing is pulled after the last round; headers of messages are not in the model.
        pulled = sum(int((~placement.find(keys)[0]).sum()) for keys in pushes[-1]) * PULL_BYTES
        expected = rounds * cost.server_bytes - pulled
        server = mode["bytes"]["server"]
        assert 0.8 * expected < server["to_switch"] + server["from_switch"] < 1.4 * expected


def test_escaping_gradients_keep_the_bits(tmp_path: Path) -> None:
    """A scale that is far too fine sends most packets to the server, and changes nothing.

    The result says so, and which scale would fit; with that one nothing escapes.
    """
    modes = run(tmp_path, "--fraction-bits", "60", "--mode", "libra", "--mode", "server-only")[
        "modes"
    ]
    libra_mode = modes["libra"]
    assert libra_mode["counters"]["escaped"] > 0
    assert libra_mode["model_sha256"] == modes["server-only"]["model_sha256"]
    scale = libra_mode["scale"]
    assert scale["escaped"] == libra_mode["server_counters"]["escaped_gradients"] > 0
    better = scale["better_fraction_bits"]
    assert better < 60
    again = run(tmp_path, "--fraction-bits", str(better), "--mode", "libra")["modes"]["libra"]
    assert again["counters"]["escaped"] == 0
    assert (again["scale"]["escaped"], again["scale"]["better_fraction_bits"]) == (0, None)


def test_other_hot_keys_while_training(tmp_path: Path) -> None:
    """A new placement takes effect between two rounds: nothing stops, nothing is pushed twice."""
    modes = ("--mode", "libra", "--mode", "server-only", "--audit")
    summary = run(tmp_path, *modes, "--rounds", "60", "--change-hot-set", "3")
    assert summary["audit"]["conserved"] is True
    changed, plain = (summary["modes"][name] for name in ("libra", "server-only"))
    assert changed["model_sha256"] == plain["model_sha256"]
    assert changed["audit"] == plain["audit"]
    assert (changed["audit"]["commits"], changed["audit"]["discarded"]) == (60, 0)
    assert changed["server_counters"]["incarnations"] == 1
    assert changed["server_counters"].get("stale_push", 0) == 0
    assert changed["server_counters"].get("fallback_wrong_epoch", 0) == 0


def test_status_of_a_running_job(tmp_path: Path) -> None:
    """`libra status` tells the round, and the scale that would fit, while the job trains."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    long = ("--rounds", "100000", "--fraction-bits", "60", "--mode", "libra")
    command = libra("run", "--out", str(tmp_path / "out"), *SMALL, *long)
    found: dict = {}

    def is_under_way() -> bool:
        asked = subprocess.run(
            libra("status", "--json"), capture_output=True, env=environment, check=False
        )
        if asked.returncode == 0:
            found.update(json.loads(asked.stdout))
        return bool(found.get("goodput_bps"))

    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ) as process:
        wait_for(process, is_under_way)
        shown = subprocess.run(
            libra("status"), capture_output=True, text=True, env=environment, check=True
        )
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert found["round"] > 0
    assert found["scale"]["escaped"] > 0
    assert found["scale"]["better_fraction_bits"] < 60
    assert "F = 60 is too fine" in shown.stdout
    assert "take F = " in shown.stdout


def test_scapy_transport_trains_the_same_model(tmp_path: Path) -> None:
    """The plain transport is slow, and right."""
    fast = run(tmp_path / "batch", "--mode", "libra")
    slow = run(tmp_path / "scapy", "--mode", "libra", "--transport", "scapy")
    hashes = [each["modes"]["libra"]["model_sha256"] for each in (fast, slow)]
    assert hashes[0] == hashes[1]


@pytest.mark.bmv2
@pytest.mark.skipif(
    shutil.which("simple_switch_grpc") is None, reason="simple_switch_grpc is not on PATH"
)
def test_bmv2_trains_the_same_model(tmp_path: Path) -> None:
    """The same artifacts, controller and hosts around bmv2."""
    summary = run(tmp_path, "--target", "bmv2")
    assert len({mode["model_sha256"] for mode in summary["modes"].values()}) == 1
    assert summary["modes"]["libra"]["counters"]["aggregated"] > 0


def test_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C in mid-run ends with 130, and no process of the emulation survives."""
    command = libra("run", "--out", str(tmp_path), *SMALL, "--rounds", "100000")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        wait_for(process, lambda: any(tmp_path.glob("*/libra/logs/worker1.log")))
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in listed.stdout


def test_a_run_after_a_killed_one_works(tmp_path: Path) -> None:
    """A run whose outer process is killed leaves nothing that the next one stumbles over."""
    command = libra("run", "--out", str(tmp_path), *SMALL, "--rounds", "100000")
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        wait_for(process, lambda: any(tmp_path.glob("*/libra/logs/worker1.log")))
        process.kill()
    assert not (tmp_path / "latest").exists()
    assert run(tmp_path, "--mode", "libra")["modes"]["libra"]["counters"]["aggregated"] > 0


def test_a_worker_that_dies_is_named(tmp_path: Path) -> None:
    """The error names the process that died, at once, and says where the logs are."""
    command = libra("run", "--out", str(tmp_path), *SMALL, "--rounds", "100000")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        wait_for(process, lambda: any(tmp_path.glob("*/libra/logs/worker2.log")))
        folder = next(tmp_path.glob("*/libra"))
        pattern = f"workloads.train_worker {folder} 1"
        kill = ["pkill", "-KILL", "-f", pattern]
        wait_for(process, lambda: subprocess.run(kill, check=False).returncode == 0)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith("error: worker2 was killed by SIGKILL")
    assert f"logs: {folder.parent}" in out


@pytest.mark.parametrize("rule", ["ssp:2", "async:steps=3"])
def test_workers_out_of_step(tmp_path: Path, rule: str) -> None:
    """What was pushed is what was applied, and the model has learned.

    With a rate at which all 16 steps together go downhill: the order in which workers step, which
    is left to chance, cannot matter then (`test_learning_out_of_step.py`).
    """
    options = ("--mode", "libra", "--consistency", rule, "--audit", "--rounds", "8")
    small_steps = ("--optimizer", "sgd", "--learning-rate", "0.02")
    found = run(tmp_path, *options, *small_steps)
    assert found["audit"]["conserved"] is True
    mode = found["modes"]["libra"]
    assert mode["audit"]["steps"] == 16
    assert mode["counters"]["aggregated"] > 0
    quality = mode["quality"]
    assert quality["metrics"]["log_loss"][-1] < quality["metrics"]["log_loss"][0]
