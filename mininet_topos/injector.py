"""Carries out the faults of a run when their point of a round comes, and times the recovery.

The job has recovered from a fault when it has committed a round that began after it, and the
victim has its place again: docs/faults.md has the words.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mininet_topos.faults import Action, Fault
from mininet_topos.job_processes import CONTROLLER, is_server, is_worker
from mininet_topos.processes import Event


class Emulated(Protocol):
    """What an injector acts upon."""

    def kill(self, name: str) -> bool:
        """Kill a process or the switch; false where it has ended by itself."""

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
        next_round: the lowest round that began after it.
        ended_s: when the process was started again or the link was mended.
        committed_s: when the next round was committed, whichever; None if none was.
        recovered_s: when a round that began after it was committed and the victim had its place
            again, or the training had ended.
    """

    fault: Fault
    at_s: float
    next_round: int
    ended_s: float | None = None
    committed_s: float | None = None
    recovered_s: float | None = None
    is_past: bool = False
    is_back: bool = False

    def __post_init__(self) -> None:
        self.is_back = self.fault.action is Action.DEAD

    def record(self) -> dict[str, Any]:
        """An entry of `faults` in run.json."""
        return {
            **self.fault.record(),
            "at_s": self.at_s,
            "ended_s": self.ended_s,
            "next_commit_s": self._since(self.committed_s),
            "recovery_s": self._since(self.recovered_s),
        }

    def _since(self, then_s: float | None) -> float | None:
        return None if then_s is None else then_s - self.at_s

    def committed(self, round_: int, now_s: float) -> None:
        """A round is committed by all servers."""
        if self.committed_s is None:
            self.committed_s = now_s
        self.is_past |= round_ >= self.next_round
        self._look(now_s)

    def given_back(self, now_s: float) -> None:
        """The process runs again, or the link carries again.

        A switch is up then, and no round is committed without its server: what else they need
        shows in commits. Workers and controllers have to be heard.
        """
        self.is_back |= not (is_worker(self.fault.target) or self.fault.target == CONTROLLER)
        self._look(now_s)

    def heard(self, event: Event, now_s: float) -> None:
        """A process has told something: a worker of a step of its own, a controller that it serves.

        A worker whose steps are all made tells that it is done.
        """
        if event.process != self.fault.target or self.ended_s is None:
            return
        signs = {"ready"} if event.process == CONTROLLER else {"round", "done"}
        self.is_back |= event.kind in signs
        self._look(now_s)

    def training_ended(self, now_s: float) -> None:
        """Whatever round it hit, all are committed, and every process has said so."""
        self.is_past = True
        self._look(now_s)

    def _look(self, now_s: float) -> None:
        if self.recovered_s is None and self.is_past and self.is_back:
            self.recovered_s = now_s


class Injector:
    """Takes the events of a run in order; `tick` has to be called now and then."""

    def __init__(
        self,
        faults: tuple[Fault, ...],
        emulated: Emulated,
        clock: Callable[[], float] = time.monotonic,
        *,
        open_rounds: int = 1,
    ) -> None:
        """Of a job that has so many rounds open at a time."""
        self._waiting = list(faults)
        self._late: list[Fault] = []
        self._open_rounds = open_rounds
        self._round = 0
        self._emulated = emulated
        self._clock = clock
        self._began = clock()
        self._due: list[tuple[float, Injected]] = []
        self._taken: Counter[tuple[bool, str]] = Counter()
        self.injected: list[Injected] = []

    @property
    def missed(self) -> tuple[Fault, ...]:
        """Faults whose point has not come, or whose victim had done all of its work by then."""
        return (*self._waiting, *self._late)

    @property
    def now_s(self) -> float:
        """Seconds since the training began."""
        return self._clock() - self._began

    @property
    def is_quiet(self) -> bool:
        """Whether all that was killed or cut is back, and controllers serve again."""
        controllers = (each for each in self.injected if each.fault.target == CONTROLLER)
        return not self._due and all(each.is_back for each in controllers)

    def begin(self) -> None:
        """The training begins: round 0 is open."""
        self._began = self._clock()
        self._fire(0, None)

    def end(self) -> None:
        """The training has ended."""
        for injected in self.injected:
            injected.training_ended(self.now_s)

    def take(self, event: Event) -> None:
        """A commit opens the next round, and a server that is back its own; a hold is within."""
        for injected in self.injected:
            injected.heard(event, self.now_s)
        if event.kind == "commit":
            for injected in self.injected:
                injected.committed(event.fields["round"], self.now_s)
            self._open(event.fields["round"] + 1)
        elif event.kind == "ready" and is_server(event.process):
            self._open(event.fields["round"])
        elif event.kind == "hold":
            self._fire(event.fields["round"], event.fields["phase"])
            self._emulated.release(event.process)

    def tick(self) -> None:
        """Start again and mend what it is time for."""
        now = self._clock()
        due = [each for each in self._due if each[0] <= now]
        self._due = [each for each in self._due if each[0] > now]
        for _, injected in due:
            injected.ended_s = self.now_s
            self._give_back(injected.fault)
            injected.given_back(self.now_s)

    def _open(self, round_: int) -> None:
        """A round is open.

        A server that dies while it tells of a commit opens the next round by its return.
        """
        self._round = round_
        self._fire(round_, None)

    def _fire(self, round_: int, phase: str | None) -> None:
        here = [each for each in self._waiting if (each.round, each.phase) == (round_, phase)]
        # The worker that waits in a phase may have heard of the last commit first.
        is_bsp = self._open_rounds == 1
        next_round = (max(self._round, round_) if is_bsp else self._round) + self._open_rounds
        for fault in here:
            self._waiting.remove(fault)
            injected = Injected(fault, self.now_s, next_round)
            if not self._take_away(fault):
                self._late.append(fault)
                continue
            self.injected.append(injected)
            if fault.action is not Action.DEAD:
                self._due.append((self._clock() + fault.seconds, injected))

    def _take_away(self, fault: Fault) -> bool:
        """Kill or cut, unless another fault has; false where there is nothing to kill."""
        if not self._taken[_what(fault)]:
            if fault.action is Action.CUT:
                self._emulated.set_link(fault.target, up=False)
            elif not self._emulated.kill(fault.target):
                return False
        self._taken[_what(fault)] += 1
        return True

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
