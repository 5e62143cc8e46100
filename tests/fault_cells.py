"""The cells of the fault matrix: which faults, through which switch, with how many workers.

Alone, each fault meets each target and each number of workers. Faults in twos, and points of cuts
and of a switch that is lost for good, would be thousands of cells in this way; there, factors that
are not listed in full take turns, so that every two values of two factors meet:

- two victims at once: every pair in every phase through the embedded switch; through bmv2 and
  without a switch each takes every other of these cells;
- two victims in two phases of a round: all orders of two phases, pairs taking turns;
- cuts of a worker's and of the server's link, and a switch lost for good: every phase;
- workers out of step, all four victims one after the other: each rule of consistency with each
  kind of links through the embedded switch, once through bmv2 and once without a switch.

`tests/test_fault_cells.py` checks that nothing is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations

from workloads.holds import PHASES

WORKERS = (1, 4, 8)
VICTIMS = ("switch", "server", "worker1", "controller")
POINTS = ("", *PHASES)
"""Where in a round something happens: as it begins, or in a phase."""

PAIRS = tuple(combinations(VICTIMS, 2))
CUT = ("worker1", "server")
AT = 2
"""The round in which things happen."""

EMBEDDED, BMV2, NO_SWITCH = "libra", "bmv2", "server-only"
LINKS = {
    "none": "",
    "loss1": "loss=0.01,seed=11",
    "loss5": "loss=0.05,seed=12",
    "loss20": "loss=0.2,seed=13",
    "duplication": "dup=0.2,seed=14",
    "reordering": "reorder=0.2,seed=15",
    "spikes": "spike=0.05,spike_delay=80ms,seed=16",
}
RULES = ("ssp:2", "ssp:1,steps=6", "async:steps=3", "async:seconds=0.3")
"""How workers may be out of step, for `--consistency`."""
MIXED = "loss=0.05,dup=0.1,reorder=0.2,depth=16,seed=17"
"""Links that make some packets late that others were sent again for."""
SEVERAL = "kill=switch@r1,kill=server@r2,kill=controller@r3,kill=worker1@r5:push"
NEEDS_THE_NEXT_CONTROLLER = "kill=worker1@r3:push"
"""A worker that joins takes another epoch, which nobody but a controller gives."""


@dataclass(frozen=True)
class Cell:
    """One training under faults.

    Attributes:
        way: EMBEDDED, BMV2 or NO_SWITCH.
        workers: how many.
        name: of the faults.
        fault: the text of `--fault`.
    """

    way: str
    workers: int
    name: str
    fault: str

    @property
    def id(self) -> str:
        """How pytest calls it."""
        return f"{self.way}-{self.workers}-{self.name}"


def singles() -> list[Cell]:
    """Each fault alone, in the full product; bmv2 makes none of links."""
    cells = []
    kills = {_name(who, at): killed(who, at) for who in VICTIMS for at in POINTS}
    cuts = {f"cut-{who}": cut(who, "") for who in CUT}
    for name, fault in (LINKS | kills | cuts).items():
        ways = [EMBEDDED, NO_SWITCH, *([BMV2] if name == "none" or name in kills else [])]
        cells += [Cell(way, workers, name, fault) for workers in WORKERS for way in ways]
    return cells


def at_once() -> list[Cell]:
    """Every pair of victims in every phase, at the same moment."""
    cells = []
    for which, (one, other) in enumerate(PAIRS):
        for where, at in enumerate(POINTS):
            name = _name(f"{one}+{other}", at)
            fault = f"{killed(one, at, alone=False)},{killed(other, at, alone=False)}"
            workers = WORKERS[(which + where) % len(WORKERS)]
            also = BMV2 if (which + where) % 2 else NO_SWITCH
            cells += [Cell(way, workers, name, fault) for way in (EMBEDDED, also)]
    return cells


def one_after_the_other() -> list[Cell]:
    """Every order of two phases of a round: the first victim dies in one, the second in the other.

    The first is back, or not, when the second dies.
    """
    cells = []
    for turn, (first, second) in enumerate(permutations(POINTS, 2)):
        one, other = PAIRS[turn % len(PAIRS)]
        if turn // len(PAIRS) % 2:
            one, other = other, one
        name = f"{one}-{first or 'begin'}+{other}-{second or 'begin'}"
        fault = f"{killed(one, first, alone=False)},{killed(other, second, alone=False)}"
        cells.append(Cell(EMBEDDED, WORKERS[turn % len(WORKERS)], name, fault))
    return cells


def cuts() -> list[Cell]:
    """A link is cut in each phase of a round; as it begins, it is among the singles."""
    return [
        Cell(EMBEDDED, WORKERS[(turn + at) % len(WORKERS)], f"cut-{who}-{phase}", fault)
        for turn, who in enumerate(CUT)
        for at, phase in enumerate(PHASES)
        for fault in [cut(who, phase)]
    ]


def all_cells() -> list[Cell]:
    """The matrix, but for what needs a second path."""
    return [*singles(), *at_once(), *one_after_the_other(), *cuts()]


def lost_for_good() -> list[Cell]:
    """The switch is dead from each point on; hosts have another path.

    In the drain, where the server misses it, with each number of workers.
    """
    full = [("drain", workers) for workers in WORKERS]
    turns = [(at, WORKERS[turn % len(WORKERS)]) for turn, at in enumerate(POINTS) if at != "drain"]
    return [
        Cell(EMBEDDED, workers, f"dead-{at or 'begin'}", f"dead=switch@r{AT}{_phase(at)}")
        for at, workers in [*full, *turns]
    ]


def out_of_step() -> list[tuple[str, Cell]]:
    """Rules of consistency, each with cells in which everything dies once."""
    kinds = {name: LINKS[name] for name in ("loss5", "reordering", "spikes")} | {"mixed": MIXED}
    ways = [(EMBEDDED, name) for name in kinds] + [(BMV2, ""), (NO_SWITCH, "mixed")]
    return [
        (rule, Cell(way, WORKERS[(turn + at) % len(WORKERS)], name or "none", fault))
        for turn, rule in enumerate(RULES)
        for at, (way, name) in enumerate(ways)
        for fault in [f"{kinds[name]},{SEVERAL}" if name else SEVERAL]
    ]


def killed(who: str, at: str, *, alone: bool = True) -> str:
    """The text of a kill. One of the controller alone is missed later only."""
    text = f"kill={who}@r{AT}{_phase(at)}"
    return f"{text},{NEEDS_THE_NEXT_CONTROLLER}" if alone and who == "controller" else text


def cut(who: str, at: str) -> str:
    """The text of a cut."""
    return f"cut={who}@r{AT}{_phase(at)}+2s"


def _phase(at: str) -> str:
    return f":{at}" if at else ""


def _name(who: str, at: str) -> str:
    return f"{who}-{at}" if at else who
