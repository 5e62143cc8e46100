"""Which examples each worker trains on in each round."""

from __future__ import annotations

import numpy as np

from workloads.errors import WorkloadError
from workloads.examples import Int64Array


class Schedule:
    """Deals `total` examples to `workers` in batches of `batch_size`, anew in each epoch of data.

    The rows of a (round, worker) are a function of those two and `seed` alone. Within an epoch no
    row is dealt twice; what is left after the last whole round sits that epoch out.
    """

    def __init__(self, total: int, *, seed: int, workers: int, batch_size: int) -> None:
        if workers < 1 or batch_size < 1:
            raise WorkloadError(f"{workers} workers with batches of {batch_size}; each at least 1")
        if workers * batch_size > total:
            raise WorkloadError(
                f"{workers} workers with batches of {batch_size} need {workers * batch_size} "
                f"examples a round; there are {total} to train on: use smaller batches"
            )
        self.workers = workers
        self.batch_size = batch_size
        self.rounds_per_epoch = total // (workers * batch_size)
        self._total = total
        self._seed = seed
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def rows(self, worker: int, round_number: int) -> Int64Array:
        """Return the positions of a batch among the training examples, int64[batch_size]."""
        if not 0 <= worker < self.workers or round_number < 0:
            raise WorkloadError(
                f"worker {worker}, round {round_number}: workers are 0 to {self.workers - 1}, "
                "rounds start at 0"
            )
        epoch, step = divmod(round_number, self.rounds_per_epoch)
        if epoch != self._epoch:
            random = np.random.default_rng([self._seed, 0x0DDE4, epoch])
            self._order = random.permutation(self._total).astype(np.int64)
            self._epoch = epoch
        start = (step * self.workers + worker) * self.batch_size
        return self._order[start : start + self.batch_size]
