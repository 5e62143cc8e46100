"""Ways of identifying the hot set, on data small enough to check by counting."""

from __future__ import annotations

import numpy as np
import pytest

from controller import identification
from controller.identification import HeldOut, judge, stability
from controller.key_counts import KeyCounts
from workloads.workload import Workload

DATASET = "synthetic:examples=4000,features=2000,nnz=12,exponent=1.2"


@pytest.fixture(scope="module")
def workload() -> Workload:
    """A Zipf workload."""
    return Workload.open(DATASET, "lr", seed=1, workers=4, batch_size=16)


def keys(*values: int) -> np.ndarray:
    """A hot set."""
    return np.array(values, np.uint64)


def test_exact_counts_all_of_the_training_part(workload: Workload) -> None:
    """Against counting the keys of one example at a time."""
    wanted = np.zeros(workload.model.num_keys, np.int64)
    for row in range(len(workload.train)):
        wanted[workload.model.batch_keys(workload.train.take(np.array([row]))).astype(int)] += 1
    found = identification.exact(workload)
    ranked = KeyCounts.of(wanted, len(workload.train))
    np.testing.assert_array_equal(found.counts.keys, ranked.keys)
    np.testing.assert_array_equal(found.counts.counts, ranked.counts)
    assert found.examples == 3600
    assert found.counter_bytes == 8 * 2001


def test_a_sample_finds_most_of_it(workload: Workload) -> None:
    """It reads the share asked for, is a function of its seed, and covers nearly as much."""
    found = identification.sample(workload, 0.08, 5)
    assert (found.examples, found.seed) == (288, 5)
    again = identification.sample(workload, 0.08, 5)
    np.testing.assert_array_equal(found.counts.keys, again.counts.keys)
    oracle = identification.exact(workload).counts.top(100).keys
    judged = judge(found.counts.top(100).keys, oracle, HeldOut(workload))
    assert 0.7 < judged.recall < 1
    assert 0.9 < judged.coverage <= 1.01
    assert judged.share_of_pushes < judged.share_of_updates


def test_space_saving_with_a_counter_for_each_key_is_exact(workload: Workload) -> None:
    """And with few, the hottest keys are still found, within its error bound."""
    exact = identification.exact(workload).counts
    found = identification.space_saving(workload, workload.model.num_keys)
    np.testing.assert_array_equal(found.counts.keys, exact.keys)
    np.testing.assert_array_equal(found.counts.counts, exact.counts)
    assert found.error_bound == 0
    few = identification.space_saving(workload, 300)
    assert few.counter_bytes == 300 * 24
    assert 0 < few.error_bound <= exact.counts.sum() / 300
    assert len(np.intersect1d(few.counts.top(20).keys, exact.top(20).keys)) >= 18


def test_held_out_updates_by_hand() -> None:
    """Updates count examples, pushes count batches."""
    workload = Workload.open(DATASET, "lr", seed=1, workers=1, batch_size=100)
    held_out = HeldOut(workload)
    bias = workload.model.num_keys - 1
    assert held_out.updates[bias] == len(workload.test) == 400
    assert held_out.pushes[bias] == 4
    updates, pushes = held_out.shares(keys(bias))
    assert updates == 400 / held_out.updates.sum()
    assert pushes == 4 / held_out.pushes.sum()
    assert held_out.shares(keys()) == (0.0, 0.0)


def test_judged_against_itself_all_is_found(workload: Workload) -> None:
    """Of an empty set too."""
    held_out = HeldOut(workload)
    for hot in (keys(3, 5), keys()):
        judged = judge(hot, hot, held_out)
        assert (judged.recall, judged.coverage, judged.coverage_of_pushes) == (1.0, 1.0, 1.0)


def test_stability_is_the_mean_of_jaccard_indices() -> None:
    """By hand, of none, one, and three sets."""
    assert stability([]) is stability([keys(1)]) is None
    assert stability([keys(), keys()]) == 1.0
    sets = [keys(1, 2), keys(2, 3), keys(1, 2)]
    assert stability(sets) == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)
