"""What `--fault` says: faults of links, and processes and links that die at a point of a round.

    loss=0.05,dup=0.01,kill=switch@r10,kill=worker1@r5:push+2s,cut=w0@r4+2s,dead=switch@r10

docs/faults.md has the words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from host_stack.errors import BadInput
from mininet_topos.job_processes import (
    CONTROLLER,
    SWITCH,
    is_server,
    server_name,
    worker_name,
)
from softswitch.errors import InvalidArgument
from softswitch.faults import LinkFaults
from workloads.holds import PHASES, WORKER_PHASES

KILL_S = 1.0
"""After so long a killed process is started again, unless the fault says another time."""

CUT_S = 1.0
MAX_S = 600.0

LINK_WORDS = ("loss", "dup", "reorder", "spike", "spike_delay", "depth", "hold", "seed")
_CHANCES = ("loss", "dup", "reorder", "spike")
_EVENT = re.compile(
    r"(?P<target>[a-z]+\d*)@r(?P<round>\d{1,7})(?::(?P<phase>[a-z]+))?"
    r"(?:\+(?P<seconds>\d{1,4}(?:\.\d{1,3})?)s)?",
    re.ASCII,
)


class BadFault(BadInput):
    """A fault that cannot be read, or that this run cannot have."""


class Action(StrEnum):
    """What happens at a point of a round."""

    KILL = "kill"
    DEAD = "dead"
    CUT = "cut"


@dataclass(frozen=True)
class Fault:
    """Something that happens once.

    Attributes:
        action: what.
        target: a process, `switch` (the first one), another switch by its name, `controller`,
            `server`, `server2`… or `worker1`…; with CUT whose link. See `FaultPlan.among`.
        round: from 0; it happens when the round begins, or in the `phase` of it.
        phase: one of `PHASES`, or None.
        seconds: after which the process is started again, or the link is mended.
        given: the text that it was read from.
    """

    action: Action
    target: str
    round: int
    phase: str | None
    seconds: float
    given: str = field(default="", compare=False)

    @property
    def holder(self) -> str:
        """The process that waits until a fault in a phase of a round has happened."""
        if self.phase in WORKER_PHASES:
            return self.target if self.target.startswith("worker") else worker_name(0)
        return self.target if is_server(self.target) else server_name(0)

    def __str__(self) -> str:
        phase = f":{self.phase}" if self.phase else ""
        return f"{self.action}={self.target}@r{self.round}{phase}"

    @property
    def as_given(self) -> str:
        """How it was written, and who is meant where that is another name."""
        if not self.given or f"={self.target}@" in self.given:
            return self.given or str(self)
        return f"{self.given} ({self.target})"

    def record(self) -> dict[str, Any]:
        """What it is, for run.json."""
        return {
            "action": self.action.value,
            "target": self.target,
            "round": self.round,
            "phase": self.phase,
        }


@dataclass(frozen=True)
class FaultPlan:
    """All faults of a run.

    Attributes:
        links: of every link, in each direction; None for none.
        faults: in the order of the text.
    """

    links: LinkFaults | None = None
    faults: tuple[Fault, ...] = field(default=())

    def __bool__(self) -> bool:
        return self.links is not None or bool(self.faults)

    @classmethod
    def parse(cls, text: str) -> FaultPlan:
        """Read a text; `BadFault` says what is wrong with it and what is allowed."""
        words: dict[str, object] = {}
        faults = []
        for item in (part.strip() for part in text.split(",")) if text.strip() else ():
            if not item:
                raise BadFault(f"faults {text!r}: there is nothing between two commas")
            word, equals, value = (part.strip() for part in item.partition("="))
            if not equals:
                raise BadFault(f"fault {item!r}: write WORD=VALUE")
            if word in set(Action):
                faults.append(_read_event(Action(word), value, item))
            elif word not in LINK_WORDS:
                raise BadFault(
                    f"unknown fault {word!r}; known are {', '.join((*LINK_WORDS, *Action))}"
                )
            elif word in words:
                raise BadFault(f"faults {text!r}: {word} is given twice")
            else:
                words[word] = value
        return cls(_read_links(words, text), tuple(faults))

    def check(
        self,
        *,
        workers: int,
        rounds: int,
        target: str,
        servers: int = 1,
        backup: bool = False,
        switches: Sequence[str] = (),
    ) -> None:
        """Raise `BadFault` for a fault that a run of this size and switch cannot have."""
        if self.links is not None and target != "soft":
            raise BadFault(
                f"target {target!r} has no faults of links; the embedded switch has (--target soft)"
            )
        hosts = [*map(server_name, range(servers)), *map(worker_name, range(workers))]
        known = [SWITCH, *switches, CONTROLLER, *hosts]
        for fault in self.among(switches).faults:
            if fault.target not in known or (
                fault.action is Action.CUT and fault.target not in hosts
            ):
                allowed = hosts if fault.action is Action.CUT else known
                raise BadFault(f"fault {fault.as_given}: allowed are {', '.join(allowed)}")
            if fault.round >= rounds:
                raise BadFault(f"fault {fault.as_given}: the rounds are 0 to {rounds - 1}")
            if fault.action is Action.DEAD and not (fault.target == SWITCH and backup):
                raise BadFault(
                    f"fault {fault.as_given}: only the switch may be dead for good, and only where "
                    "there is another path (--backup-path)"
                )

    def among(self, switches: Sequence[str]) -> FaultPlan:
        """The same with one name for the first of `switches`, which is `switch`."""
        named = (
            replace(fault, target=SWITCH) if fault.target in switches[:1] else fault
            for fault in self.faults
        )
        return replace(self, faults=tuple(named))

    def holds(self) -> dict[str, list[str]]:
        """Process → the points at which it has to wait, as `ROUND:PHASE`."""
        points: dict[str, list[str]] = {}
        for fault in self.faults:
            if fault.phase is not None:
                points.setdefault(fault.holder, []).append(f"{fault.round}:{fault.phase}")
        return points


def _read_links(words: dict[str, object], text: str) -> LinkFaults | None:
    """The faults of each direction of a link: a packet crosses two of them on its way."""
    if not words:
        return None
    try:
        whole = LinkFaults.from_words(words).words()
        each = {
            word: _of_two(float(value)) if word in _CHANCES else value
            for word, value in whole.items()
        }
        return LinkFaults.from_words(each)
    except InvalidArgument as error:
        raise BadFault(f"faults {text!r}: {error}") from error


def _of_two(chance: float) -> float:
    """The probability, twice in a row, that makes `chance` altogether: 1 - sqrt(1 - chance).

    Written so that small ones keep their digits.
    """
    return chance / (1 + math.sqrt(1 - chance))


def _read_event(action: Action, value: str, item: str) -> Fault:
    match = _EVENT.fullmatch(value)
    if match is None:
        raise BadFault(
            f"fault {item!r}: write {action}=TARGET@rROUND, then :PHASE and +SECONDSs if wanted, "
            f"for example {action}=worker1@r5:push+2s"
        )
    phase = match["phase"]
    if phase is not None and phase not in PHASES:
        raise BadFault(f"fault {item!r}: phases of a round are {', '.join(PHASES)}")
    if action is Action.DEAD and match["seconds"] is not None:
        raise BadFault(f"fault {item!r}: what is dead stays so; leave out +{match['seconds']}s")
    default_s = CUT_S if action is Action.CUT else KILL_S
    seconds = default_s if match["seconds"] is None else float(match["seconds"])
    if seconds > MAX_S:
        raise BadFault(f"fault {item!r}: allowed are up to {MAX_S:g} s")
    target = _process_of(match["target"])
    return Fault(action, target, int(match["round"]), phase, seconds, item)


def _process_of(target: str) -> str:
    """The name of a process, also by the name of its host: w0 is worker1, ps0 the server."""
    host = re.fullmatch(r"(ps|w)(\d{1,3})", target)
    if host is None:
        return target
    return (server_name if host[1] == "ps" else worker_name)(int(host[2]))
