"""Losses of one example as functions of the model's score and the label."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from workloads.segments import FloatArray


class Loss(Protocol):
    """All methods are elementwise and keep the dtype of `scores`."""

    def value(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the loss of each example."""
        ...

    def derivative(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the derivative of each loss with respect to its score."""
        ...

    def prediction(self, scores: FloatArray) -> FloatArray:
        """Return what a score says about the label."""
        ...

    def best_constant(self, labels: FloatArray) -> float:
        """Return the score that, given to every example, minimises the loss over `labels`."""
        ...


class SquaredLoss:
    """Half the squared error of a rating; the score is the prediction."""

    def value(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        """(score - label)² / 2."""
        return np.square(scores - labels) / 2

    def derivative(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        """Score - label."""
        return scores - labels

    def prediction(self, scores: FloatArray) -> FloatArray:
        """Return the score itself."""
        return scores

    def best_constant(self, labels: FloatArray) -> float:
        """Return the mean label."""
        return float(np.mean(labels, dtype=np.float64))


class LogisticLoss:
    """The negative log-likelihood of a label in {0, 1}; the score is the log-odds of 1."""

    def value(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        """Log(1 + e^score) - label · score, without overflow."""
        return np.logaddexp(scores.dtype.type(0), scores) - labels * scores

    def derivative(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        """Probability - label."""
        return self.prediction(scores) - labels

    def prediction(self, scores: FloatArray) -> FloatArray:
        """Return the probability of label 1."""
        decay = np.exp(-np.abs(scores))  # at most 1 whatever the sign
        likelier: FloatArray = np.where(scores >= 0, scores.dtype.type(1), decay)
        probability: FloatArray = likelier / (1 + decay)
        return probability

    def best_constant(self, labels: FloatArray) -> float:
        """Return the log-odds of the mean label, each class counted once more."""
        positive = float(np.sum(labels, dtype=np.float64)) + 1
        return float(np.log(positive / (len(labels) + 2 - positive)))
