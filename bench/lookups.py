"""What a lookup costs as tables grow, and how long it takes to fill them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.processing import BATCH, repeated_cost
from softswitch.dataplane import DataPlane, MatchKey, TableEntry

PROGRAM = Path(__file__).parent / "p4" / "lookup.json"
_FULL = 0xFFFFFFFF
_ACTION, _PORT = "Lookup.send", 2
_PACKETS = 16 * BATCH
_FRAME = np.dtype(
    [
        ("dst", "u1", (6,)),
        ("src", "u1", (6,)),
        ("ether_type", ">u2"),
        ("a", ">u4"),
        ("b", ">u4"),
        ("rest", "u1", (38,)),
    ]
)
_PREFIXES = (16, 20, 22, 24, 24, 24, 24, 28, 32)
"""Prefix lengths, about as often as routing tables have them."""


KeyOf = Callable[[np.random.Generator, int, int], tuple[MatchKey, ...]]


@dataclass(frozen=True)
class Kind:
    """A table of `lookup.p4`: `selector` is the ether_type that asks it."""

    name: str
    table: str
    selector: int
    key: KeyOf
    uses_priority: bool = False


def _exact(_rng: np.random.Generator, a: int, b: int) -> tuple[MatchKey, ...]:
    return MatchKey(a), MatchKey(b)


def _lpm(rng: np.random.Generator, a: int, _b: int) -> tuple[MatchKey, ...]:
    return (MatchKey(a, prefix_len=_PREFIXES[int(rng.integers(len(_PREFIXES)))]),)


def _ternary(masks: list[tuple[int, int]]) -> KeyOf:
    def key(rng: np.random.Generator, a: int, b: int) -> tuple[MatchKey, ...]:
        first, second = masks[int(rng.integers(len(masks)))]
        return MatchKey(a, mask=first), MatchKey(b, mask=second)

    return key


def _prefix_masks(count: int) -> list[tuple[int, int]]:
    lengths = np.random.default_rng(7).integers(8, 33, (count, 2)).tolist()
    return [(_prefix(first), _prefix(second)) for first, second in lengths]


def _scattered_masks(count: int) -> list[tuple[int, int]]:
    """Masks of random bits: nothing that they have in common helps a lookup."""
    pairs = np.random.default_rng(7).integers(0, 1 << 32, (count, 2)).tolist()
    return [(first, second) for first, second in pairs]


def _covered(kind: Kind, match: MatchKey) -> tuple[int, int]:
    """What of a number is matched: bits and mask."""
    mask = {"exact": _FULL, "lpm": _prefix(match.prefix_len)}.get(kind.name, match.mask)
    return match.value & mask, mask


def _prefix(length: int) -> int:
    return _FULL & ~(_FULL >> int(length))


_TERNARY_MASKS = {
    "ternary, 16 masks": _prefix_masks(16),
    "ternary, 400 masks": _prefix_masks(400),
    "ternary, 400 scattered masks": _scattered_masks(400),
}
KINDS = (
    Kind("exact", "Lookup.exact_match", 1, _exact),
    Kind("lpm", "Lookup.longest_prefix", 2, _lpm),
    *(
        Kind(name, "Lookup.ternary_match", 3, _ternary(masks), uses_priority=True)
        for name, masks in _TERNARY_MASKS.items()
    ),
)


def table_costs(sizes: dict[str, list[int]], runs: int) -> Iterator[dict[str, Any]]:
    """Yield a record of cost and load time for each kind and size that is given.

    Packets ask for entries of the table, at random.
    """
    for kind in KINDS:
        for size in sizes.get(kind.name, []):
            with DataPlane.load(PROGRAM.read_bytes()) as dataplane:
                yield _measure(dataplane, kind, size, runs)


def _measure(dataplane: DataPlane, kind: Kind, size: int, runs: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    # All different in every prefix that is used, so that no two entries are the same.
    a = rng.permutation(1 << 20)[:size] if size <= 1 << 20 else np.arange(size)
    keys = np.stack([a.astype(np.int64) << 12, rng.integers(0, 1 << 32, size)], axis=1)
    entries: dict[tuple[tuple[int, int], ...], TableEntry] = {}
    for i, (first, second) in enumerate(keys.tolist()):
        key = kind.key(rng, first, second)
        entries[tuple(_covered(kind, m) for m in key)] = TableEntry(
            key, i + 1 if kind.uses_priority else 0, _ACTION, (_PORT,)
        )
    begin = time.perf_counter()
    for entry in entries.values():
        dataplane.table_add(kind.table, entry)
    seconds = time.perf_counter() - begin
    frames = np.zeros(_PACKETS, _FRAME)
    frames["ether_type"] = kind.selector
    chosen = keys[rng.integers(0, size, _PACKETS)]
    frames["a"], frames["b"] = chosen[:, 0], chosen[:, 1]
    cost = repeated_cost(dataplane, 1, frames.view(np.uint8).reshape(_PACKETS, -1), runs)
    return {"kind": kind.name, "entries": len(entries), "load_s": seconds, **cost.record()}
