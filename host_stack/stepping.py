"""Steps of a worker that keeps nothing to go back to: it follows moves, and names a rewind."""

from __future__ import annotations

from host_stack.errors import BadInput, Rewound
from host_stack.fixedpoint import FloatArray
from host_stack.incarnation import Moved
from host_stack.placement import Keys
from host_stack.sharded import JobWorker
from host_stack.stopwatch import RoundTimes


class Stepping:
    """A worker under BSP and its next step.

    Attributes:
        worker: whose parameters are those after the last commit.
        step: the next one to push, from 0.
    """

    def __init__(self, worker: JobWorker) -> None:
        """Of a worker that is not started."""
        self.worker = worker
        self.step = 0

    def start(self) -> int:
        """Join the job; return the step to begin with.

        Raises:
            PushFailed: the server does not answer.
        """
        self.step = self.worker.start()
        return self.step

    def push(self, keys: Keys, gradients: FloatArray, next_keys: Keys) -> RoundTimes:
        """Push uint64[n] keys, sorted and unique, with float32[n] gradients, as one step.

        uint64[m] `next_keys` are there then if the worker `is_current`.

        Raises:
            Rewound: the job goes on at an earlier step.
            PushFailed: nothing moves any more, and nobody says why.
        """
        try:
            times = self.worker.push_round(self.step, keys, gradients, next_keys)
        except Moved as moved:
            raise Rewound(moved.steps, self.step) from None
        self.step += 1
        return times

    def fetch(self, keys: Keys) -> bool:
        """Get uint64[n] keys, sorted and unique, as they are now, and all hot ones.

        Returns:
            Whether the job has moved meanwhile, so that other keys may be hot.

        Raises:
            Rewound, PushFailed: as `push`.
        """
        has_moved = False
        while True:
            try:
                if self.worker.is_current:
                    self.worker.pull(keys)
                else:
                    self.worker.fetch(keys)
                return has_moved
            except Moved as moved:
                if moved.steps != self.step:
                    raise Rewound(moved.steps, self.step) from None
                has_moved = True

    def end(self) -> None:
        """Say that no step follows, and wait until no worker has one left.

        Raises:
            BadInput: no step was made.
            Rewound, PushFailed: as `push`.
        """
        if not self.step:
            raise BadInput("a job ends behind its first step; none was made")
        try:
            self.worker.end(self.step - 1)
        except Moved as moved:
            raise Rewound(moved.steps, self.step) from None
