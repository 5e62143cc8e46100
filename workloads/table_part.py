"""The embedding rows of a model as a workload of their own; its dense part is trained elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workloads.dlrm import EmbeddingModel
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array
from workloads.segments import FloatArray
from workloads.workload import Workload


class TablePart:
    """The keys of an `EmbeddingModel` without those of its dense part, which are the last ones.

    `whole` is the model; `dense`, float32[whole.num_dense], its dense parameters before the first
    round.
    """

    name = EmbeddingModel.name

    def __init__(self, whole: EmbeddingModel, seed: int) -> None:
        self.whole = whole
        self.num_features = whole.num_features
        self.width = whole.width
        self.num_keys = whole.num_keys - whole.num_dense
        self.dense: Float32Array = whole.initial_params(seed)[self.num_keys :]

    def initial_params(self, seed: int) -> Float32Array:
        """Return the rows before the first round, float32[num_keys]."""
        return self.whole.initial_params(seed)[: self.num_keys]

    def batch_keys(self, batch: Examples) -> NDArray[np.uint64]:
        """Return the keys of the rows that a batch touches, uint64[n], sorted and unique."""
        return self.whole.batch_keys(batch)[: -self.whole.num_dense]

    def key_counts(self, feature_counts: Int64Array, examples: int) -> Int64Array:
        """Return how many of `examples` examples touch each key; see `Model.key_counts`."""
        return self.whole.key_counts(feature_counts, examples)[: -self.whole.num_dense]

    def gradient(
        self, batch: Examples, keys: NDArray[np.uint64], params: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the gradient [n] of the rows beside the first dense parameters, and the loss."""
        dense = np.arange(self.num_keys, self.whole.num_keys, dtype=np.uint64)
        gradient, loss = self.whole.gradient(
            batch, np.concatenate([keys, dense]), np.concatenate([params, self.dense])
        )
        return gradient[: -self.whole.num_dense], loss

    def scores(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the score of each example, [n], from all parameters, [whole.num_keys]."""
        return self.whole.scores(examples, params)

    def predict(self, examples: Examples, params: FloatArray) -> FloatArray:
        """Return the prediction of each example, [n], from all parameters, [whole.num_keys]."""
        return self.whole.predict(examples, params)


def open_tables(dataset: str, model: str, *, seed: int, workers: int, batch_size: int) -> Workload:
    """Open a workload (see `Workload.open`) of which the job has the embedding rows only.

    Raises `WorkloadError` for a model without tables and a dense part, or with a penalty.
    """
    found = Workload.open(dataset, model, seed=seed, workers=workers, batch_size=batch_size)
    if not isinstance(found.model, EmbeddingModel):
        raise WorkloadError(f"model {model} has no embedding tables; use dlrm")
    if found.model.l2:
        raise WorkloadError(f"model {model}: PyTorch's version has no penalty l2; leave it out")
    part = TablePart(found.model, seed)
    return Workload(found.dataset, part, (found.train, found.test), found.schedule, seed)
