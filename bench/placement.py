"""Keys per second of identifying, placing and packing, beside plain Python, and how they grow.

Seconds are those of the processor, so that whatever else the machine does hardly counts.

`python -m bench.placement [--json FILE] [--quick]`, or `libra bench placement`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.conditions import conditions
from controller.key_counts import KeyCounts
from controller.placing.cooccurrence import by_cooccurrence
from controller.placing.documents import Documents
from controller.placing.pairs import PAIRED_ROWS, pair_rows
from host_stack.codec import Index
from host_stack.fixedpoint import IntArray
from host_stack.layout import MAX_ROWS, Layout
from host_stack.placement import Keys, Placement, heat_based

SCHEMA = 1
LAYOUT = Layout(lanes=32, rows=MAX_ROWS, window=256, program=1)
PUSH_SHARE = 10
"""A push has one of so many hot keys."""
KEYS_OF_A_DOCUMENT = 200
OCCURRENCES_OF_A_KEY = 4
PLAIN_LIMIT = 200_000
"""Keys that plain Python is given at most."""
RESOLUTION_S = 1e-6
MAX_SECONDS = 20.0
"""After so long no more turns are taken at a step and size."""

Say = Callable[[str], None]
Step = Callable[[], object]


@dataclass(frozen=True)
class Effort:
    """How much is measured: numbers of hot keys, and turns that alternatives take."""

    sizes: tuple[int, ...]
    turns: int


FULL = Effort((10_000, 100_000, 1_000_000), 15)
QUICK = Effort((1_000, 10_000), 3)


def run(effort: Effort, say: Say) -> dict[str, Any]:
    """Measure every step at every size; the record for JSON (docs/hot-parameters.md)."""
    rows = []
    for hot in effort.sizes:
        for name, keys, contenders in _steps(hot):
            row = {"step": name, "hot": hot, "keys": keys, **_race(contenders, keys, effort.turns)}
            rows.append(row)
            say(_line(row))
    about = {"lanes": LAYOUT.lanes, "paired_rows": PAIRED_ROWS, "turns": effort.turns}
    about |= conditions()
    return {"schema": SCHEMA, "steps": rows, "conditions": about}


def _steps(hot: int) -> list[tuple[str, int, dict[str, tuple[Step, int]]]]:
    """Name, keys of a turn, and the contenders: what they do and to how many keys."""
    rng = np.random.default_rng(hot)
    documents = _documents(rng, hot)
    seen = np.concatenate(documents)
    ranked = np.arange(hot, dtype=np.uint64)
    placement = heat_based(ranked, LAYOUT)
    paired = pair_rows(placement, min(PAIRED_ROWS, placement.used_rows))
    push = np.sort(rng.choice(hot, hot // PUSH_SHARE, replace=False)).astype(np.intp)
    few = seen[:PLAIN_LIMIT].tolist()
    return [
        (
            "identify",
            len(seen),
            {
                "libra": (lambda: _identify(seen, hot), len(seen)),
                "plain": (lambda: Counter(few).most_common(), len(few)),
            },
        ),
        (
            "place by heat",
            hot,
            {
                "libra": (lambda: heat_based(ranked, LAYOUT), hot),
                "plain": (lambda: plain_place(ranked[:PLAIN_LIMIT]), min(hot, PLAIN_LIMIT)),
            },
        ),
        (
            "place by co-occurrence",
            hot,
            {
                "libra": (
                    lambda: by_cooccurrence(Documents.of(ranked, documents), 8, 8, LAYOUT),
                    hot,
                )
            },
        ),
        ("pack", len(push), _packers(placement, push)),
        ("pack two cells", len(push), _packers(paired, push)),
    ]


def _by_cooccurrence(ranked: Keys, documents: list[Keys]) -> Placement:
    return by_cooccurrence(Documents.of(ranked, documents), 8, 8, LAYOUT)


def _documents(rng: np.random.Generator, hot: int) -> list[Keys]:
    """Documents of keys whose frequency falls as a power of their rank."""
    count = hot * OCCURRENCES_OF_A_KEY // KEYS_OF_A_DOCUMENT
    ranks = hot * rng.random((count, KEYS_OF_A_DOCUMENT)) ** 2
    return [np.unique(each) for each in ranks.astype(np.uint64)]


def _identify(seen: Keys, num_keys: int) -> KeyCounts:
    counts = np.bincount(seen.astype(np.int64), minlength=num_keys)
    return KeyCounts.of(counts, len(seen))


def _packers(placement: Placement, push: Index) -> dict[str, tuple[Step, int]]:
    few = placement.lanes[push[:PLAIN_LIMIT]].tolist()
    lanes = placement.lanes[push]
    return {
        "libra": (lambda: placement.pack(push), len(push)),
        "plain": (lambda: plain_pack(few), len(few)),
        "wide sort": (lambda: wide_pack(lanes), len(push)),
    }


def plain_place(ranked: Keys) -> dict[int, tuple[int, int]]:
    """The lane and row of each key, in a dict, by a loop."""
    lanes = LAYOUT.lanes
    return {key: (at % lanes, at // lanes) for at, key in enumerate(ranked.tolist())}


def plain_pack(lanes: list[int]) -> list[int]:
    """The packet of each key, by a loop over their lanes."""
    filled = [0] * LAYOUT.lanes
    packets = []
    for lane in lanes:
        packets.append(filled[lane])
        filled[lane] += 1
    return packets


def wide_pack(lanes: IntArray) -> Index:
    """The packet of each key, with a stable sort of 64-bit lanes."""
    order = np.argsort(lanes, kind="stable")
    per_lane = np.bincount(lanes, minlength=LAYOUT.lanes)
    packets = np.empty(len(lanes), np.intp)
    starts = np.cumsum(per_lane) - per_lane
    packets[order] = np.arange(len(lanes)) - np.repeat(starts, per_lane)
    return packets


def _race(contenders: dict[str, tuple[Step, int]], keys: int, turns: int) -> dict[str, Any]:
    """Let contenders take turns; keys per second of each, and the median ratio of their turns."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    spent = 0.0
    for _ in range(turns):
        for name, (step, handled) in contenders.items():
            started = time.thread_time()
            step()
            elapsed = max(time.thread_time() - started, RESOLUTION_S)
            spent += elapsed
            rates[name].append(handled / elapsed)
        if spent > MAX_SECONDS:
            break
    ours = rates["libra"]
    return {
        "keys_per_s": {name: statistics.median(each) for name, each in rates.items()},
        "keys_per_s_highest": {name: max(each) for name, each in rates.items()},
        "ratios": {
            name: statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
            for name, theirs in rates.items()
            if name != "libra"
        },
        "turns": len(ours),
    }


def _line(row: dict[str, Any]) -> str:
    rate = row["keys_per_s"]["libra"] / 1e6
    best = row["keys_per_s_highest"]["libra"] / 1e6
    ratios = ", ".join(f"{ratio:.1f}× {name}" for name, ratio in row["ratios"].items())
    return (
        f"{row['hot']:>9,} hot  {row['step']:<22} {row['keys']:>9,} keys  {rate:8.2f} million/s "
        f"(best {best:.2f})  {ratios}"
    )


if __name__ == "__main__":
    from bench.cli import app

    app(["placement", *sys.argv[1:]], prog_name="bench.placement")
