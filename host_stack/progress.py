"""How far the workers of a job are, and when a round closes: BSP, stale-synchronous, asynchronous.

A round is a drain generation: what the switch sums under one tag. Under BSP each worker puts one
step into it. Otherwise a worker may put several, and go on in the next generation while others
still fill the closing one; two are open at a time, as the switch has two banks of cells.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from host_stack.errors import BadInput
from host_stack.fixedpoint import MAX_CONTRIBUTIONS
from host_stack.layout import TAG_ROUNDS


@dataclass(frozen=True)
class Consistency:
    """How far workers may run ahead, and what closes a generation.

    Attributes:
        staleness: k, the steps that a worker may be ahead of the least committed one. 0 is BSP,
            None leaves workers asynchronous.
        close_steps: a generation closes with so many steps in it; None: not by count.
        close_s: it closes so many seconds after its first step; None: not by time.
    """

    staleness: int | None = 0
    close_steps: int | None = None
    close_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("staleness", "close_steps", "close_s"):
            low = 1 if name == "close_steps" else 0
            value = getattr(self, name)
            if value is not None and not (low <= value < math.inf):
                raise BadInput(f"{name} {value}: it must be {low} or more")
        if self.staleness is None and self.close_steps is None and self.close_s is None:
            raise BadInput("asynchronous training needs a number of steps or a time that closes")

    @classmethod
    def parse(cls, text: str) -> Consistency:
        """Read `bsp`, `ssp:K[,steps=N][,seconds=T]` or `async:[steps=N][,seconds=T]`.

        Raises `BadInput` for anything else.
        """
        kind, _, options = text.partition(":")
        words = [word.strip() for word in options.split(",") if word.strip()]
        try:
            if kind == "bsp" and not words:
                return BSP
            if kind == "ssp" and words:
                return cls(int(words[0]), **_closing(words[1:]))
            if kind == "async" and words:
                return cls(None, **_closing(words))
        except ValueError:
            pass
        raise BadInput(f"consistency {text!r}: allowed are {FORMS}")

    def __str__(self) -> str:
        if self == BSP:
            return "bsp"
        parts = [] if self.staleness is None else [str(self.staleness)]
        if self.close_steps is not None:
            parts.append(f"steps={self.close_steps}")
        if self.close_s is not None:
            parts.append(f"seconds={self.close_s:g}")
        return ("async:" if self.staleness is None else "ssp:") + ",".join(parts)


FORMS = "bsp, ssp:K[,steps=N][,seconds=T], async:steps=N, async:seconds=T"


def _closing(words: list[str]) -> dict[str, Any]:
    """What closes a round, of words NAME=NUMBER; `ValueError` for others."""
    found: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name == "steps" and "close_steps" not in found:
            found["close_steps"] = int(value)
        elif name == "seconds" and "close_s" not in found:
            found["close_s"] = float(value)
        else:
            raise ValueError(word)
    return found


BSP = Consistency()


@dataclass
class _Generation:
    """Steps of each rank in it, and when it got its first one."""

    steps: Counter[int] = field(default_factory=Counter)
    closing: bool = False
    first_at: float = math.inf


class Progress:
    """The books of a job's server: who has completed which step in which generation.

    Attributes:
        round: the lowest generation that is not committed; it and the next one are open.
        steps, committed: of each rank, steps that are complete and such that are committed.
    """

    def __init__(
        self, workers: int, consistency: Consistency, round_: int, committed: Sequence[int]
    ) -> None:
        """Begin with `committed` steps of each rank, and nothing open."""
        self._consistency = consistency
        self._quota = max(1, MAX_CONTRIBUTIONS // workers)
        self._ranks = range(workers)
        self.round = round_
        self.committed = list(committed)
        self.restart()

    def restart(self) -> None:
        """Forget what is not committed: it will be pushed again."""
        self.steps = list(self.committed)
        self._final: set[int] = set()
        self._waiting: set[int] = set()
        self._target = [self.round for _ in self._ranks]
        self._open = {self.round: _Generation(), self.round + 1: _Generation()}

    def target(self, rank: int) -> int:
        """The generation that a rank pushes into."""
        return self._target[rank]

    def complete(self, rank: int, generation: int, step: int, now: float, *, final: bool) -> None:
        """Note that a rank has completed a step, and waits; again is as good as once.

        Raises:
            BadInput: the generation is not the one that the rank was sent to, or steps are missing.
        """
        if step >= self.steps[rank]:
            if step != self.steps[rank] or generation != self._target[rank]:
                raise BadInput(
                    f"step {step} of worker {rank} in round {generation}: step "
                    f"{self.steps[rank]} in round {self._target[rank]} comes next"
                )
            if (entry := self._open.get(generation)) is None:
                raise BadInput(
                    f"round {generation} of worker {rank}: open are "
                    f"{', '.join(map(str, self._open))}"
                )
            entry.steps[rank] += 1
            entry.first_at = min(entry.first_at, now)
            self.steps[rank] += 1
        if final:
            self._final.add(rank)
        self._waiting.add(rank)

    def leave(self, rank: int) -> None:
        """Do not wait for a rank that makes no steps."""
        self._final.add(rank)

    def end(self) -> None:
        """Wait for nobody: no rank has a step left to make."""
        self._final.update(self._ranks)

    def is_waiting(self, rank: int) -> bool:
        """Whether a rank has completed its step and was not told to go on."""
        return rank in self._waiting

    def is_final(self, rank: int) -> bool:
        """Whether a rank has said that nothing comes behind its steps."""
        return rank in self._final

    def release(self, now: float) -> list[int]:
        """The ranks that go on, from now on into their `target`; the others need a commit."""
        self._close_what_is_due(now)
        going = [rank for rank in sorted(self._waiting) if self._advance(rank)]
        self._waiting.difference_update(going)
        if not all(map(self._has_ended, self._waiting)):
            # Whoever has to wait needs a commit, unless it waits for the others to end.
            self._open[self.round].closing = True
        return going

    def due_in_s(self, now: float) -> float:
        """Seconds until time closes the lowest generation; infinite if it does not, or has."""
        close_s, entry = self._consistency.close_s, self._open[self.round]
        if close_s is None or entry.closing:
            return math.inf
        return max(0.0, entry.first_at + close_s - now)

    def _close_what_is_due(self, now: float) -> None:
        entry, rule = self._open[self.round], self._consistency
        if rule.close_steps is not None and entry.steps.total() >= rule.close_steps:
            entry.closing = True
        if rule.close_s is not None and now - entry.first_at >= rule.close_s:
            entry.closing = True

    def _advance(self, rank: int) -> bool:
        """Let a waiting rank go on if the bound and the open generations allow it."""
        bound = self._consistency.staleness
        if rank in self._final:
            # Until the end, whatever is lost may have to be pushed again.
            return self.has_ended
        if bound is not None and self._ahead(rank) > bound:
            return False
        last = min(self.round + 1, self.round | TAG_ROUNDS - 1)  # of this epoch
        for generation in range(max(self._target[rank], self.round), last + 1):
            entry = self._open[generation]
            if not entry.closing and entry.steps[rank] < self._quota:
                self._target[rank] = generation
                return True
        return False

    def _ahead(self, rank: int) -> int:
        """Steps of a rank ahead of the least committed one that still trains."""
        training = [each for each in self._ranks if not self._has_ended(each)]
        return self.steps[rank] - min(self.committed[each] for each in training)

    def _has_ended(self, rank: int) -> bool:
        return rank in self._final and self.committed[rank] == self.steps[rank]

    @property
    def can_commit(self) -> bool:
        """Whether the lowest generation closes and nobody pushes into it any more."""
        return self._open[self.round].closing and all(
            rank in self._final or rank in self._waiting or self._target[rank] > self.round
            for rank in self._ranks
        )

    @property
    def has_ended(self) -> bool:
        """Whether all ranks have ended and everything is committed."""
        return all(map(self._has_ended, self._ranks))

    def commit(self) -> None:
        """Count the steps of the lowest generation as committed, and open another one."""
        for rank, steps in self._open.pop(self.round).steps.items():
            self.committed[rank] += steps
        self.round += 1
        self._open[self.round + 1] = _Generation()
