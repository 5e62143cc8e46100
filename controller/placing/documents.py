"""In which documents of a job's data each hot key occurs: what a placement is made from.

A document is whatever is seen together: an example, or where only that is known, a push.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.fixedpoint import IntArray
from host_stack.placement import Keys
from workloads.models import Model
from workloads.part import Part
from workloads.workload import Workload

MAX_DOCUMENTS = 20_000
"""Examples that a placement is made from; more of them make it slower and hardly better."""


@dataclass(frozen=True)
class Documents:
    """The occurrences of hot keys in documents.

    Attributes:
        keys: uint64[n], the hot keys, the most frequent first; ties by key.
        starts: int64[n + 1]; key i occurs in `documents` from `starts[i]` up to `starts[i + 1]`.
        documents: int64[occurrences], ascending for each key.
        total: number of documents that were looked through.
    """

    keys: Keys
    starts: NDArray[np.int64]
    documents: NDArray[np.int64]
    total: int

    @classmethod
    def of(cls, hot: Keys, documents: Iterable[Keys]) -> Documents:
        """Find the keys `hot` (uint64[n], unique) in documents, each uint64[m] and unique."""
        ordered = np.sort(hot)
        parts, lengths = [np.zeros(0, np.int64)], []
        for keys in documents:
            found = _positions(ordered, keys)
            parts.append(found)
            lengths.append(len(found))
        occurring = np.concatenate(parts)
        counts = np.bincount(occurring, minlength=len(ordered))
        ranking = np.argsort(-counts, kind="stable")
        rank = np.empty(len(ordered), np.int64)
        rank[ranking] = np.arange(len(ordered))
        by_key = np.argsort(rank[occurring], kind="stable")
        owner = np.repeat(np.arange(len(lengths)), lengths)
        starts = np.concatenate([[0], np.cumsum(counts[ranking])])
        return cls(ordered[ranking], starts, owner[by_key], len(lengths))

    def __len__(self) -> int:
        return len(self.keys)

    def index_of(self, keys: Keys) -> IntArray:
        """The indices in `keys` of those of uint64[m] keys that are among them, in their order."""
        ranking = np.argsort(self.keys)
        return ranking[_positions(self.keys[ranking], keys)]

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64[n]: the documents in which each key occurs."""
        return np.diff(self.starts)

    @property
    def shares(self) -> NDArray[np.float64]:
        """float64[n]: the same, as shares of all documents."""
        return self.counts / max(1, self.total)


def hottest(documents: list[Keys], count: int) -> Keys:
    """The `count` keys that occur in the most documents, hottest first; ties by key."""
    if not documents:
        return np.zeros(0, np.uint64)
    keys, seen = np.unique(np.concatenate(documents), return_counts=True)
    return keys[np.argsort(-seen, kind="stable")[:count]]


def _positions(ordered: Keys, keys: Keys) -> NDArray[np.int64]:
    """The positions in ascending `ordered` of those of `keys` that are in it."""
    if not len(ordered):
        return np.zeros(0, np.int64)
    at = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    found: NDArray[np.int64] = at[ordered[at] == keys].astype(np.int64)
    return found


def example_keys(model: Model, examples: Part, limit: int, seed: int) -> Iterator[Keys]:
    """The keys of single examples, at most `limit` of them, drawn without repetition."""
    rows = np.random.default_rng([seed, 0xD0C5]).permutation(len(examples))[:limit]
    return (model.batch_keys(examples.take(rows[i : i + 1])) for i in range(len(rows)))


def training_documents(workload: Workload, seed: int) -> list[Keys]:
    """The keys of single training examples, at most `MAX_DOCUMENTS`."""
    return list(example_keys(workload.model, workload.train, MAX_DOCUMENTS, seed))


def deal(documents: list[Keys], size: int, pushes: int, seed: int) -> list[Keys]:
    """Deal documents into `pushes` pushes of `size` documents each: the union of their keys.

    Documents are shuffled, and shuffled anew once they are used up; where there are fewer than
    `size`, a push has all of them.
    """
    rng = np.random.default_rng([seed, 0xDEA1])
    size = min(size, len(documents))
    dealt: list[Keys] = []
    while size and len(dealt) < pushes:
        order = rng.permutation(len(documents))
        for start in range(0, len(order) - size + 1, size):
            chosen = [documents[at] for at in order[start : start + size]]
            dealt.append(np.unique(np.concatenate(chosen)))
    return dealt[:pushes]
