"""How often keys are updated: what every way of identifying the hot set comes to.

Examples are counted, not batches: of two keys that are in every batch, the one that more examples
touch is the hotter. A small sample has few batches and many examples, so that counts of examples
leave far fewer ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controller.identify import Heat
from host_stack.errors import BadInput
from host_stack.npz import reading_npz, require_schema, require_size, vector, whole
from host_stack.placement import Keys

SCHEMA_VERSION = 1
MAX_FILE_BYTES = 1 << 28
"""Of a hot set file, unpacked: 16 million keys, many times what a switch holds."""
_RARE = 5
"""Counts up to here are corrected."""
_ENOUGH = 20
"""So many keys of a count are needed to tell how many there are."""


@dataclass(frozen=True)
class KeyCounts:
    """Keys by heat.

    Attributes:
        keys: uint64[n], the hottest first, ties by key; each once.
        counts: int64[n], how many of the examples touch each.
        examples: how many examples were counted.
        num_keys: keys of the model; all are below.
        population: how many examples there are, if these are a sample of more.
    """

    keys: Keys
    counts: NDArray[np.int64]
    examples: int
    num_keys: int
    population: int | None = None

    @classmethod
    def of(
        cls, counts: NDArray[np.int64], examples: int, population: int | None = None
    ) -> KeyCounts:
        """Rank the keys that were seen; `counts`, int64[num_keys], holds each key's examples."""
        order = np.argsort(-counts, kind="stable")[: int(np.count_nonzero(counts))]
        return cls(order.astype(np.uint64), counts[order], examples, len(counts), population)

    def __len__(self) -> int:
        return len(self.keys)

    def top(self, hot: int) -> KeyCounts:
        """The hot set of `hot` keys: the hottest, then keys that were never seen, by number.

        It says nothing of the population any more, for the rarest keys are missing. `BadInput` if
        the model has fewer keys.
        """
        if hot > self.num_keys:
            raise BadInput(f"hot set of {hot} keys: the model has {self.num_keys}")
        missing = max(0, hot - len(self))
        # Among the first few keys enough are unseen.
        unseen = np.setdiff1d(
            np.arange(min(self.num_keys, len(self) + missing), dtype=np.uint64), self.keys
        )[:missing]
        keys = np.concatenate([self.keys[:hot], unseen])
        counts = np.concatenate([self.counts[:hot], np.zeros(missing, np.int64)])
        return KeyCounts(keys, counts, self.examples, self.num_keys)

    def heat(self, batch: int) -> Heat:
        """The share of pushes of `batch` examples in which each key is expected to occur.

        In a sample, most keys that occur once are there by luck: in the whole they are rarer than
        the sample has it. So counts of the examples that were not sampled are estimated after Good
        and Turing (Good, 1953), see `_good_turing`.
        """
        sampled = self.examples / max(1, self.population or self.examples)
        expected = sampled * self.counts + (1 - sampled) * _good_turing(self.counts)
        share = 1 - (1 - expected / max(1, self.examples)) ** batch
        return Heat(self.keys, share, max(1, self.examples // batch))

    def save(self, path: Path) -> None:
        """Write .npz (schema 1: `schema`, `keys`, `counts`, `examples`, `num_keys`).

        Raises `BadInput` if it is larger than `load` reads.
        """
        require_size("hot set", MAX_FILE_BYTES, self.keys, self.counts)
        np.savez_compressed(
            path,
            schema=np.int64(SCHEMA_VERSION),
            keys=self.keys,
            counts=self.counts,
            examples=np.int64(self.examples),
            num_keys=np.int64(self.num_keys),
        )

    @classmethod
    def load(cls, path: Path) -> KeyCounts:
        """Read a file of `save`; `BadInput` if it is none."""
        with reading_npz(path, "hot set", MAX_FILE_BYTES) as file:
            require_schema(file, SCHEMA_VERSION)
            found = cls(
                vector(file, "keys", np.uint64),
                vector(file, "counts", np.int64),
                whole(file, "examples"),
                whole(file, "num_keys"),
            )
        found.check(str(path))
        return found

    def check(self, what: str) -> None:
        """Raise `BadInput`, naming `what`, unless all agrees with the class's description."""
        keys, counts = self.keys, self.counts
        if len(keys) != len(counts) or len(np.unique(keys)) != len(keys):
            raise BadInput(f"{what}: {len(counts)} counts of {len(keys)} keys, or a key twice")
        if len(keys) and int(keys.max()) >= self.num_keys:
            raise BadInput(f"{what}: key {keys.max()}; allowed are 0 to {self.num_keys - 1}")
        if len(keys) and not 0 <= counts.min() <= counts.max() <= self.examples:
            raise BadInput(f"{what}: counts that are not from 0 to {self.examples}, its examples")
        if (counts[1:] > counts[:-1]).any():
            raise BadInput(f"{what}: keys that are not in the order of their counts")


def _good_turing(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how often keys are expected in another sample of the size of the one that was counted.

    With N_r keys of count r that is (r + 1) · N_(r + 1) / N_r for small r, where enough keys tell;
    it is never more than r, nor less than for a smaller count. Larger counts are taken as they are.
    """
    number = np.bincount(counts, minlength=_RARE + 2)
    expected = np.arange(len(number), dtype=np.float64)
    for r in range(1, _RARE + 1):
        if min(number[r], number[r + 1]) >= _ENOUGH:
            expected[r] = min(r, (r + 1) * number[r + 1] / number[r])
    result: NDArray[np.float64] = np.maximum.accumulate(expected)[counts]
    return result
