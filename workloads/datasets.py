"""Data sets by name, and their split into a part to train on and a part to test on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from workloads import avazu, criteo, movielens, options, spamassassin, svmlight, synthetic
from workloads.errors import WorkloadError
from workloads.examples import Examples, Int64Array
from workloads.fields import MAX_BITS
from workloads.part import Part

Task = Literal["rating", "binary"]

TEST_FRACTION = 0.1

KNOWN = (
    "movielens",
    "spamassassin[:words=1]",
    "synthetic[:NAME=NUMBER,…]",
    "svmlight:FILE",
    "criteo[,bits=N]:FILE",
    "avazu[,bits=N]:FILE",
)
_LOGS: dict[str, Callable[[Path, int], tuple[Examples, Int64Array]]] = {
    "avazu": avazu.load,
    "criteo": criteo.load,
}
"""Click logs in fields."""


@dataclass(frozen=True)
class Dataset:
    """Examples over features 0 to `num_features` - 1; labels are ratings, or 0 and 1.

    Features of a field are consecutive: `field_starts`, int64[fields + 1], says where those of each
    field begin, and how many there are in all. Data without fields have a single one.
    """

    name: str
    task: Task
    examples: Examples
    field_starts: Int64Array

    @property
    def num_features(self) -> int:
        """Features of all fields together."""
        return int(self.field_starts[-1])

    def split(self, seed: int, test_fraction: float = TEST_FRACTION) -> tuple[Part, Part]:
        """Return a seeded, disjoint split of the examples into (train, test); neither is empty."""
        total = len(self.examples)
        if total < 2:
            raise WorkloadError(f"data set {self.name} has {total} example(s); a split needs two")
        tested = min(max(round(total * test_fraction), 1), total - 1)
        shuffled = np.random.default_rng([seed, 0x5B117]).permutation(total).astype(np.int64)
        return (
            Part(self.examples, np.sort(shuffled[tested:])),
            Part(self.examples, np.sort(shuffled[:tested])),
        )


def open_dataset(spec: str, seed: int) -> Dataset:
    """Open a data set by what the user calls it.

    - `movielens`: user and film indicators with ratings
    - `spamassassin`, or `spamassassin:words=1`: mails as features of up to two words, or of one
    - `criteo:FILE`, `avazu:FILE`: click logs in their published formats; with `criteo,bits=N:FILE`
      the values of a field are hashed to N bits
    - `svmlight:FILE`: a file in svmlight (libsvm) format with binary labels
    - `synthetic`, or `synthetic:NAME=NUMBER,…`: Zipf logistic data that is a function of `seed`
      and the options, see `workloads.synthetic.generate`

    Raises `WorkloadError` for any other name, a bad option, or a file that cannot be used.
    """
    head, _, rest = spec.partition(":")
    kind, _, before = head.partition(",")
    task: Task = "binary"
    if spec == "movielens":
        examples, starts = movielens.load()
        task = "rating"
    elif kind in _LOGS and rest:
        given = options.parse(f"data set {kind}", before)
        options.check_names(f"data set {kind}", given, ("bits",))
        bits = options.integer(f"{kind}: bits", given.get("bits", 0), 0, MAX_BITS)
        examples, starts = _LOGS[kind](_path(rest), bits)
    elif head == "spamassassin":
        given = options.parse("data set spamassassin", rest)
        examples, starts = _one_field(*spamassassin.load(given))
    elif head == "synthetic":
        given = options.parse("data set synthetic", rest)
        examples, starts = synthetic.generate(seed, given)
    elif head == "svmlight" and rest:
        examples, starts = _one_field(*svmlight.load(_path(rest)))
    else:
        raise WorkloadError(f"unknown data set '{spec}'; known: {', '.join(KNOWN)}")
    examples.validate(int(starts[-1]))
    return Dataset(spec, task, examples, starts)


def _path(text: str) -> Path:
    """The path that the user means; `WorkloadError` for the home of somebody unknown."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise WorkloadError(f"cannot find {text}: there is no such home directory") from error


def _one_field(examples: Examples, num_features: int) -> tuple[Examples, Int64Array]:
    return examples, np.array([0, num_features], dtype=np.int64)
