"""The controller of a job in memory, for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from host_stack.incarnation import Incarnation, next_epoch
from host_stack.job import Job
from host_stack.placement import Placement
from host_stack.standing import Standing
from host_stack.wake import Wake


class MemoryController:
    """The controller of a job in memory: counts epochs, and installs each on the switch if any.

    It outlives the server, as the real one does.
    """

    def __init__(
        self, job: Job, placement: Placement, install: Callable[[Job], None] | None = None
    ) -> None:
        self.incarnation = Incarnation(
            job.epoch, 0, job.fraction_bits, 1, placement, on_switch=install is not None
        )
        self.reasons: list[str] = []
        self.standing: Standing | None = None
        self.switch_is_dead: Callable[[], bool] = lambda: False
        self._job = job
        self._install = install
        self._wake = Wake()
        self._seen = job.epoch
        self._planned: dict[str, Any] = {}
        self._is_announced = False

    def fileno(self) -> int:
        """Readable while there is news."""
        return self._wake.fileno()

    def news(self) -> Incarnation | None:
        """The newest incarnation, once; that a placement waits comes with it, or by itself."""
        self._wake.clear()
        is_new = self._seen != self.incarnation.epoch
        is_announced, self._is_announced = self._is_announced, False
        self._seen = self.incarnation.epoch
        if not is_new and not is_announced:
            return None
        return replace(self.incarnation, planned=is_announced)

    def suspect(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Set the switch up again if it is dead."""
        if self.switch_is_dead():
            self.renew(reason, seen, round_)

    def report(self, standing: Standing) -> None:
        """Keep the last one."""
        self.standing = standing

    def renew(self, reason: str, seen: Incarnation, round_: int) -> None:
        """Another epoch, unless the asking one has missed the last."""
        if seen.epoch == self.incarnation.epoch:
            self.reasons.append(reason)
            self.move(round_)

    def plan(self, **changes: Any) -> None:
        """Let changes of the incarnation wait for the next epoch, and say so."""
        self._planned = changes
        self._is_announced = True
        self._wake.set()

    def move(self, round_: int, **changes: Any) -> None:
        """Go to the next epoch, with what was planned and other changes of the incarnation."""
        old = self.incarnation
        changes, self._planned = self._planned | changes, {}
        new = replace(old, epoch=next_epoch(old.epoch), round=round_, **changes)
        if self._install is not None:
            self._install(self._job.at(new.epoch, new.fraction_bits))
        self.incarnation = new
        self._wake.set()
