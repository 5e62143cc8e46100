"""Starts a target in a process of its own and keeps the input on which it ends."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.sanitized import environment

CORPUS = Path(__file__).with_name("corpus")
ROOM_BYTES = 1 << 23
TARGETS = ("packets", "programs", "messages")


@dataclass(frozen=True)
class Outcome:
    """How many inputs were tried and how many got far; what failed and why, if anything did.

    Far means that new code was reached, or the input accepted.
    """

    tried: int
    reached: int
    failed: bytes | None
    report: str


def run_target(
    name: str,
    seed: int,
    *,
    count: int = 0,
    seconds: float = 0.0,
    inputs: Sequence[Path] = (),
) -> Outcome:
    """Run a target for `count` inputs or so many seconds, or with the given inputs alone."""
    with tempfile.TemporaryDirectory() as folder:
        current, log = Path(folder, "current"), Path(folder, "report")
        current.write_bytes(bytes(ROOM_BYTES))
        command = [sys.executable, "-m", "tests.fuzz.worker", name, str(seed), str(count)]
        command += [str(seconds), str(current), *map(str, inputs)]
        env = dict(os.environ) if name == "messages" else environment(log)
        result = subprocess.run(
            command,
            env=env,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + 3600,
            check=False,
        )
        if result.returncode == 0:
            tried, reached = map(int, result.stdout.split())
            return Outcome(tried, reached, None, "")
        raw = current.read_bytes()
        reports = [path.read_text(errors="replace") for path in sorted(log.parent.glob("report*"))]
    size = int.from_bytes(raw[:8], "big")
    return Outcome(0, 0, raw[8 : 8 + size], "\n".join([*reports, result.stderr]))


def save(name: str, data: bytes, folder: Path) -> Path:
    """Write an input that failed; its name says the target and the content."""
    path = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}"
    path.write_bytes(data)
    return path
