"""The software aggregator: the server's sums, in the same arithmetic as the switch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.fixedpoint import (
    FloatArray,
    IntArray,
    MaskArray,
    check_fraction_bits,
    to_fixed,
    to_float32,
)

KeyIndex = NDArray[np.int64]


@dataclass(frozen=True)
class _Escaped:
    """Gradients that do not fit in fixed point, of one worker; arrays of one length."""

    rank: int
    orders: IntArray
    keys: KeyIndex
    values: FloatArray


class SoftwareAggregator:
    """Sums of one round over keys 0…num_keys - 1.

    Gradients are summed as int64 fixed point; those that escape are added in float64, in the
    order of ranks and steps, to the rounded-once sum of the others (section 3 of the design). A
    sum is thus a function of the gradients alone, whatever the order in which they came.
    """

    def __init__(self, num_keys: int, fraction_bits: int) -> None:
        self.scale_to(fraction_bits)
        self._sums = np.zeros(num_keys, np.int64)
        self._touched = np.zeros(num_keys, np.bool_)
        self._escaped: list[_Escaped] = []
        self.escaped_count = 0
        """Gradients of committed rounds that did not fit in fixed point."""

    def scale_to(self, fraction_bits: int) -> None:
        """Change F between rounds."""
        self._fraction_bits = check_fraction_bits(fraction_bits)

    def add(
        self, rank: int, keys: KeyIndex, gradients: FloatArray, orders: IntArray | None = None
    ) -> None:
        """Add float32[n] gradients of a worker at int64[n] keys.

        Where the worker has a key more than once in a round, int64[n] `orders` tell its steps
        apart: they grow with them.
        """
        fixed, escape = to_fixed(gradients, self._fraction_bits)
        np.add.at(self._sums, keys, fixed)
        self._touched[keys] = True
        if escape.any():
            at = np.zeros(len(keys), np.int64) if orders is None else orders
            self._escaped.append(_Escaped(rank, at[escape], keys[escape], gradients[escape]))

    def add_sums(self, keys: KeyIndex, sums: IntArray) -> None:
        """Add int64[n] sums that a switch made, at int64[n] keys; one with two cells has two."""
        np.add.at(self._sums, keys, sums)
        self._touched[keys] = True

    def touched(self) -> MaskArray:
        """bool[num_keys]: the keys with a contribution in this round; a view."""
        return self._touched

    def take(self) -> tuple[KeyIndex, FloatArray]:
        """End the round: its touched keys (int64[n], ascending) and float32[n] sums."""
        keys = np.flatnonzero(self._touched)
        sums = to_float32(self._sums[keys], self._fraction_bits)
        if self._escaped:
            self._add_escaped(keys, sums)
            self.escaped_count += sum(len(part.keys) for part in self._escaped)
        self._clear(keys)
        return keys, sums

    def discard(self) -> None:
        """Forget what came in this round: it will be pushed again."""
        self._clear(np.flatnonzero(self._touched))

    def _clear(self, keys: KeyIndex) -> None:
        self._sums[keys] = 0
        self._touched[keys] = False
        self._escaped.clear()

    def _add_escaped(self, keys: KeyIndex, sums: FloatArray) -> None:
        exact = np.ldexp(self._sums[keys].astype(np.float64), -self._fraction_bits)
        affected = np.zeros(len(keys), np.bool_)
        # A worker has each key once per step, so rank and step order the terms of a sum.
        ranks = np.concatenate([np.full(len(part.keys), part.rank) for part in self._escaped])
        orders = np.concatenate([part.orders for part in self._escaped])
        order = np.lexsort((orders, ranks))
        at = np.searchsorted(keys, np.concatenate([part.keys for part in self._escaped])[order])
        values = np.concatenate([part.values for part in self._escaped])[order]
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.at(exact, at, values.astype(np.float64))
        affected[at] = True
        with np.errstate(over="ignore"):
            sums[affected] = exact[affected].astype(np.float32)
