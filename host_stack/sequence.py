"""The server's duplicate check: the same window of sequence numbers as the switch keeps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_stack.fixedpoint import MaskArray


class SequenceWindow:
    """seen[worker][seq mod W] of (epoch, seq), for batches (section 4 of the design)."""

    def __init__(self, workers: int, window: int) -> None:
        self._window = window
        self._epoch = np.zeros((workers, window), np.int64)
        self._seq = np.zeros((workers, window), np.int64)

    def is_new(
        self, workers: NDArray[np.int64], epochs: NDArray[np.int64], seqs: NDArray[np.int64]
    ) -> MaskArray:
        """bool[n]: true for each packet that was not seen yet; of twins in a batch, the first."""
        slots = seqs % self._window
        _, first = np.unique((workers << 32) | seqs, return_index=True)
        leading = np.zeros(len(seqs), np.bool_)
        leading[first] = True
        distance = (seqs - self._seq[workers, slots]) & 0xFFFFFFFF
        newer = (distance != 0) & (distance < 1 << 31)
        other_epoch: MaskArray = self._epoch[workers, slots] != epochs
        new: MaskArray = leading & (other_epoch | newer)
        return new

    def mark(
        self, workers: NDArray[np.int64], epochs: NDArray[np.int64], seqs: NDArray[np.int64]
    ) -> None:
        """Remember packets that were counted."""
        slots = seqs % self._window
        self._epoch[workers, slots] = epochs
        self._seq[workers, slots] = seqs
