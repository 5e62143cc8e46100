"""Sparse logistic data from a seeded generator, for tests and for users without files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workloads import options as opt
from workloads.errors import WorkloadError
from workloads.examples import Examples, Int64Array

DEFAULTS: Mapping[str, float] = {
    "examples": 20_000,
    "features": 20_000,
    "nnz": 20,
    "exponent": 1.1,
    "fields": 1,
    "cooccurrence": 0.0,
    "drift": 0.0,
}
MAX_DRAWS = 1 << 26
"""Draws of a data set: about 40 bytes of memory each while it is made."""
GROUP = 16
"""Features that occur together: ranks in a field from a multiple of this up to the next."""

_SIGNAL = 1.0  # standard deviation of a true weight; strong enough to be learnt in a few epochs


@dataclass(frozen=True)
class _Shape:
    """What the options ask for; see `generate`."""

    examples: int
    features: int
    nnz: int
    exponent: float
    fields: int
    cooccurrence: float
    drift: float

    @property
    def field_sizes(self) -> Int64Array:
        """Features of each field, int64[fields]: as equal as can be, the larger ones first."""
        sizes = np.full(self.fields, self.features // self.fields, dtype=np.int64)
        sizes[: self.features % self.fields] += 1
        return sizes


def generate(seed: int, options: Mapping[str, float]) -> tuple[Examples, Int64Array]:
    """Examples whose features follow a Zipf law, labelled 0 or 1 by a random logistic model.

    `options` overrides `DEFAULTS`:

    - `examples`, `features`: how many of each
    - `nnz`: draws per example; a feature drawn twice is kept once, with value 1
    - `exponent`: of the Zipf law, by which the features of a field are drawn; 0 is uniform
    - `fields`: parts of the features; draw j of an example is from field j mod `fields`
    - `cooccurrence`: the chance of a draw, but for the first of an example, not to be independent:
      it is then one of the `GROUP` ranks around the rank of the first draw
    - `drift`: by which part of a field the ranks of its features move from the first example to
      the last, so that other features become hot

    Returns the examples, and where the features of each field start, int64[fields + 1].
    """
    shape = _shape(options)
    random = np.random.default_rng([seed, 0x5EED_DA7A])
    drawn = np.sort(_draw(shape, random, seed), axis=1)
    first = np.ones(drawn.shape, dtype=bool)
    first[:, 1:] = drawn[:, 1:] != drawn[:, :-1]

    weights = random.normal(0.0, _SIGNAL, shape.features)
    scores = np.where(first, weights[drawn], 0.0).sum(axis=1)
    labels = random.random(shape.examples) < 1.0 / (1.0 + np.exp(-scores))

    indptr = np.zeros(shape.examples + 1, dtype=np.int64)
    np.cumsum(first.sum(axis=1), out=indptr[1:])
    features = drawn[first].astype(np.int64)
    values = np.ones(len(features), dtype=np.float32)
    examples = Examples(indptr, features, values, labels.astype(np.float32))
    return examples, np.concatenate([[0], np.cumsum(shape.field_sizes)])


def _shape(options: Mapping[str, float]) -> _Shape:
    opt.check_names("data set synthetic", options, DEFAULTS)
    chosen = {**DEFAULTS, **options}
    examples = opt.integer("synthetic: examples", chosen["examples"], 2, 10**8)
    features = opt.integer("synthetic: features", chosen["features"], 1, 10**7)
    nnz = opt.integer("synthetic: nnz", chosen["nnz"], 1, 10_000)
    if examples * nnz > MAX_DRAWS:
        raise WorkloadError(
            f"synthetic: {examples} examples of {nnz} draws are {examples * nnz}; allowed "
            f"are {MAX_DRAWS} draws together, for all are held in memory"
        )
    return _Shape(
        examples,
        features,
        nnz,
        opt.number("synthetic: exponent", chosen["exponent"], 0.0, 10.0),
        opt.integer("synthetic: fields", chosen["fields"], 1, min(features, nnz)),
        opt.number("synthetic: cooccurrence", chosen["cooccurrence"], 0.0, 1.0),
        opt.number("synthetic: drift", chosen["drift"], 0.0, 1.0),
    )


def _draw(shape: _Shape, random: np.random.Generator, seed: int) -> Int64Array:
    """Draw features, int64[examples, nnz]."""
    sizes = shape.field_sizes
    field = np.arange(shape.nnz) % shape.fields
    size = sizes[field]
    law = np.arange(1, sizes[0] + 1, dtype=np.float64) ** -shape.exponent
    cumulative = np.cumsum(law)
    draws = random.random((shape.examples, shape.nnz)) * cumulative[size - 1]
    ranks = np.minimum(np.searchsorted(cumulative, draws, side="right"), size - 1)
    if shape.cooccurrence:
        ranks = _together(shape, ranks, size, seed)
    if shape.drift:
        moved = np.arange(shape.examples) / (shape.examples - 1) * shape.drift
        ranks = (ranks + (moved[:, np.newaxis] * size).astype(np.int64)) % size
    # A feature's id says nothing of its heat: otherwise the naive placements would look good.
    shuffled = np.concatenate([random.permutation(int(count)) for count in sizes])
    starts = np.cumsum(sizes) - sizes
    features: Int64Array = shuffled[ranks + starts[field]] + starts[field]
    return features


def _together(shape: _Shape, ranks: Int64Array, size: Int64Array, seed: int) -> Int64Array:
    """Replace some draws by ranks of the group of the example's first draw.

    From a generator of its own: the independent draws are the same whatever the chance.
    """
    random = np.random.default_rng([seed, 0x706E7])
    dependent = random.random(ranks.shape) < shape.cooccurrence
    dependent[:, 0] = False
    group = ranks[:, :1] // GROUP * GROUP
    companions = np.minimum(group + random.integers(0, GROUP, ranks.shape), size - 1)
    return np.where(dependent, companions, ranks)
