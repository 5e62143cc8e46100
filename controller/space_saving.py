"""Space-Saving: the most frequent keys of a stream, whatever number of keys there is.

The algorithm of Metwally, Agrawal and El Abbadi (2005), a batch of the stream at a time. k counters
each watch a key. A key that none watches has been seen at most m times, m being the largest count
that was ever given up. A batch lets the counts of watched keys grow, and enters each other key with
m more than it has seen of it, m being the error that this may be; then the k largest counts stay.

Every entry adds m to the sum of all counts and every counter given up takes at least m away, so the
sum never exceeds the N updates seen, and m, which no counter is below, is at most N / k: the bound
of the algorithm that takes the stream one by one. The true count of a watched key lies between its
count less its error and its count, and every key that was seen more than N / k times is watched.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_stack.errors import BadInput
from host_stack.placement import Keys

Int64Array = NDArray[np.int64]
BYTES_PER_COUNTER = 8 + 8 + 8
"""Key, count and error."""


class SpaceSaving:
    """At most `counters` counters; keys wait until a batch of about as many is taken in."""

    def __init__(self, counters: int) -> None:
        if counters < 1:
            raise BadInput(f"{counters} counters: at least one is needed")
        self.counters = counters
        self.updates = 0
        self._keys = np.empty(0, np.uint64)  # rising
        self._counts = np.empty(0, np.int64)
        self._errors = np.empty(0, np.int64)
        self._given_up = 0
        self._waiting: list[tuple[Keys, Int64Array]] = []
        self._num_waiting = 0

    def update(self, keys: Keys, counts: Int64Array | None = None) -> None:
        """Count updates of uint64[n] `keys`, in any order, repeats allowed.

        `counts`, int64[n], not negative, says how many each; one, unless given.
        """
        times = np.ones(len(keys), np.int64) if counts is None else counts
        self.updates += int(times.sum())
        self._waiting.append((keys, times))
        self._num_waiting += len(keys)
        if self._num_waiting >= self.counters:
            self._take_in()

    @property
    def error_bound(self) -> int:
        """No count is too high by more, and no key without a counter was seen more often."""
        self._take_in()
        return self._given_up

    def ranked(self) -> tuple[Keys, Int64Array, Int64Array]:
        """Return (keys, counts, errors) of all counters, by falling count, then error, then key.

        The true count of a key is from its count less its error up to its count.
        """
        self._take_in()
        order = np.lexsort((self._keys, self._errors, -self._counts))
        return self._keys[order], self._counts[order], self._errors[order]

    def _take_in(self) -> None:
        if not self._num_waiting:
            return
        seen, times = _summed(
            *(np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        )
        self._waiting, self._num_waiting = [], 0
        at = np.searchsorted(self._keys, seen)
        watched = at < len(self._keys)
        watched[watched] = self._keys[at[watched]] == seen[watched]
        self._counts[at[watched]] += times[watched]
        new, new_counts = seen[~watched], times[~watched] + self._given_up
        keys = np.concatenate([self._keys, new])
        counts = np.concatenate([self._counts, new_counts])
        errors = np.concatenate([self._errors, np.full(len(new), self._given_up, np.int64)])
        if len(keys) > self.counters:
            # Of equal counts the older entry stays, so that the result is a function of the stream.
            order = np.argsort(-counts, kind="stable")
            kept = np.sort(order[: self.counters])
            self._given_up = int(counts[order[self.counters]])
            keys, counts, errors = keys[kept], counts[kept], errors[kept]
        order = np.argsort(keys, kind="stable")
        self._keys, self._counts, self._errors = keys[order], counts[order], errors[order]


def _summed(keys: Keys, counts: Int64Array) -> tuple[Keys, Int64Array]:
    """Each of uint64[n] `keys`, n > 0, once, rising, and the sum of its counts."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[starts], np.add.reduceat(counts[order], starts)
