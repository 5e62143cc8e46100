"""Runs inputs of one target in this process, each written to a file before it is tried.

`python -m tests.fuzz.worker TARGET SEED COUNT SECONDS CURRENT [INPUT…]`, started by tests.fuzz.run.
COUNT and SECONDS of 0 do not limit. With INPUTs it runs these alone.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
import time
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from tests.fuzz.messages import Messages
from tests.fuzz.packets import Packets
from tests.fuzz.programs import Programs
from tests.fuzz.run import CORPUS, ROOM_BYTES

TARGETS: dict[str, Callable[..., Any]] = {
    "packets": Packets,
    "programs": Programs,
    "messages": Messages,
}


def main(
    name: str, seed: int, limit: int, seconds: float, current: Path, paths: list[Path]
) -> tuple[int, int]:
    """Run inputs; return how many, and how many of them got far."""
    corpus = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    brief = {"brief": bool(limit)} if name == "packets" else {}
    target = TARGETS[name](random.Random(seed), corpus, **brief)
    end = time.monotonic() + seconds
    done = 0
    with current.open("r+b") as file, mmap.mmap(file.fileno(), ROOM_BYTES) as room:
        inputs = [path.read_bytes() for path in paths] if paths else target.inputs()
        for number, data in zip(count(1), inputs, strict=False):
            room[:8] = len(data).to_bytes(8, "big")
            room[8 : 8 + len(data)] = data
            target.run(data)
            done = number
            if (limit and number >= limit) or (seconds and time.monotonic() >= end):
                break
        room[:8] = bytes(8)
    target.close()
    return done, target.reached


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)  # compilers do without sanitizers
    _, name_, seed_, limit_, seconds_, current_, *paths_ = sys.argv
    try:
        counts = main(
            *(name_, int(seed_), int(limit_), float(seconds_), Path(current_)),
            [Path(path) for path in paths_],
        )
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # whatever threads the target has left
    print(*counts)
