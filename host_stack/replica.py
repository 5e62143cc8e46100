"""The parameters at a worker: hot ones come as UPDATEs, the others by pulls."""

from __future__ import annotations

import time

import numpy as np

from host_stack.codec import Codec
from host_stack.control import Answer, Request
from host_stack.dialogue import Dialogue
from host_stack.fixedpoint import FloatArray, IntArray
from host_stack.incarnation import Incarnation
from host_stack.job import Job
from host_stack.kv.worker import KVWorker
from host_stack.placement import Keys
from host_stack.updates import Updates

UPDATE_GRACE_S = 0.05
"""How long an UPDATE may be overtaken by the server's answer before its row is fetched."""


class Replica:
    """What a worker has of the model; calls that wait are given the STATUS to ask with."""

    def __init__(
        self, job: Job, codec: Codec, kv: KVWorker, dialogue: Dialogue, parameters: FloatArray
    ) -> None:
        """Write into float32[num_keys] `parameters`; `enter` comes first."""
        self._job = job
        self._codec = codec
        self._kv = kv
        self._dialogue = dialogue
        self._parameters = parameters

    def enter(self, incarnation: Incarnation, committed: int) -> None:
        """Go on in an incarnation, with parameters that are those after `committed` rounds."""
        self._placement = incarnation.placement
        self._updates = Updates(self._job, self._codec, incarnation, committed, self._parameters)
        self._dialogue.enter(incarnation, self._updates)

    def cold_of(self, keys: Keys) -> Keys:
        """Those of uint64[n] keys that are not placed."""
        hot, _ = self._placement.find(keys)
        return keys[~hot]

    def fetch(self, keys: Keys, status: Request) -> None:
        """Get all hot keys and the cold ones among uint64[n] `keys`, as they are now.

        Raises `Moved` and `PushFailed` as `Dialogue.until`.
        """
        self.get(np.union1d(self._placement.keys, self.cold_of(keys)), status.committed, status)
        self._updates.fetched(np.arange(self._placement.used_rows), status.committed - 1)
        self._updates.settle(status.committed)

    def get(self, keys: Keys, cmd: int, status: Request) -> None:
        """Get values of uint64[n] keys: `cmd` says as of which round, see `Pulls`."""
        if len(keys):
            self.wait(self._kv.pull(keys, cmd=cmd), keys, cmd, status)

    def ask_cold(self, keys: Keys, committed: int) -> int | None:
        """Ask for the cold ones among uint64[n] keys, after so many rounds; None without any."""
        cold = self.cold_of(keys)
        return self._kv.pull(cold, cmd=committed) if len(cold) else None

    def wait(self, timestamp: int, keys: Keys, cmd: int, status: Request) -> None:
        """Wait for a pull that is due; the answers of a server keep the order of the questions.

        So a pull without an answer is lost when a later question has been answered.
        """
        sent = [timestamp]

        def resend(answer: Answer) -> bool:
            del answer
            sent.append(self._kv.pull(keys, cmd=cmd))
            return False

        with self._dialogue.forgetting(sent):
            self._dialogue.until(
                status, lambda: any(map(self._kv.done, sent)), resend, "answer a pull"
            )
            pairs = next(self._kv.wait(each, 0.0) for each in sent if self._kv.done(each))
        self._parameters[pairs.keys.astype(np.int64)] = pairs.vals

    def complete(self, changed: dict[int, IntArray], status: Request) -> int:
        """Wait shortly for UPDATEs that are still on their way, then fetch what is missing.

        `changed` has the rows of each round, int64[n]. Returns the number of rows fetched.
        """
        deadline = time.monotonic() + UPDATE_GRACE_S
        while len(missing := self._missing(changed)):
            if (left := deadline - time.monotonic()) <= 0:
                break
            self._dialogue.receive(left)
        if len(missing):
            in_missing = np.isin(self._placement.rows, missing)
            self.get(np.sort(self._placement.keys[in_missing]), status.committed, status)
            self._updates.fetched(missing, status.committed - 1)
        self._updates.settle(status.committed)
        return len(missing)

    def _missing(self, changed: dict[int, IntArray]) -> IntArray:
        missing = [self._updates.missing(rows, round_) for round_, rows in changed.items()]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *missing]))
