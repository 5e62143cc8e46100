"""Pulls at the server: answered when the rounds that they wait for are committed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.fixedpoint import FloatArray
from host_stack.kv.message import KVPairs
from host_stack.kv.server import KVMeta, KVServer


@dataclass(frozen=True)
class _Pull:
    """A pull that waits for its round."""

    request: KVMeta
    keys: NDArray[np.uint64]


class Pulls:
    """Answers pulls with parameters as they are; `cmd` is how many rounds must be committed.

    Of each worker the last pull is held: one that asks again has given the earlier one up.
    """

    def __init__(self, kv: KVServer, parameters: FloatArray) -> None:
        """Answer from float32[num_keys] `parameters`, which others change in place."""
        self._kv = kv
        self._parameters = parameters
        self._held: dict[int, _Pull] = {}

    def take(self, request: KVMeta, keys: NDArray[np.uint64], committed: int) -> None:
        """Answer a pull, or hold it until enough rounds are committed."""
        pull = _Pull(request, keys)
        if request.cmd > committed:
            self._held[request.sender] = pull
        else:
            self._answer(pull)

    def release(self, committed: int) -> None:
        """Answer what has waited for so many rounds."""
        due = [node for node, pull in self._held.items() if pull.request.cmd <= committed]
        for node in due:
            self._answer(self._held.pop(node))

    def _answer(self, pull: _Pull) -> None:
        values = self._parameters[pull.keys.astype(np.int64)]
        self._kv.response(pull.request, KVPairs(pull.keys, values))
