"""Ways of identifying the hot set, beside each other: what they find and what they cost.

`exact` counts all of the training part; it is the oracle. `sample` counts a random part of it, as
the paper does (4-8 %). `space-saving` reads all of it once, with a bounded number of counters. They
are judged by data that none of them has seen, the test part.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from controller.key_counts import KeyCounts
from controller.space_saving import BYTES_PER_COUNTER, SpaceSaving
from host_stack.placement import Keys
from workloads.workload import Workload

_BYTES_PER_KEY = 8


@dataclass(frozen=True)
class Identified:
    """What a method found.

    Attributes:
        method: `exact`, `sample` or `space-saving`.
        seed: of the sample; None for a method that draws none.
        counts: all keys that it ranks.
        examples: examples that it read.
        cpu_s: processor time that it took.
        counter_bytes: memory that it counts in.
        error_bound: how much too high a count may be.
    """

    method: str
    seed: int | None
    counts: KeyCounts
    examples: int
    cpu_s: float
    counter_bytes: int
    error_bound: int = 0


def exact(workload: Workload) -> Identified:
    """Count every example of the training part."""
    started = time.process_time()
    counts = KeyCounts.of(workload.count_keys(workload.train), len(workload.train))
    return _identified("exact", None, counts, started)


def sample(workload: Workload, fraction: float, seed: int) -> Identified:
    """Count a random `fraction` of the training part."""
    started = time.process_time()
    counts = KeyCounts.of(*workload.sample_counts(fraction, seed))
    return _identified("sample", seed, counts, started)


def _identified(method: str, seed: int | None, counts: KeyCounts, started: float) -> Identified:
    cpu_s = time.process_time() - started
    memory = counts.num_keys * _BYTES_PER_KEY
    return Identified(method, seed, counts, counts.examples, cpu_s, memory)


def space_saving(workload: Workload, counters: int) -> Identified:
    """Read the training part once, with `counters` counters."""
    started = time.process_time()
    summary = SpaceSaving(counters)
    for keys, counts in workload.counted_blocks(workload.train):
        summary.update(keys, counts)
    keys, counts, _ = summary.ranked()
    found = KeyCounts(keys, counts, len(workload.train), workload.model.num_keys)
    cpu_s = time.process_time() - started
    memory = counters * BYTES_PER_COUNTER
    return Identified(
        "space-saving", None, found, found.examples, cpu_s, memory, summary.error_bound
    )


class HeldOut:
    """The updates of the test part, by which hot sets are judged.

    Attributes:
        updates: int64[num_keys], examples that touch each key.
        pushes: int64[num_keys], pushes (batches) that do.
    """

    def __init__(self, workload: Workload) -> None:
        self.updates = workload.count_keys(workload.test)
        self.pushes = np.zeros_like(self.updates)
        for keys in workload.held_out_keys():
            self.pushes[keys.astype(np.int64)] += 1

    def shares(self, hot: Keys) -> tuple[float, float]:
        """Return which share of updates, and which of the gradients pushed, `hot` holds."""
        at = hot.astype(np.int64)
        return _share(self.updates, at), _share(self.pushes, at)


def _share(counts: NDArray[np.int64], at: NDArray[np.int64]) -> float:
    return float(counts[at].sum() / max(1, int(counts.sum())))


@dataclass(frozen=True)
class Judged:
    """A hot set beside that of the oracle, on held-out data.

    Attributes:
        recall: share of the oracle's hot set that was found.
        share_of_updates: share of the examples' updates that the hot set holds.
        share_of_pushes: the same of gradients pushed: a batch counts a key once.
        coverage: `share_of_updates`, relative to the oracle's.
        coverage_of_pushes: `share_of_pushes`, relative to the oracle's.
    """

    recall: float
    share_of_updates: float
    share_of_pushes: float
    coverage: float
    coverage_of_pushes: float


def judge(hot: Keys, oracle: Keys, held_out: HeldOut) -> Judged:
    """Compare `hot`, uint64[n], with the oracle's hot set of the same size."""
    updates, pushes = held_out.shares(hot)
    best_updates, best_pushes = held_out.shares(oracle)
    found = len(np.intersect1d(hot, oracle)) / len(oracle) if len(oracle) else 1.0
    return Judged(
        found, updates, pushes, _ratio(updates, best_updates), _ratio(pushes, best_pushes)
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def stability(hot_sets: Iterable[Keys]) -> float | None:
    """Return the mean Jaccard index of pairs of hot sets: 1 for equal ones, None without a pair."""
    indices = []
    for one, other in combinations(hot_sets, 2):
        both = len(np.intersect1d(one, other))
        indices.append(_ratio(both, len(one) + len(other) - both))
    return float(np.mean(indices)) if indices else None
