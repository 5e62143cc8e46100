"""Packets per second, side by side: contenders take turns under the same load in one run."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contenders import Contender, contender, prefer
from bench.job import BenchJob, NotAggregated
from mininet_topos.processes import ProcessGroup

Say = Callable[[str], None]


@dataclass(frozen=True)
class Turns:
    """How contenders take turns: `repetitions` times `seconds` each, with `window` in flight."""

    repetitions: int
    seconds: float
    window: int


@dataclass(frozen=True)
class Rates:
    """The rates of one contender (packets/s, one per repetition) and what was lost."""

    name: str
    packets_per_s: tuple[float, ...]
    lost: int

    @property
    def median(self) -> float:
        """Packets per second."""
        return statistics.median(self.packets_per_s)

    def record(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "packets_per_s": self.median,
            "packets_per_s_lowest": min(self.packets_per_s),
            "packets_per_s_highest": max(self.packets_per_s),
            "repetitions": list(self.packets_per_s),
            "lost": self.lost,
        }


def ratio(ours: Rates, theirs: Rates | None) -> float | None:
    """The median of the ratios of neighbouring turns; None without the other one.

    Turns alternate, so that neighbours saw the same machine: what slowed it down for a while slowed
    both, and drops out of the ratio.
    """
    if theirs is None:
        return None
    pairs = zip(ours.packets_per_s, theirs.packets_per_s, strict=True)
    return statistics.median(a / b for a, b in pairs)


def measure(
    names: Sequence[str], job: BenchJob, turns: Turns, logs: Path, say: Say
) -> dict[str, Rates]:
    """Rates of contenders by name; raises `NotAggregated` if a switch did not do its work.

    Must be called inside an emulation's namespaces.
    """
    with ExitStack() as stack, ProcessGroup(logs) as processes:
        contenders = [
            stack.enter_context(contender(name, job, processes, window=turns.window))
            for name in names
        ]
        with _on_last_core():
            _take_turns(contenders, turns, say)
        for each in contenders:
            _check(each)
        return {
            c.name: Rates(
                c.name, tuple(run.packets_per_s for run in c.runs), sum(r.lost for r in c.runs)
            )
            for c in contenders
        }


def _take_turns(contenders: Sequence[Contender], turns: Turns, say: Say) -> None:
    for each in contenders:
        each.measure(min(turns.seconds, 0.5), warm_up=True)
    for turn in range(turns.repetitions):
        # Every other turn backwards, so that nobody always goes first.
        for each in contenders[:: 1 if turn % 2 == 0 else -1]:
            each.measure(turns.seconds)
        rates = ", ".join(f"{c.name} {c.runs[-1].packets_per_s:,.0f}" for c in contenders)
        say(f"turn {turn + 1} of {turns.repetitions}: packets/s {rates}")


def _check(each: Contender) -> None:
    """Every answer must be of a packet that was added up, and of nothing else."""
    runs = [*each.warm_up, *each.runs]
    answered, sent = sum(r.answered for r in runs), sum(r.sent for r in runs)
    strange = sum(r.strange for r in runs)
    aggregated = each.aggregated()
    if strange or (aggregated is not None and not answered <= aggregated <= sent):
        raise NotAggregated(
            f"{each.name}: {sent} packets were sent, {answered} answered, {strange} answers were "
            f"strange, {aggregated} were added up"
        )


@contextmanager
def _on_last_core() -> Iterator[None]:
    """Run this thread, the generator, on the last core, so that it does not move about.

    Only once the contenders run: they would inherit it.
    """
    prefer("self")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
