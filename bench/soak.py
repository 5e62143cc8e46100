"""Train for long under random faults: `python -m bench.soak --minutes 30` (needs root).

The model has to be that of a training without faults and without a switch, the audit has to find
every gradient, faults have to happen, and no process of the job may grow. The faults are a function
of the seed.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from bench.memory import Growth, MemorySampler
from controller.outputs import check_file
from host_stack.errors import BadInput, LibraError
from host_stack.progress import BSP, FORMS, Consistency
from mininet_topos.faults import FaultPlan
from workloads.holds import PHASES
from workloads.training import run_role

WORKERS = 2
CALIBRATION_ROUNDS = 100
FAULT_EVERY_S = 20.0
RECOVERY_S = 7.0
"""What a fault takes, about: only the length of the run depends on it."""

TELL_EVERY_S = 30.0
MAX_SEED = (1 << 53) - 1

GROWTH_MAX_BYTES = 2_000_000
"""So much a process may grow over the second half of its longest life, by least squares."""

RUNNER = "runner"
"""No part of a job: it keeps a record of every round, and so may grow."""

LINKS = "loss=0.002,dup=0.002,reorder=0.002"
_KINDS = ("switch", "server", "worker1", "worker2", "controller", "cut", "two")
_ROLES = {
    "workloads.train_server": "server",
    "workloads.train_worker": "worker",
    "controller.daemon": "controller",
    "softswitch.cli": "switch",
    "host_stack.kv.scheduler": "scheduler",
    "controller.cli": RUNNER,
}


def random_faults(seed: int, rounds: int, count: int) -> str:
    """The text of `count` faults in as many parts of the rounds, and of faults of links."""
    rng = random.Random(seed)  # noqa: S311  faults, not secrets
    items = [LINKS, f"seed={seed}"]
    part = max(1, (rounds - 1) // max(1, count))
    for index in range(count):
        round_ = 1 + index * part + rng.randrange(max(1, part // 2))
        if round_ >= rounds:
            break
        phase = rng.choice(("", *(f":{name}" for name in PHASES)))
        kind = rng.choice(_KINDS)
        if kind == "cut":
            host = rng.choice(("server", "worker1", "worker2"))
            items.append(f"cut={host}@r{round_}{phase}+{rng.choice((1, 2, 3))}s")
        elif kind == "two":
            first, second = rng.sample(_KINDS[:5], 2)
            items += [f"kill={first}@r{round_}{phase}", f"kill={second}@r{round_}{phase}"]
        else:
            items.append(f"kill={kind}@r{round_}{phase}")
    return ",".join(items)


def role_of(argv: list[str]) -> str | None:
    """The role of a process of a run; its parents outside of the emulation are left out."""
    for module, role in _ROLES.items():
        if any(module in word or module.replace(".", "/") in word for word in argv[:4]):
            return role
    return None


def train(
    folder: Path, mode: str, rounds: int, seed: int, fault: str, consistency: str = "bsp"
) -> tuple[dict[str, Any], Any]:
    """Run one training; return run.json and the growth of its processes. Says how it goes."""
    print(f"{mode}: {rounds:,} rounds, {len(FaultPlan.parse(fault).faults)} faults", flush=True)
    path = folder / f"{mode}-{rounds}.json"
    command = [
        *(sys.executable, "-m", "controller.cli", "run", "--out", str(folder), "--audit"),
        *("--dataset", "synthetic:examples=20000,features=4000,nnz=20", "--seed", str(seed)),
        *("--workers", str(WORKERS), "--rounds", str(rounds), "--batch", "64", "--mode", mode),
        *("--hot", "1024", "--evaluate-every", str(max(1, rounds // 10))),
        *("--checkpoint-every", "20", "--fault", fault, "--json", str(path)),
        *("--consistency", consistency),
    ]
    log = folder / f"{mode}-{rounds}.log"
    with (
        log.open("wb") as output,
        _running(command, output) as process,
        MemorySampler(process.pid, role_of) as memory,
    ):
        code = _wait(process, memory)
    if code:
        raise LibraError(f"the run failed: {log.read_text()[-2000:]}")
    return json.loads(path.read_text()), memory.growth()


@contextmanager
def _running(command: list[str], output: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended, and waited for, with the block."""
    with subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        except BaseException:
            process.terminate()
            raise


def _wait(process: subprocess.Popen[bytes], memory: MemorySampler) -> int:
    """Wait for a run; tell now and then for how long it runs and what its processes hold."""
    began = time.monotonic()
    while True:
        try:
            return process.wait(TELL_EVERY_S)
        except subprocess.TimeoutExpired:
            held = ", ".join(
                f"{role} {growth.peak_bytes / 1e6:.0f} MB ({growth.lives})"
                for role, growth in memory.growth().items()
            )
            print(f"  {(time.monotonic() - began) / 60:.1f} min; {held}", flush=True)


