"""What the server has gathered of the open rounds: sums in software, and who has pushed."""

from __future__ import annotations

import numpy as np

from host_stack.aggregator import KeyIndex, SoftwareAggregator
from host_stack.commit import Aggregate
from host_stack.fixedpoint import FloatArray, IntArray
from host_stack.kv.message import KVPairs
from host_stack.standing import OpenRound


class Gathering:
    """The lowest round that is not committed and the next one, which are open at once."""

    def __init__(self, num_keys: int, fraction_bits: int) -> None:
        """Of keys 0…num_keys - 1; `begin` comes first."""
        self._aggregators = [SoftwareAggregator(num_keys, fraction_bits) for _ in range(2)]
        self._open: dict[int, OpenRound] = {}

    def __contains__(self, round_: int) -> bool:
        return round_ in self._open

    def __getitem__(self, round_: int) -> OpenRound:
        return self._open[round_]

    @property
    def escaped(self) -> int:
        """Gradients of committed rounds that did not fit in fixed point."""
        return sum(each.escaped_count for each in self._aggregators)

    def aggregator_of(self, round_: int) -> SoftwareAggregator:
        """The software sums of an open round."""
        return self._aggregators[round_ % 2]

    def begin(self, round_: int, fraction_bits: int) -> None:
        """Open `round_` and the next one anew: nothing that has come counts any more."""
        self._open = {round_: OpenRound(), round_ + 1: OpenRound()}
        for aggregator in self._aggregators:
            aggregator.discard()
            aggregator.scale_to(fraction_bits)

    def has_push(self, round_: int, rank: int, step: int) -> bool:
        """Whether a worker's cold push of a step has come for an open round."""
        return round_ in self._open and (rank, step) in self._open[round_].pushed

    def add_push(self, round_: int, rank: int, step: int, pairs: KVPairs) -> None:
        """Take a cold push, for which `has_push` is false, into an open round."""
        self._open[round_].pushed.add((rank, step))
        keys = pairs.keys.astype(np.int64)
        orders = np.full(len(keys), step, np.int64)
        self.aggregator_of(round_).add(rank, keys, pairs.vals, orders)

    def rows(self, round_: int) -> IntArray:
        """int64[n], ascending: the rows in which a switch holds something of an open round."""
        touched = [*self._open[round_].rows.values(), np.zeros(0, np.int64)]
        return np.unique(np.concatenate(touched))

    def sums(self, round_: int, finished: list[tuple[KeyIndex, FloatArray]]) -> Aggregate:
        """All touched keys of a round and their sums, with `finished` ones of other keys."""
        parts = [self.aggregator_of(round_).take(), *finished]
        keys = np.concatenate([part[0] for part in parts])
        sums = np.concatenate([part[1] for part in parts])
        order = np.argsort(keys)
        return Aggregate(keys[order], sums[order])

    def close(self, round_: int) -> OpenRound:
        """Close the lower one of the open rounds, which is committed; another one opens."""
        closed = self._open.pop(round_)
        self._open[round_ + 2] = OpenRound()
        return closed
