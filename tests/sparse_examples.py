"""Random sparse examples for the tests of data and models."""

import numpy as np

from workloads.examples import Examples


def make_examples(lengths: list[int], seed: int = 0, num_features: int = 9) -> Examples:
    """Random examples with the given number of pairs each."""
    random = np.random.default_rng(seed)
    nnz = sum(lengths)
    return Examples(
        indptr=np.cumsum([0, *lengths]).astype(np.int64),
        features=random.integers(0, num_features, nnz),
        values=random.normal(size=nnz).astype(np.float32),
        labels=random.integers(0, 2, len(lengths)).astype(np.float32),
    )
