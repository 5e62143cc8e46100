"""Ranked counts of keys, hot sets and their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.key_counts import KeyCounts
from host_stack.errors import BadInput
from workloads.workload import Workload


def counts_of(counts: list[int], examples: int = 10) -> KeyCounts:
    """Ranked counts of keys 0 on."""
    return KeyCounts.of(np.array(counts, np.int64), examples)


def test_ranked_by_count_then_key() -> None:
    """Keys that were never seen have no rank."""
    ranked = counts_of([2, 0, 7, 2, 0])
    assert ranked.keys.tolist() == [2, 0, 3]
    assert ranked.counts.tolist() == [7, 2, 2]
    assert ranked.keys.dtype == np.uint64
    assert ranked.num_keys == 5


@settings(max_examples=60, derandomize=True, deadline=None)
@given(counts=st.lists(st.integers(0, 3), max_size=12), hot=st.integers(0, 12))
def test_the_hot_set_has_the_size_asked_for(counts: list[int], hot: int) -> None:
    """The hottest first, then unseen keys by number; never more than there are."""
    ranked = counts_of(counts)
    if hot > len(counts):
        with pytest.raises(BadInput, match=f"{hot} keys: the model has {len(counts)}"):
            ranked.top(hot)
        return
    wanted = sorted(range(len(counts)), key=lambda key: (-counts[key], key))[:hot]
    top = ranked.top(hot)
    assert top.keys.tolist() == wanted
    assert top.counts.tolist() == [counts[key] for key in wanted]
    top.check("top")


def test_heat_of_pushes() -> None:
    """A key of a tenth of the examples is in 1 - 0.9^4 of the pushes of four."""
    heat = counts_of([10, 1]).heat(4)
    assert heat.share.tolist() == pytest.approx([1.0, 1 - 0.9**4])
    assert heat.keys.tolist() == [0, 1]
    assert len(KeyCounts.of(np.zeros(3, np.int64), 0).heat(4).keys) == 0


def test_rare_keys_of_a_sample_are_rarer_than_they_look() -> None:
    """By hand: of 40 keys seen once and 30 seen twice, those seen once are expected 1.5 times: 1.

    With 200 and 30 they are expected 0.3 times. What was sampled is known as it is.
    """
    few = KeyCounts.of(np.repeat([1, 2, 50], [40, 30, 1]), 100, 1000)
    assert few.heat(1).share.tolist() == pytest.approx([0.5] + [0.02] * 30 + [0.01] * 40)
    many = KeyCounts.of(np.repeat([1, 2, 50], [200, 30, 1]), 100, 1000)
    once = (0.1 * 1 + 0.9 * 0.3) / 100
    assert many.heat(1).share.tolist() == pytest.approx([0.5] + [0.02] * 30 + [once] * 200)
    whole = KeyCounts.of(np.repeat([1, 2, 50], [200, 30, 1]), 100)
    assert whole.heat(1).share[-1] == pytest.approx(0.01)


def test_a_corrected_sample_tells_the_number_of_updates() -> None:
    """Of keys that are in one sampled example, on data where most of these are rare."""
    workload = Workload.open(
        "synthetic:examples=20000,features=30000,exponent=1.0",
        "lr",
        seed=1,
        workers=1,
        batch_size=8,
    )
    sampled = KeyCounts.of(*workload.sample_counts(0.05, 3))
    true = workload.count_keys(workload.train) / len(workload.train)
    once = sampled.counts == 1
    wanted = true[sampled.keys[once].astype(int)].mean()
    assert sampled.heat(1).share[once].mean() == pytest.approx(wanted, rel=0.1)
    assert 1 / sampled.examples > 1.5 * wanted


@settings(max_examples=60, derandomize=True, deadline=None)
@given(number=st.lists(st.integers(0, 60), min_size=1, max_size=9), extra=st.integers(0, 500))
def test_corrected_heat_keeps_the_order(number: list[int], extra: int) -> None:
    """It never rises along the ranks, nor above what was counted."""
    counts = np.repeat(np.arange(1, len(number) + 1), number)
    sampled = KeyCounts.of(counts, 100, 100 + extra)
    share = sampled.heat(4).share
    assert (np.diff(share) <= 0).all()
    assert (share <= KeyCounts.of(counts, 100).heat(4).share + 1e-12).all()
    assert (share > 0).all()


def test_files(tmp_path: Path) -> None:
    """What was saved comes back."""
    path = tmp_path / "hot.npz"
    counts_of([2, 0, 7, 2, 0]).top(4).save(path)
    loaded = KeyCounts.load(path)
    assert loaded.keys.tolist() == [2, 0, 3, 1]
    assert loaded.counts.tolist() == [7, 2, 2, 0]
    assert (loaded.examples, loaded.num_keys) == (10, 5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schema": np.int64(2)}, "schema 2"),
        ({"keys": np.array([2, 2], np.uint64)}, "a key twice"),
        ({"keys": np.array([2, 5], np.uint64)}, "key 5; allowed are 0 to 4"),
        ({"keys": np.array([1.0, 2.0])}, "keys is float64"),
        ({"counts": np.array([1], np.int64)}, "1 counts of 2 keys"),
        ({"counts": np.array([1, 2], np.int64)}, "not in the order"),
        ({"counts": np.array([11, 2], np.int64)}, "not from 0 to 10"),
    ],
)
def test_files_that_are_no_hot_set(
    tmp_path: Path, changed: dict[str, np.ndarray], message: str
) -> None:
    """Each refusal says what is wrong."""
    path = tmp_path / "hot.npz"
    fields = {
        "schema": np.int64(1),
        "keys": np.array([2, 0], np.uint64),
        "counts": np.array([7, 2], np.int64),
        "examples": np.int64(10),
        "num_keys": np.int64(5),
    }
    np.savez(path, **(fields | changed))
    with pytest.raises(BadInput, match=message):
        KeyCounts.load(path)
