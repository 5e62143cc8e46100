"""Carries out the faults of a run when their point of a round comes, and times the recovery."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mininet_topos.faults import Action, Fault
from mininet_topos.processes import Event


class Emulated(Protocol):
    """What an injector acts upon."""

    def kill(self, name: str) -> None:
        """Kill a process or the switch."""

    def restart(self, name: str) -> None:
        """Start again what was killed."""

    def set_link(self, name: str, *, up: bool) -> None:
        """Cut the link of a process's host, or mend it."""

    def release(self, name: str) -> None:
        """Let a process go on that holds."""


@dataclass
class Injected:
    """A fault that has happened.

    Attributes:
        fault: which.
        at_s: seconds after the training began.
        ended_s: when the process was started again or the link was mended.
        recovered_s: when the next round was committed; None if none was.
    """

    fault: Fault
    at_s: float
    ended_s: float | None = None
    recovered_s: float | None = None

    def record(self) -> dict[str, Any]:
        """An entry of `faults` in run.json."""
        recovery_s = None if self.recovered_s is None else self.recovered_s - self.at_s
        return {
            "action": self.fault.action.value,
            "target": self.fault.target,
            "round": self.fault.round,
            "phase": self.fault.phase,
            "at_s": self.at_s,
            "ended_s": self.ended_s,
            "recovery_s": recovery_s,
        }


class Injector:
    """Takes the events of a run in order; `tick` has to be called now and then."""

    def __init__(
        self,
        faults: tuple[Fault, ...],
        emulated: Emulated,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._waiting = list(faults)
        self._emulated = emulated
        self._clock = clock
        self._began = clock()
        self._due: list[tuple[float, Injected]] = []
        self._taken: Counter[tuple[bool, str]] = Counter()
        self.injected: list[Injected] = []

    @property
    def now_s(self) -> float:
        """Seconds since the training began."""
        return self._clock() - self._began

    @property
    def is_quiet(self) -> bool:
        """Whether nothing that was killed or cut waits for its end."""
        return not self._due

    def begin(self) -> None:
        """The training begins: round 0 is open."""
        self._began = self._clock()
        self._fire(0, None)

    def take(self, event: Event) -> None:
        """A commit opens the next round; a hold is a point within one."""
        if event.kind == "commit":
            for injected in self.injected:
                if injected.recovered_s is None:
                    injected.recovered_s = self.now_s
            self._fire(event.fields["round"] + 1, None)
        elif event.kind == "hold":
            self._fire(event.fields["round"], event.fields["phase"])
            self._emulated.release(event.process)

    def tick(self) -> None:
        """Start again and mend what it is time for."""
        now = self._clock()
        due = [each for each in self._due if each[0] <= now]
        self._due = [each for each in self._due if each[0] > now]
        for _, injected in due:
            self._give_back(injected.fault)
            injected.ended_s = self.now_s

    def _fire(self, round_: int, phase: str | None) -> None:
        here = [each for each in self._waiting if (each.round, each.phase) == (round_, phase)]
        for fault in here:
            self._waiting.remove(fault)
            injected = Injected(fault, self.now_s)
            self.injected.append(injected)
            self._take_away(fault)
            if fault.action is not Action.DEAD:
                self._due.append((self._clock() + fault.seconds, injected))

    def _take_away(self, fault: Fault) -> None:
        """Kill or cut, unless another fault has."""
        self._taken[_what(fault)] += 1
        if self._taken[_what(fault)] > 1:
            return
        if fault.action is Action.CUT:
            self._emulated.set_link(fault.target, up=False)
        else:
            self._emulated.kill(fault.target)

    def _give_back(self, fault: Fault) -> None:
        """Start again or mend, unless another fault still holds it."""
        self._taken[_what(fault)] -= 1
        if self._taken[_what(fault)]:
            return
        if fault.action is Action.CUT:
            self._emulated.set_link(fault.target, up=True)
        else:
            self._emulated.restart(fault.target)


def _what(fault: Fault) -> tuple[bool, str]:
    """What a fault takes away: it comes back when the last fault that took it is over."""
    return fault.action is Action.CUT, fault.target
