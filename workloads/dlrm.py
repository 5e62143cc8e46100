"""Embedding model with a small dense part, in the style of DLRM (Naumov et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.distinct import distinct
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array
from workloads.losses import Loss
from workloads.segments import FloatArray, product, sums_by_index

_EXAMPLES_AT_ONCE = 1024


@dataclass(frozen=True)
class _Dense:
    """The parameters of the dense part: [inputs, hidden], [hidden], [hidden] and [1]."""

    weights: FloatArray
    biases: FloatArray
    out: FloatArray
    bias: FloatArray


@dataclass(frozen=True)
class _Activations:
    """What a forward pass leaves for the backward one.

    Attributes:
        fields: [n, fields, dim], the embedding of each field.
        inputs: [n, inputs] of the dense part.
        hidden: [n, hidden], after the rectifier.
        scores: [n].
    """

    fields: FloatArray
    inputs: FloatArray
    hidden: FloatArray
    scores: FloatArray


class EmbeddingModel:
    """Embeddings of fields, their inner products, and a network of one hidden layer on top.

    Each feature has an embedding, a row of `dim` parameters. That of a field is the sum of the rows
    of its features, weighted by their values. Input of the network are all of these, and the inner
    product of each pair of them; its hidden units are rectified.

    Feature f owns the `dim` consecutive keys from f · `dim`. The dense parameters follow, which
    every batch touches: the weights of the hidden units, input by input, their biases, the weights
    of the output and, as the last key, its bias. `l2` penalises the row of a feature in each
    example that has it.
    """

    name = "dlrm"

    def __init__(
        self,
        num_features: int,
        field_starts: Int64Array,
        loss: Loss,
        *,
        initial_bias: float,
        dim: int,
        hidden: int,
        l2: float,
        init_scale: float,
    ) -> None:
        """Make a model; features `field_starts[i]` up to `field_starts[i + 1]` are of field i."""
        self.num_features = num_features
        self.dim = self.width = dim
        self.hidden = hidden
        self.fields = len(field_starts) - 1
        self.field_starts = field_starts
        self._pairs = np.triu_indices(self.fields, 1)
        self.inputs = self.fields * dim + len(self._pairs[0])
        self.num_dense = (self.inputs + 1) * hidden + hidden + 1
        self.num_keys = num_features * dim + self.num_dense
        self._loss = loss
        self._initial_bias = initial_bias
        self.l2 = l2
        self._init_scale = init_scale

    def initial_params(self, seed: int) -> Float32Array:
        """float32[num_keys]: normal embeddings of deviation `init_scale`, the bias, else 0.

        Weights of the network are normal with the variance after He et al. (2015), biases are 0.
        """
        random = np.random.default_rng([seed, 0xD14A])
        params = np.zeros(self.num_keys, dtype=np.float32)
        rows = random.standard_normal(self.num_features * self.dim, dtype=np.float32)
        params[: -self.num_dense] = rows * np.float32(self._init_scale)
        dense = self._dense(params)
        dense.weights[:] = random.standard_normal(dense.weights.shape, dtype=np.float32)
        dense.weights[:] *= np.float32(np.sqrt(2 / self.inputs))
        dense.out[:] = random.standard_normal(self.hidden, dtype=np.float32)
        dense.out[:] *= np.float32(np.sqrt(1 / self.hidden))
        dense.bias[:] = self._initial_bias
        return params

    def batch_keys(self, batch: Examples) -> NDArray[np.uint64]:
        """Return the keys that the gradient of `batch` touches, uint64[n], sorted and unique."""
        features = distinct(batch.features)
        rows = features[:, np.newaxis] * self.dim + np.arange(self.dim)
        dense = np.arange(self.num_keys - self.num_dense, self.num_keys)
        return np.concatenate([rows.ravel(), dense]).astype(np.uint64)

    def key_counts(self, feature_counts: Int64Array, examples: int) -> Int64Array:
        """Return how many of `examples` examples touch each key; see `Model.key_counts`."""
        dense = np.full(self.num_dense, examples, dtype=np.int64)
        return np.concatenate([np.repeat(feature_counts, self.dim), dense])

    def gradient(
        self, batch: Examples, keys: NDArray[np.uint64], params: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the gradient of the mean loss (and penalty) of `batch`, and that mean.

        `keys` are `batch_keys(batch)` and `params` their values, [n]; the gradient has the same
        shape. Everything is computed in the dtype of `params`: float32 in training.
        """
        features, index = np.unique(batch.features, return_inverse=True)
        wanted = len(features) * self.dim + self.num_dense
        if len(params) != len(keys) or len(keys) != wanted:
            raise WorkloadError(
                f"dlrm: {len(keys)} keys and {len(params)} parameters for a batch that touches "
                f"{wanted}; pass batch_keys(batch) and their values"
            )
        rows = params[: -self.num_dense].reshape(len(features), self.dim)[index]
        dense = self._dense(params)
        slots = self._slots(batch)
        passed = self._forward(batch, slots, rows, dense)
        labels = batch.labels.astype(params.dtype)
        slopes = self._loss.derivative(passed.scores, labels) / len(batch)

        gradient = np.empty_like(params)
        by_field = self._backward(passed, dense, slopes, self._dense(gradient))
        values = batch.values.astype(params.dtype)[:, np.newaxis]
        penalty = params.dtype.type(self.l2 / len(batch))
        terms = by_field.reshape(-1, self.dim)[slots] * values + penalty * rows
        gradient[: -self.num_dense] = sums_by_index(index, terms, len(features)).ravel()
        loss = float(self._loss.value(passed.scores, labels).sum() / len(batch))
        return gradient, loss + float(penalty * np.square(rows).sum() / 2)

    def scores(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the score of each example, [n], from all parameters, [num_keys]."""
        table = params[: -self.num_dense].reshape(self.num_features, self.dim)
        dense = self._dense(params)
        scores = np.empty(len(examples), dtype=params.dtype)
        for start in range(0, len(examples), _EXAMPLES_AT_ONCE):
            end = min(start + _EXAMPLES_AT_ONCE, len(examples))
            some = examples.take(np.arange(start, end, dtype=np.int64))
            passed = self._forward(some, self._slots(some), table[some.features], dense)
            scores[start:end] = passed.scores
        return scores

    def predict(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the predicted rating, or probability of label 1, of each example, [n]."""
        return self._loss.prediction(self.scores(examples, params))

    def _dense(self, params: FloatArray) -> _Dense:
        """Views of the last parameters as those of the dense part."""
        weights, biases, out, bias = np.split(
            params[-self.num_dense :],
            np.cumsum([self.inputs * self.hidden, self.hidden, self.hidden]),
        )
        return _Dense(weights.reshape(self.inputs, self.hidden), biases, out, bias)

    def _slots(self, batch: Examples) -> Int64Array:
        """Return the example and field of each pair as one number, int64[nnz]."""
        field = np.searchsorted(self.field_starts, batch.features, side="right") - 1
        return batch.row_of_pair() * self.fields + field

    def _forward(
        self, batch: Examples, slots: Int64Array, rows: FloatArray, dense: _Dense
    ) -> _Activations:
        """Scores and what leads to them; `rows` are the embeddings of all pairs, [nnz, dim]."""
        weighted = rows * batch.values.astype(rows.dtype)[:, np.newaxis]
        summed = sums_by_index(slots, weighted, len(batch) * self.fields)
        fields = summed.reshape(len(batch), self.fields, self.dim)
        left, right = self._pairs
        products = (fields[:, left] * fields[:, right]).sum(axis=2)
        inputs = np.concatenate([fields.reshape(len(batch), -1), products], axis=1)
        hidden = np.maximum(product(inputs, dense.weights) + dense.biases, 0)
        scores = (hidden * dense.out).sum(axis=1) + dense.bias
        return _Activations(fields, inputs, hidden, scores)

    def _backward(
        self, passed: _Activations, dense: _Dense, slopes: FloatArray, gradient: _Dense
    ) -> FloatArray:
        """Write the gradient of the dense part; return that of the fields, [n, fields, dim]."""
        gradient.bias[:] = slopes.sum()
        gradient.out[:] = product(passed.hidden.T, slopes[:, np.newaxis])[:, 0]
        hidden = slopes[:, np.newaxis] * dense.out * (passed.hidden > 0)
        gradient.biases[:] = hidden.sum(axis=0)
        gradient.weights[:] = product(passed.inputs.T, hidden)
        inputs = product(hidden, dense.weights.T)
        width = self.fields * self.dim
        left, right = self._pairs
        mixing = np.zeros((len(slopes), self.fields, self.fields), dtype=slopes.dtype)
        mixing[:, left, right] = mixing[:, right, left] = inputs[:, width:]
        mixed: FloatArray = np.einsum("nij,njd->nid", mixing, passed.fields)
        return inputs[:, :width].reshape(passed.fields.shape) + mixed
