"""Factorisation machine (Rendle, 2010): a linear model with low-rank pairwise interactions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_stack.distinct import distinct
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array
from workloads.losses import Loss
from workloads.segments import FloatArray, row_sums, sums_by_index


class FactorisationMachine:
    """Score = w0 + Σ w_f x_f + Σ_{f<g} <v_f, v_g> x_f x_g, with factors v of length `rank`.

    Feature f owns the `rank` + 1 consecutive keys from f · (`rank` + 1): w_f, then v_f. The last
    key of all is the bias w0. `l2` penalises w_f and v_f in each example that has feature f.
    """

    name = "fm"

    def __init__(
        self,
        num_features: int,
        loss: Loss,
        *,
        initial_bias: float,
        rank: int,
        l2: float,
        init_scale: float,
    ) -> None:
        self.num_features = num_features
        self.rank = rank
        self.width = rank + 1
        self.num_keys = num_features * (rank + 1) + 1
        self._loss = loss
        self._initial_bias = initial_bias
        self._l2 = l2
        self._init_scale = init_scale

    def initial_params(self, seed: int) -> Float32Array:
        """float32[num_keys]: normal factors of deviation `init_scale`, the bias, and else 0."""
        random = np.random.default_rng([seed, 0xFAC7])
        params = np.zeros(self.num_keys, dtype=np.float32)
        table = params[:-1].reshape(self.num_features, self.rank + 1)
        factors = random.standard_normal((self.num_features, self.rank), dtype=np.float32)
        table[:, 1:] = factors * np.float32(self._init_scale)
        params[-1] = self._initial_bias
        return params

    def batch_keys(self, batch: Examples) -> NDArray[np.uint64]:
        """Return the keys that the gradient of `batch` touches, uint64[n], sorted and unique."""
        features = distinct(batch.features)
        width = self.rank + 1
        keys = np.empty(len(features) * width + 1, dtype=np.uint64)
        keys[:-1] = (features[:, np.newaxis] * width + np.arange(width)).ravel()
        keys[-1] = self.num_keys - 1
        return keys

    def key_counts(self, feature_counts: Int64Array, examples: int) -> Int64Array:
        """Return how many of `examples` examples touch each key; see `Model.key_counts`."""
        return np.append(np.repeat(feature_counts, self.rank + 1), examples)

    def gradient(
        self, batch: Examples, keys: NDArray[np.uint64], params: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the gradient of the mean loss (and penalty) of `batch`, and that mean.

        `keys` are `batch_keys(batch)` and `params` their values, [n]; the gradient has the same
        shape. Everything is computed in the dtype of `params`: float32 in training.
        """
        width = self.rank + 1
        features, index = np.unique(batch.features, return_inverse=True)
        if len(params) != len(keys) or len(keys) != len(features) * width + 1:
            raise WorkloadError(
                f"fm: {len(keys)} keys and {len(params)} parameters for a batch that touches "
                f"{len(features) * width + 1}; pass batch_keys(batch) and their values"
            )
        table = params[:-1].reshape(len(features), width)
        values = batch.values.astype(params.dtype)
        rows = table[index]
        scores, sums, weighted = self._forward(batch.indptr, values, rows, params[-1])
        labels = batch.labels.astype(params.dtype)
        slopes = self._loss.derivative(scores, labels) / len(batch)

        owner = batch.row_of_pair()
        terms = np.empty_like(rows)
        terms[:, 0] = slopes[owner] * values
        terms[:, 1:] = terms[:, :1] * (sums[owner] - weighted)
        penalty = params.dtype.type(self._l2 / len(batch))
        terms += penalty * rows

        gradient = np.empty_like(params)
        gradient[:-1] = sums_by_index(index, terms, len(features)).ravel()
        gradient[-1] = slopes.sum()
        loss = float(self._loss.value(scores, labels).sum() / len(batch))
        return gradient, loss + float(penalty * np.square(rows).sum() / 2)

    def scores(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the score of each example, [n], from all parameters, [num_keys]."""
        table = params[:-1].reshape(self.num_features, self.rank + 1)
        values = examples.values.astype(params.dtype)
        return self._forward(examples.indptr, values, table[examples.features], params[-1])[0]

    def predict(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the predicted rating, or probability of label 1, of each example, [n]."""
        return self._loss.prediction(self.scores(examples, params))

    @staticmethod
    def _forward(
        indptr: NDArray[np.int64], values: FloatArray, rows: FloatArray, bias: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Scores [n], the factor sums of each example [n, rank], and v_f x_f of each pair.

        The pairwise sum takes linear time: Σ_{f<g} a_f a_g = ((Σ a_f)² - Σ a_f²) / 2.
        """
        linear = row_sums(indptr, rows[:, 0] * values)
        weighted = rows[:, 1:] * values[:, np.newaxis]
        sums = row_sums(indptr, weighted)
        squares = row_sums(indptr, np.square(weighted))
        return bias + linear + (np.square(sums) - squares).sum(axis=1) / 2, sums, weighted
