"""A training job seen from outside: batches, keys, gradients and quality."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from workloads import metrics
from workloads import options as opt
from workloads.datasets import Dataset, open_dataset
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array
from workloads.models import Model, make_model
from workloads.part import Part
from workloads.schedule import Schedule

MAX_SEED = 2**53 - 1
"""The largest seed, one that survives a trip through JSON."""


class Workload:
    """A data set, a model and the batches of its workers, all functions of the arguments of `open`.

    Every process of a job opens the same workload, and none needs to send another any data.
    """

    def __init__(
        self,
        dataset: Dataset,
        model: Model,
        parts: tuple[Part, Part],
        schedule: Schedule,
        seed: int,
    ) -> None:
        self._seed = seed
        self.dataset = dataset
        self.model = model
        self.train, self.test = parts
        self.schedule = schedule

    @classmethod
    def open(
        cls,
        dataset: str,
        model: str,
        *,
        seed: int,
        workers: int,
        batch_size: int,
        **model_options: float,
    ) -> Workload:
        """Open a data set (see `open_dataset`) and build a model for it (see `make_model`).

        `seed` (from 0) decides the split into training and test part, the order of batches, and the
        data themselves where they are generated. Raises `WorkloadError` for anything that cannot be
        used as given.
        """
        seed = opt.integer("seed", seed, 0, MAX_SEED)
        data = open_dataset(dataset, seed)
        train, test = data.split(seed)
        if data.task == "binary" and np.unique(test.labels).size < 2:
            raise WorkloadError(
                f"data set {data.name}: the test part of {len(test)} example(s) holds one class "
                "only, so that its quality cannot be measured; use more data or another seed"
            )
        schedule = Schedule(len(train), seed=seed, workers=workers, batch_size=batch_size)
        name, given = opt.split("model", model)
        built = make_model(name, data, train.labels, {**given, **model_options})
        return cls(data, built, (train, test), schedule, seed)

    def batch(self, worker: int, round_number: int) -> Examples:
        """Return the examples of a worker in a round."""
        return self.train.take(self.schedule.rows(worker, round_number))

    def keys(self, worker: int, round_number: int) -> NDArray[np.uint64]:
        """Return the keys that a worker updates in a round, uint64[n], sorted and unique."""
        return self.model.batch_keys(self.batch(worker, round_number))

    def gradient(
        self, worker: int, round_number: int, keys: NDArray[np.uint64], params: Float32Array
    ) -> tuple[Float32Array, float]:
        """Return the gradient, float32[n], of a worker's mean loss, and that loss.

        `params`, float32[n], are the values of `keys`, which `keys(worker, round_number)` gave.
        """
        gradient, loss = self.model.gradient(self.batch(worker, round_number), keys, params)
        return gradient.astype(np.float32, copy=False), loss

    def evaluate(self, params: Float32Array) -> dict[str, float]:
        """Quality on the test part: `rmse` for ratings, `auc` and `log_loss` for 0 and 1."""
        scores = np.concatenate([self.model.scores(some, params) for some in self.test.blocks()])
        if self.dataset.task == "rating":
            return {"rmse": metrics.rmse(self.test.labels, scores)}
        return {
            "auc": metrics.auc(self.test.labels, scores),
            "log_loss": metrics.log_loss(self.test.labels, scores),
        }

    def sample_keys(self, fraction: float, seed: int) -> Iterator[NDArray[np.uint64]]:
        """Return the keys of batches drawn from a random `fraction` (0 to 1) of the training part.

        One array per batch, as `keys` gives them. At least one batch is drawn; the last may be
        short.
        """
        return self._keys_of(self.train, self._sample(fraction, seed))

    def sample_counts(self, fraction: float, seed: int) -> tuple[Int64Array, int, int]:
        """Return how many examples of a sample touch each key, int64[num_keys].

        With it come the size of the sample and that of the training part.

        The sample is that of `sample_keys`. Examples tell more of a key than batches do: of two
        keys that are in every batch, the one that more examples touch is the hotter.
        """
        drawn = self.train.select(self._sample(fraction, seed))
        return self.count_keys(drawn), len(drawn), len(self.train)

    def count_keys(self, part: Part) -> Int64Array:
        """Return how many examples of a part touch each key, int64[num_keys]."""
        features = part.feature_counts(self.dataset.num_features)
        return self.model.key_counts(features, len(part))

    def counted_blocks(self, part: Part) -> Iterator[tuple[NDArray[np.uint64], Int64Array]]:
        """Return the keys of blocks of examples and how many examples touch each, (uint64, int64).

        For counting without an array of all keys; blocks come in the order of the data.
        """
        for block in part.blocks():
            _, counts = np.unique(block.features, return_counts=True)
            yield (
                self.model.batch_keys(block),
                self.model.key_counts(counts.astype(np.int64), len(block)),
            )

    def _sample(self, fraction: float, seed: int) -> Int64Array:
        """Return the positions of a random sample of the training part."""
        if not 0 < fraction <= 1:
            raise WorkloadError(f"sample fraction is {fraction}; allowed: above 0, up to 1")
        seed = opt.integer("sample seed", seed, 0, MAX_SEED)
        total = len(self.train)
        drawn = np.random.default_rng([seed, 0x5A3B1E]).permutation(total).astype(np.int64)
        return drawn[: max(round(total * fraction), min(self.schedule.batch_size, total))]

    def ordered_keys(self, first: int = 0) -> Iterator[NDArray[np.uint64]]:
        """Return the keys of batches of the training part in the order of the data.

        That is the order of time in a log, which shows how the hot set moves. Batches begin with
        example `first`; the last may be short.
        """
        return self._keys_of(self.train, np.arange(first, len(self.train), dtype=np.int64))

    def training_keys(self) -> Iterator[NDArray[np.uint64]]:
        """Return the keys of all batches of the first epoch of data, as `keys` gives them.

        They come round by round, and within a round by worker.
        """
        return (
            self.keys(worker, number)
            for number in range(self.schedule.rounds_per_epoch)
            for worker in range(self.schedule.workers)
        )

    def held_out_keys(self) -> Iterator[NDArray[np.uint64]]:
        """Return the keys of batches of the test part, in a seeded order: what no sample has seen.

        Batches are as large as in training; what is left after the last whole one is left out,
        unless it is all there is.
        """
        total, size = len(self.test), self.schedule.batch_size
        order = np.random.default_rng([self._seed, 0x4E1D]).permutation(total).astype(np.int64)
        return self._keys_of(self.test, order[: max(total // size * size, min(size, total))])

    def _keys_of(self, part: Part, rows: Int64Array) -> Iterator[NDArray[np.uint64]]:
        """Return the keys of each batch of the examples at `rows` of a part of the data."""
        size = self.schedule.batch_size
        return (
            self.model.batch_keys(part.take(rows[start : start + size]))
            for start in range(0, len(rows), size)
        )

    def describe(self) -> dict[str, str | int | float]:
        """Names and sizes, for logs and reports."""
        return {
            "dataset": self.dataset.name,
            "model": self.model.name,
            "task": self.dataset.task,
            "features": self.dataset.num_features,
            "num_keys": self.model.num_keys,
            "train_examples": len(self.train),
            "test_examples": len(self.test),
            "mean_nnz": self.dataset.examples.nnz / len(self.dataset.examples),
            "workers": self.schedule.workers,
            "batch_size": self.schedule.batch_size,
            "rounds_per_epoch": self.schedule.rounds_per_epoch,
        }
