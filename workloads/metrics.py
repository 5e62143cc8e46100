"""Measures of a model's quality on held-out examples."""

from __future__ import annotations

import numpy as np

from workloads.errors import WorkloadError
from workloads.losses import LogisticLoss
from workloads.segments import FloatArray


def rmse(labels: FloatArray, predictions: FloatArray) -> float:
    """Return the root of the mean squared error, in units of the label."""
    errors = np.asarray(labels, np.float64) - np.asarray(predictions, np.float64)
    return float(np.sqrt(np.mean(np.square(errors))))


def log_loss(labels: FloatArray, scores: FloatArray) -> float:
    """Return the mean negative log-likelihood, in nats, of labels {0, 1} under log-odds."""
    wide_scores = np.asarray(scores, np.float64)
    return float(np.mean(LogisticLoss().value(wide_scores, np.asarray(labels, np.float64))))


def auc(labels: FloatArray, scores: FloatArray) -> float:
    """Return the area under the ROC curve.

    That is how often a positive outranks a negative, ties counting half. It comes from ranks (Mann
    and Whitney): every run of equal scores shares its mean rank. Raises `WorkloadError` where one
    class of labels is absent.
    """
    positive = np.asarray(labels) > 0
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        raise WorkloadError(
            f"AUC is undefined for {positives} positive and {negatives} negative label(s); "
            "test on examples of both classes"
        )
    _, run, counts = np.unique(np.asarray(scores), return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    rank_sum = float(mean_ranks[run][positive].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)
