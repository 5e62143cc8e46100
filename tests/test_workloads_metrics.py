"""Metrics against definitions and known values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import metrics
from workloads.errors import WorkloadError


@given(pairs=st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=40))
@settings(derandomize=True, deadline=None)
def test_auc_counts_pairs_with_ties_as_half(pairs):
    """The rank formula equals the count over all (positive, negative) pairs."""
    positives = [score for label, score in pairs if label]
    negatives = [score for label, score in pairs if not label]
    labels = np.array([label for label, _ in pairs], dtype=np.float32)
    scores = np.array([score for _, score in pairs], dtype=np.float32)
    if not positives or not negatives:
        with pytest.raises(WorkloadError, match="both classes"):
            metrics.auc(labels, scores)
        return
    wins = sum((p > n) + (p == n) / 2 for p in positives for n in negatives)
    assert metrics.auc(labels, scores) == pytest.approx(wins / len(positives) / len(negatives))


def test_auc_of_perfect_reversed_and_constant_scores():
    """1, 0 and one half."""
    labels = np.array([0, 0, 1, 1], dtype=np.float32)
    scores = np.array([1, 2, 3, 4], dtype=np.float32)
    assert metrics.auc(labels, scores) == 1
    assert metrics.auc(labels, -scores) == 0
    assert metrics.auc(labels, np.zeros_like(scores)) == 0.5


def test_rmse_and_log_loss_have_known_values():
    """Worked by hand."""
    assert metrics.rmse(np.array([1.0, 5.0]), np.array([4.0, 1.0])) == pytest.approx(12.5**0.5)
    scores = np.array([np.log(3), np.log(3)])
    wanted = -(np.log(3 / 4) + np.log(1 / 4)) / 2
    assert metrics.log_loss(np.array([1.0, 0.0]), scores) == pytest.approx(wanted)
