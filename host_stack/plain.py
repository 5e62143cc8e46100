"""Workers of a job that speak ps-lite and nothing more, such as programs of the C++ library."""

from __future__ import annotations

import numpy as np

from host_stack.aggregator import KeyIndex
from host_stack.commit import Optimizer
from host_stack.fixedpoint import FloatArray
from host_stack.kv.message import KVPairs
from host_stack.kv.server import KVMeta
from host_stack.layout import ROUND_BITS
from host_stack.placement import Keys


def is_plain(request: KVMeta) -> bool:
    """Whether a push bears no tag: epoch 0 is none."""
    return 0 <= request.cmd < 1 << ROUND_BITS


class PlainPushes:
    """Pushes without a tag: all of their keys are cold, and they belong to no round.

    Each is applied as a gradient of its own when it arrives, so that the pulls that follow see it.
    A model to which such workers contribute depends on the order in which they push.
    """

    def __init__(self, parameters: FloatArray, optimizer: Optimizer) -> None:
        """Apply to float32[num_keys] `parameters`, in place."""
        self._parameters = parameters
        self._optimizer = optimizer
        self._touched: list[Keys] = []
        self.ranks: set[int] = set()
        """Those that push so; rounds do not wait for them."""

    def apply(self, rank: int, pairs: KVPairs) -> None:
        """Apply a push of a rank: uint64[n] keys, float32[n] values."""
        self.ranks.add(rank)
        keys = pairs.keys.copy()
        self._optimizer.apply(self._parameters, keys, pairs.vals.astype(np.float32))
        self._touched.append(keys)

    def forget(self, rank: int) -> bool:
        """Let rounds wait for a rank in the next epoch; returns whether they do not now."""
        pushed = rank in self.ranks
        self.ranks.discard(rank)
        return pushed

    def with_touched(self, keys: KeyIndex) -> KeyIndex:
        """The keys of a round (int64[n], ascending), and those that changed since the last call."""
        touched, self._touched = self._touched, []
        return np.union1d(keys, np.concatenate(touched).astype(np.int64)) if touched else keys
