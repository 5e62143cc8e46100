"""What a committed round was, and what closes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from host_stack.aggregator import KeyIndex
from host_stack.fixedpoint import FloatArray
from host_stack.stopwatch import Phases


class Optimizer(Protocol):
    """What the server needs of an optimiser; `workloads.optimizers` has some."""

    def apply(self, params: FloatArray, keys: NDArray[np.uint64], gradient: FloatArray) -> None:
        """Update float32[num_keys] `params` in place at uint64[n] unique `keys`."""

    def state(self) -> dict[str, FloatArray]:
        """The optimiser's arrays, for a checkpoint."""

    def load_state(self, state: Mapping[str, FloatArray]) -> None:
        """Take over arrays of a checkpoint."""


@dataclass(frozen=True)
class Commit:
    """What a committed round was.

    Attributes:
        round: its number, from 0.
        epoch: in which it was pushed.
        phases: seconds of the server since the last commit: `gather`, until the round could be
            committed; `drain`, reading the switch; `apply`, the optimiser; `update`, sending the
            new values.
        drained_rows, changed_rows: rows read from the switch, rows of which an UPDATE was sent.
        keys: number of touched keys.
        steps: of each rank, how many of its steps are committed now.
        fraction_bits: F, the scale at which it was summed.
    """

    round: int
    epoch: int
    phases: Phases
    drained_rows: int
    changed_rows: int
    keys: int
    steps: tuple[int, ...]
    fraction_bits: int


@dataclass(frozen=True)
class Aggregate:
    """What a round came to.

    Attributes:
        keys: int64[n], ascending: the keys that were touched.
        sums: float32[n], the sum of each key's gradients.
    """

    keys: KeyIndex
    sums: FloatArray


OnCommit = Callable[[Commit, FloatArray, Aggregate], None]
"""Told each commit, float32[num_keys] parameters after it, and what was applied."""

OnPhase = Callable[[str, int], None]
"""Told the phase that begins, `drain` or `update`, and its round."""
