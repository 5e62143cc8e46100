"""Pulls at the server: answered when the rounds that they wait for are committed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.aggregator import KeyIndex
from host_stack.fixedpoint import FloatArray
from host_stack.kv.message import KVPairs
from host_stack.kv.server import KVMeta, KVServer

BEFORE_COMMIT = 1 << 30
"""In a pull's `cmd`: the values that the last of the committed rounds found."""


def asks_before(cmd: int) -> bool:
    """Whether a pull asks for values before a commit; no number of rounds has this bit."""
    return cmd & BEFORE_COMMIT != 0


@dataclass(frozen=True)
class _Pull:
    """A pull that waits for its round."""

    request: KVMeta
    keys: NDArray[np.uint64]


class Pulls:
    """Answers pulls with parameters as they are; `cmd` is how many rounds must be committed.

    With `BEFORE_COMMIT` it is answered with those before the last of that many rounds, for a worker
    that makes that round again at another server; refused where they are not known any more.
    Of each worker the last pull is held: one that asks again has given the earlier one up.
    """

    def __init__(self, kv: KVServer, parameters: FloatArray) -> None:
        """Answer from float32[num_keys] `parameters`, which others change in place."""
        self._kv = kv
        self._parameters = parameters
        self._held: dict[int, _Pull] = {}
        self._kept: tuple[KeyIndex, FloatArray] | None = None

    def keep(self, keys: KeyIndex) -> None:
        """Keep the values of int64[n] ascending keys, which a commit is about to change."""
        self._kept = (keys, self._parameters[keys])

    def take(self, request: KVMeta, keys: NDArray[np.uint64], committed: int) -> None:
        """Answer a pull, or hold it until enough rounds are committed."""
        pull = _Pull(request, keys)
        if asks_before(request.cmd):
            self._answer_before(pull, committed)
        elif request.cmd > committed:
            self._held[request.sender] = pull
        else:
            self._answer(pull)

    def release(self, committed: int) -> None:
        """Answer what has waited for so many rounds."""
        due = [node for node, pull in self._held.items() if pull.request.cmd <= committed]
        for node in due:
            self._answer(self._held.pop(node))

    def _answer_before(self, pull: _Pull, committed: int) -> None:
        if self._kept is None or pull.request.cmd != BEFORE_COMMIT | committed:
            self._kv.refuse(pull.request, f"the values before round {committed} are not known")
            return
        (changed, before), keys = self._kept, pull.keys.astype(np.int64)
        values = self._parameters[keys]
        _, asked, kept = np.intersect1d(keys, changed, assume_unique=True, return_indices=True)
        values[asked] = before[kept]
        self._kv.response(pull.request, KVPairs(pull.keys, values))

    def _answer(self, pull: _Pull) -> None:
        values = self._parameters[pull.keys.astype(np.int64)]
        self._kv.response(pull.request, KVPairs(pull.keys, values))
