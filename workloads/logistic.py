"""Sparse logistic regression."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_stack.distinct import distinct
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array
from workloads.losses import Loss
from workloads.segments import FloatArray, row_sums, sums_by_index


class LogisticRegression:
    """Score = b + Σ w_f x_f, the log-odds of label 1.

    The key of w_f is f; the last key of all is the bias b. `l2` penalises w_f in each example that
    has feature f.
    """

    name = "lr"
    width = 1

    def __init__(self, num_features: int, loss: Loss, *, initial_bias: float, l2: float) -> None:
        self.num_features = num_features
        self.num_keys = num_features + 1
        self._loss = loss
        self._initial_bias = initial_bias
        self._l2 = l2

    def initial_params(self, seed: int) -> Float32Array:
        """float32[num_keys]: the bias, and else 0, whatever the seed."""
        params = np.zeros(self.num_keys, dtype=np.float32)
        params[-1] = self._initial_bias
        return params

    def batch_keys(self, batch: Examples) -> NDArray[np.uint64]:
        """Return the keys that the gradient of `batch` touches, uint64[n], sorted and unique."""
        features = distinct(batch.features)
        return np.append(features, self.num_features).astype(np.uint64)

    def key_counts(self, feature_counts: Int64Array, examples: int) -> Int64Array:
        """Return how many of `examples` examples touch each key; see `Model.key_counts`."""
        return np.append(feature_counts, examples)

    def gradient(
        self, batch: Examples, keys: NDArray[np.uint64], params: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the gradient of the mean loss (and penalty) of `batch`, and that mean.

        `keys` are `batch_keys(batch)` and `params` their values, [n]; the gradient has the same
        shape. Everything is computed in the dtype of `params`: float32 in training.
        """
        features, index = np.unique(batch.features, return_inverse=True)
        if len(params) != len(keys) or len(keys) != len(features) + 1:
            raise WorkloadError(
                f"lr: {len(keys)} keys and {len(params)} parameters for a batch that touches "
                f"{len(features) + 1}; pass batch_keys(batch) and their values"
            )
        values = batch.values.astype(params.dtype)
        labels = batch.labels.astype(params.dtype)
        weights = params[index]
        scores = params[-1] + row_sums(batch.indptr, weights * values)
        slopes = self._loss.derivative(scores, labels) / len(batch)
        penalty = params.dtype.type(self._l2 / len(batch))
        terms = slopes[batch.row_of_pair()] * values + penalty * weights

        gradient = np.empty_like(params)
        gradient[:-1] = sums_by_index(index, terms, len(features))
        gradient[-1] = slopes.sum()
        loss = float(self._loss.value(scores, labels).sum() / len(batch))
        return gradient, loss + float(penalty * np.square(weights).sum() / 2)

    def scores(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the score of each example, [n], from all parameters, [num_keys]."""
        terms = params[examples.features] * examples.values.astype(params.dtype)
        sums = row_sums(examples.indptr, terms)
        sums += params[-1]
        return sums

    def predict(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the probability of label 1 of each example, [n]."""
        return self._loss.prediction(self.scores(examples, params))
