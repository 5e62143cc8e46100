"""Parts of a data set."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sparse_examples import make_examples
from workloads import part as module
from workloads.part import Part


@pytest.mark.parametrize("pairs_at_once", [module.PAIRS_AT_ONCE, 5])
def test_a_part_reads_its_examples(pairs_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own order, some at a time, each as in the whole."""
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", pairs_at_once)
    whole = make_examples([3, 0, 2, 4, 1, 2, 0])
    rows = np.array([5, 3, 0, 1, 6])
    part = Part(whole, rows)
    wanted = whole.take(rows)
    assert len(part) == 5
    np.testing.assert_array_equal(part.labels, wanted.labels)
    blocks = list(part.blocks())
    assert len(blocks) == (3 if pairs_at_once == 5 else 1)
    for field in ("features", "values", "labels"):
        joined = np.concatenate([getattr(block, field) for block in blocks])
        np.testing.assert_array_equal(joined, getattr(wanted, field))
    np.testing.assert_array_equal(part.feature_counts(9), np.bincount(wanted.features, minlength=9))
    np.testing.assert_array_equal(part.take(np.array([1, 1])).labels, whole.labels[[3, 3]])
    np.testing.assert_array_equal(part.select(np.array([4, 2])).labels, whole.labels[[6, 0]])


def test_an_empty_part() -> None:
    """It has no blocks and counts nothing."""
    part = Part(make_examples([2]), np.empty(0, np.int64))
    assert (len(part), list(part.blocks())) == (0, [])
    assert part.feature_counts(3).tolist() == [0, 0, 0]
