"""Random faults of a soak, and the growth of memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.memory import MemorySampler, descendants, growth_of
from bench.soak import random_faults, role_of
from mininet_topos.faults import FaultPlan


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
