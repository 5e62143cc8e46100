"""Steps that a worker has pushed, or is about to, and that are not committed."""

from __future__ import annotations

from dataclasses import dataclass

from host_stack.fixedpoint import FloatArray
from host_stack.placement import Keys


@dataclass(frozen=True)
class Step:
    """A step's gradients, kept until its commit: uint64[n] sorted keys, float32[n]."""

    number: int
    keys: Keys
    gradients: FloatArray
    final: bool = False


class Uncommitted:
    """The steps of a worker in their order: what is pushed in this epoch, then what is not yet."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._pushed = 0

    def __bool__(self) -> bool:
        return bool(self._steps)

    @property
    def first(self) -> int | None:
        """Number of the oldest step, None where there is none."""
        return self._steps[0].number if self._steps else None

    @property
    def next(self) -> Step | None:
        """The one to push now, None where all are pushed."""
        return self._steps[self._pushed] if self._pushed < len(self._steps) else None

    def append(self, step: Step) -> None:
        """Keep another step, to be pushed."""
        self._steps.append(step)

    def push(self) -> None:
        """Note that `next` is pushed."""
        self._pushed += 1

    def drop(self, steps: int) -> None:
        """Forget the steps below `steps`, which are committed."""
        done = sum(step.number < steps for step in self._steps)
        del self._steps[:done]
        self._pushed = max(0, self._pushed - done)

    def restart(self, steps: int) -> None:
        """Push all from `steps` on again, in another epoch.

        Where steps before the oldest one are asked for, nothing is left to push.
        """
        if self._steps and steps < self._steps[0].number:
            self._steps.clear()
        self._pushed = 0
        self.drop(steps)
