"""Random faults of a soak, and the growth of memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench import soak
from bench.memory import Growth, MemorySampler, descendants, growth_of
from bench.soak import problems_of, random_faults, role_of
from mininet_topos.faults import FaultPlan
from workloads.training import run_role


@pytest.mark.parametrize("seed", range(20))
def test_random_faults_can_be_had(seed: int) -> None:
    """A run takes them; the same seed gives the same ones."""
    text = random_faults(seed, 500, 30)
    plan = FaultPlan.parse(text)
    plan.check(workers=2, rounds=500, target="soft")
    assert len(plan.faults) >= 25
    assert text == random_faults(seed, 500, 30)
    assert text != random_faults(seed + 1, 500, 30)
    rounds = [fault.round for fault in plan.faults]
    assert rounds == sorted(rounds)


def test_growth_is_that_of_the_longest_life() -> None:
    """Its first half does not count; shorter lives tell their peak."""
    steady = [(float(at), 50_000_000 + 1000 * at + (at < 25) * -9_000_000) for at in range(61)]
    short = [(0.0, 70_000_000), (5.0, 71_000_000)]
    growth = growth_of([short, steady])
    assert (growth.lives, growth.peak_bytes, growth.longest_s) == (2, 71_000_000, 60.0)
    assert growth.slope_bytes_per_min == pytest.approx(60_000)
    assert growth_of([short]).slope_bytes_per_min is None


def found(**changes: Any) -> dict[str, Any]:
    """The result of a soak that has not failed."""
    steady = Growth(3, 90_000_000, 50_000.0, 600.0, 90_000_000)
    runner = Growth(1, 400_000_000, 9e6, 2000.0, 400_000_000)
    fine = {
        "identical": True,
        "conserved": True,
        "same_pushes": True,
        "faults": 3,
        "missed": 1,
        "memory": {"server": asdict(steady), "runner": asdict(runner)},
    }
    return fine | changes


def grown(slope: float | None, longest_s: float) -> dict[str, Any]:
    """Memory of a server."""
    return {"server": asdict(Growth(1, 90_000_000, slope, longest_s, 90_000_000))}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"identical": None, "same_pushes": None}, None),  # out of step
        ({"conserved": False}, "this is a defect"),
        ({"identical": False}, "this is a defect"),
        ({"same_pushes": False}, "this is a defect"),
        ({"identical": None, "same_pushes": None, "conserved": False}, "this is a defect"),
        ({"faults": 0, "missed": 4}, "none of the 4 faults has happened"),
        ({"memory": grown(1_448_000.0, 271.0)}, "server grew by 3.3 MB"),
        ({"memory": grown(247_000.0, 271.0)}, None),
        ({"memory": grown(120_000.0, 2146.0)}, "server grew by 2.1 MB"),
        ({"memory": grown(-9e6, 2146.0)}, None),
        ({"memory": grown(None, 10.0)}, None),
    ],
)
def test_what_fails_a_soak(changes: dict[str, Any], problem: str | None) -> None:
    """Bits, faults that all missed, and memory; the runner may grow."""
    problems = problems_of(found(**changes))
    assert len(problems) == (problem is not None)
    assert problem is None or problem in problems[0]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--seed", "-1"], "seed -1"),
        (["--seed", "x"], "invalid int"),
        (["--minutes", "nan"], "minutes nan"),
        (["--minutes", "0"], r"minutes 0\.0"),
        (["--json", "/nowhere/soak.json"], "/nowhere"),
        (["--json", "/"], "must be a file"),
        (["--consistency", "never"], "never"),
    ],
)
def test_what_a_soak_cannot_do_is_refused(
    arguments: list[str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With exit code 2 and a line, before anything starts."""
    monkeypatch.setattr(sys, "argv", ["bench.soak", *arguments])
    monkeypatch.setattr(soak, "train", lambda *_: pytest.fail("something was started"))
    try:
        code = run_role(soak.main)
    except SystemExit as ended:  # argparse's way
        code = ended.code
    assert code == 2
    assert re.search(why, capsys.readouterr().err)


def test_a_request_to_end_ends_the_run_too(tmp_path: Path) -> None:
    """And nothing stays of it; here of a `libra run` that only tells its process and waits."""
    program = """
import subprocess, sys
from bench import soak
real = subprocess.Popen
def stand_in(command, **given):
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    return real([sys.executable, "-c", code])
soak.subprocess.Popen = stand_in
sys.argv = ["soak", "--minutes", "1"]
sys.exit(soak.run_role(soak.main))
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("libra: 100 rounds")
        inner = int(process.stdout.readline())
        assert [path.name[:11] for path in tmp_path.iterdir()] == ["libra-soak-"]
        process.terminate()
        assert process.wait(60) == 143
    assert not Path(f"/proc/{inner}").exists()
    assert list(tmp_path.iterdir()) == []


def test_growth_from_life_to_life_is_told() -> None:
    """By the peaks of the first half of the lives, in the order in which they began."""
    lives = [[(100.0, 60), (101.0, 90)], [(0.0, 50), (1.0, 70)], [(50.0, 65), (51.0, 60)]]
    growth = growth_of(lives)
    assert (growth.early_peak_bytes, growth.peak_bytes) == (70, 90)


def test_processes_are_found_below_others() -> None:
    """Children of children are sampled by the role that their command line tells."""
    inner = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE) as process:
        try:
            with MemorySampler(process.pid, lambda argv: "python", every_s=0.05) as memory:
                while len(list(descendants(process.pid))) < 2 or not memory.growth():
                    assert process.poll() is None
            assert memory.growth()["python"].peak_bytes > 1_000_000
        finally:
            assert process.stdin is not None
            process.stdin.close()


def test_roles_are_told_by_command_lines() -> None:
    """Processes that are no part of a run are left out."""
    assert role_of(["/usr/bin/python3", "-m", "workloads.train_server", "out"]) == "server"
    assert role_of(["/usr/bin/python3", "-m", "softswitch.cli", "run"]) == "switch"
    assert role_of(["bash", "-c", "true"]) is None