def soak(minutes: float, seed: int, folder: Path, consistency: str = "bsp") -> dict[str, Any]:
    """Calibrate, train under faults, train without, compare.

    Out of step, which steps are in a round depends on time: there is nothing to compare with then,
    and the audit alone tells. `identical` and `same_pushes` are None.
    """
    in_step = consistency == str(BSP)
    short, _ = train(folder, "libra", CALIBRATION_ROUNDS, seed, LINKS, consistency)
    round_s = short["modes"]["libra"]["timeline"]["at_s"][-1] / CALIBRATION_ROUNDS
    count = max(1, int(minutes * 60 / FAULT_EVERY_S))
    rounds = max(CALIBRATION_ROUNDS, int((minutes * 60 - count * RECOVERY_S) / round_s))
    fault = random_faults(seed, rounds, count)
    faulty, growth = train(folder, "libra", rounds, seed, fault, consistency)
    calm = train(folder, "server-only", rounds, seed, "")[0] if in_step else None
    recoveries = [f["recovery_s"] for f in faulty["faults"] if f["recovery_s"] is not None]
    return {
        "seed": seed,
        "rounds": rounds,
        "minutes": faulty["modes"]["libra"]["timeline"]["at_s"][-1] / 60,
        "faults": len(faulty["faults"]),
        "missed": len(faulty["faults_missed"]),
        "fault": fault,
        "longest_recovery_s": max(recoveries, default=None),
        "identical": calm and faulty["model_sha256"] == calm["model_sha256"],
        "conserved": faulty["audit"]["conserved"],
        "same_pushes": calm and faulty["audit"]["pushed_sha256"] == calm["audit"]["pushed_sha256"],
        "consistency": consistency,
        "model_sha256": faulty["model_sha256"],
        "model_sha256_without_faults": calm and calm["model_sha256"],
        "memory": {role: asdict(each) for role, each in growth.items()},
    }


def show(found: dict[str, Any]) -> None:
    """Print a result for people."""
    print(
        f"{found['rounds']:,} rounds in {found['minutes']:.1f} minutes, {found['faults']} faults "
        f"({found['missed']} did not happen), "
        f"longest recovery {found['longest_recovery_s']} s"
    )
    print(f"model under faults    {found['model_sha256']}")
    print(f"model without faults  {found['model_sha256_without_faults'] or 'not compared'}")
    for name in ("identical", "conserved", "same_pushes"):
        print(f"{name}: {'null (out of step)' if found[name] is None else found[name]}")
    for role, fields in found["memory"].items():
        growth = Growth(**fields)
        slope = growth.slope_bytes_per_min
        told = "too short" if slope is None else f"{slope / 1e3:+.1f} kB/min"
        print(
            f"{role:>10}: {growth.lives} lives, peak {growth.peak_bytes / 1e6:.1f} MB "
            f"(first half of lives {growth.early_peak_bytes / 1e6:.1f}), "
            f"longest {growth.longest_s:.0f} s: {told}"
        )


def problems_of(found: dict[str, Any]) -> list[str]:
    """Why a soak has failed, a line each; none where it has not."""
    problems = []
    if False in (found["identical"], found["conserved"], found["same_pushes"]):
        problems.append("the training under faults is not the one without: this is a defect")
    if not found["faults"]:
        problems.append(
            f"none of the {found['missed']} faults has happened: give it more --minutes, or "
            "another --seed"
        )
    for role, fields in found["memory"].items():
        growth = Growth(**fields)
        if role != RUNNER and growth.late_bytes > GROWTH_MAX_BYTES:
            problems.append(
                f"{role} grew by {growth.late_bytes / 1e6:.1f} MB over the second half of a life "
                f"of {growth.longest_s:.0f} s; allowed are {GROWTH_MAX_BYTES / 1e6:g} MB"
            )
    return problems


def _end(number: int, _frame: FrameType | None) -> None:
    """Unwind the stack: the run is ended, and its folder removed."""
    signal.signal(number, signal.SIG_IGN)  # the way out is not to be cut short
    raise SystemExit(128 + number)


def main() -> None:
    """Read the command line; fails if a bit or a gradient is lost, or memory grows."""
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--consistency", default=str(BSP), help=FORMS)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    given = parser.parse_args()
    if not 0 < given.minutes <= 1440:
        raise BadInput(f"minutes {given.minutes}: allowed are above 0 to 1440")
    if not 0 <= given.seed <= MAX_SEED:
        raise BadInput(f"seed {given.seed}: allowed are 0 to {MAX_SEED}")
    check_file("--json", given.json)
    consistency = str(Consistency.parse(given.consistency))
    signal.signal(signal.SIGTERM, _end)
    with tempfile.TemporaryDirectory(prefix="libra-soak-") as name:
        found = soak(given.minutes, given.seed, Path(name), consistency)
    show(found)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    if problems := problems_of(found):
        raise LibraError("; ".join(problems))


if __name__ == "__main__":
    sys.exit(run_role(main))
