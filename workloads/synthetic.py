"""Sparse logistic data from a seeded generator, for tests and for users without files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads import options as opt
from workloads.errors import WorkloadError
from workloads.examples import Examples

DEFAULTS: Mapping[str, float] = {
    "examples": 20_000,
    "features": 20_000,
    "nnz": 20,
    "exponent": 1.1,
}
MAX_DRAWS = 1 << 26
"""Draws of a data set: about 40 bytes of memory each while it is made."""

_SIGNAL = 1.0  # standard deviation of a true weight; strong enough to be learnt in a few epochs


def generate(seed: int, options: Mapping[str, float]) -> tuple[Examples, int]:
    """Examples whose features follow a Zipf law, labelled 0 or 1 by a random logistic model.

    `options` overrides `DEFAULTS`: number of examples and of features, draws per example (`nnz`;
    a feature drawn twice is kept once), and the Zipf exponent (0 is uniform). Values are 1.
    Returns the examples and the number of features.
    """
    opt.check_names("data set synthetic", options, DEFAULTS)
    chosen = {**DEFAULTS, **options}
    num_examples = opt.integer("synthetic: examples", chosen["examples"], 2, 10**8)
    num_features = opt.integer("synthetic: features", chosen["features"], 1, 10**7)
    nnz = opt.integer("synthetic: nnz", chosen["nnz"], 1, 10_000)
    if num_examples * nnz > MAX_DRAWS:
        raise WorkloadError(
            f"synthetic: {num_examples} examples of {nnz} draws are {num_examples * nnz}; allowed "
            f"are {MAX_DRAWS} draws together, for all are held in memory"
        )
    exponent = opt.number("synthetic: exponent", chosen["exponent"], 0.0, 10.0)

    random = np.random.default_rng([seed, 0x5EED_DA7A])
    cumulative = np.cumsum(np.arange(1, num_features + 1, dtype=np.float64) ** -exponent)
    draws = random.random((num_examples, nnz)) * cumulative[-1]
    ranks = np.minimum(np.searchsorted(cumulative, draws, side="right"), num_features - 1)
    # A feature's id says nothing of its heat: otherwise the naive placements would look good.
    drawn = np.sort(random.permutation(num_features)[ranks], axis=1)
    first = np.ones(drawn.shape, dtype=bool)
    first[:, 1:] = drawn[:, 1:] != drawn[:, :-1]

    weights = random.normal(0.0, _SIGNAL, num_features)
    scores = np.where(first, weights[drawn], 0.0).sum(axis=1)
    labels = random.random(num_examples) < 1.0 / (1.0 + np.exp(-scores))

    indptr = np.zeros(num_examples + 1, dtype=np.int64)
    np.cumsum(first.sum(axis=1), out=indptr[1:])
    features = drawn[first].astype(np.int64)
    values = np.ones(len(features), dtype=np.float32)
    return Examples(indptr, features, values, labels.astype(np.float32)), num_features
