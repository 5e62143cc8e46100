"""A run's time per round, predicted beside measured, and predicted for other links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from host_stack.jsonfile import read_json_object
from mininet_topos import formats
from mininet_topos.run_record import ModeRecord, RunRecord, parse_run
from planner.errors import PlanError
from planner.round_model import (
    LinkRates,
    RoundProfile,
    RoundTime,
    measured_s,
    predict,
    predict_mode,
    unpredictable,
)

CLOSE = 0.15
"""Share of the measurement within which a prediction is called close; a share of a round that
processes waited for processors is called the bottleneck from there on."""


@dataclass(frozen=True)
class ModePrediction:
    """A mode of a run.

    Attributes:
        name: of the mode.
        mode: its record.
        profile: bytes and processor time of its rounds.
        here: predicted on the links of the run.
        elsewhere: predicted on links of other rates.
    """

    name: str
    mode: ModeRecord
    profile: RoundProfile
    here: RoundTime
    elsewhere: Sequence[RoundTime]

    @property
    def measured_s(self) -> float:
        """Median seconds from commit to commit."""
        return measured_s(self.mode)

    @property
    def waiting(self) -> float:
        """The share of the predicted round by which waiting for processors makes it longer."""
        return 1 - self.here.free_s / self.here.round_s

    @property
    def processors(self) -> dict[str, float] | None:
        """How many there were, and how busy: in all, and with the run; None if not counted."""
        found = self.mode.processors
        if found is None or found.busy_s is None or not found.watched_s:
            return None
        time_s = found.count * found.watched_s
        own_s = sum(busy_s for busy_s, _ in found.used_s.values())
        return {
            "count": found.count,
            "busy_share": found.busy_s / time_s,
            "own_share": own_s / time_s,
        }

    def is_at_most(self, elsewhere: RoundTime) -> bool:
        """Whether the prediction is a bound from above: some link is faster than in the run.

        What processes do while they wait for links (ask again, wake up) was counted as work.
        """
        here, there = self.here.rates, elsewhere.rates
        return there.server_bps > here.server_bps or there.worker_bps > here.worker_bps

    @property
    def error(self) -> float:
        """Of the prediction, as a share of the measurement; negative if it is too short."""
        return self.here.round_s / self.measured_s - 1


def load_run(path: Path) -> RunRecord:
    """Read a run's folder or its run.json.

    Raises `BadInput` for anything else, which says what is wrong.
    """
    return parse_run(
        read_json_object(path / "run.json" if path.is_dir() else path, "record of a run")
    )


def predict_run(record: RunRecord, rates_bps: Sequence[float] = ()) -> list[ModePrediction]:
    """Predict every mode, on the links of the run and on those of other rates.

    Raises `PlanError` if rounds of this kind are not modelled, or if the run lacks the rates or
    the bytes of its links.
    """
    if (reason := unpredictable(record)) is not None:
        raise PlanError(reason)
    return [
        _predict_mode(record, name, record.modes[name], rates_bps)
        for name in formats.mode_order(list(record.modes))
    ]


def _predict_mode(
    record: RunRecord, name: str, mode: ModeRecord, rates_bps: Sequence[float]
) -> ModePrediction:
    profile, here = predict_mode(record, mode)
    for what, seconds in (("measured", measured_s(mode)), ("predicted", here.round_s)):
        if not (math.isfinite(seconds) and seconds > 0):
            raise PlanError(f"rounds of {name} are {what} to take {seconds:g} s: no such run")
    others = [predict(profile, LinkRates.all(rate)) for rate in rates_bps]
    return ModePrediction(name, mode, profile, here, others)


def as_fields(predictions: Sequence[ModePrediction]) -> dict[str, Any]:
    """All figures for JSON; fields are documented in docs/plan.md."""
    return {
        "modes": {
            each.name: {
                "measured_s": each.measured_s,
                "round_s_median": each.mode.round_s_median,
                **each.here.as_fields(),
                "error": each.error,
                "bytes": asdict(each.profile.traffic),
                "first_share": each.profile.first_share,
                "work_s": {
                    who: {phase: asdict(work) for phase, work in works.items()}
                    for who, works in (
                        ("worker", each.profile.worker),
                        ("server", each.profile.server),
                    )
                },
                "processors": each.processors,
                "other_links": [
                    {**other.as_fields(), "at_most": each.is_at_most(other)}
                    for other in each.elsewhere
                ],
            }
            for each in predictions
        },
        "speedup": _speedup(predictions),
    }


def _speedup(predictions: Sequence[ModePrediction]) -> dict[str, Any] | None:
    """Of Libra over server-only, predicted and measured, at the run's links and at others."""
    by_name = {each.name: each for each in predictions}
    if not {"libra", "server-only"} <= by_name.keys():
        return None
    libra, base = by_name["libra"], by_name["server-only"]
    return {
        "predicted": base.here.round_s / libra.here.round_s,
        "measured": base.measured_s / libra.measured_s,
        "other_links": [
            {
                "link_mbps": slow.rates.server_bps / 1e6,
                "predicted": None if libra.is_at_most(fast) else slow.round_s / fast.round_s,
            }
            for slow, fast in zip(base.elsewhere, libra.elsewhere, strict=True)
        ],
    }


def in_words(each: ModePrediction) -> str:
    """What a prediction says of a mode's bottleneck, in sentences."""
    here = each.here
    parts = {name: part for name, part in here.parts_s.items() if part > 0}
    longest = max(parts, key=parts.__getitem__)
    head = f"{formats.mode_label(each.name)}: "
    if each.waiting > CLOSE:
        head += "processors are the bottleneck; "
    said = [
        f"{head}links take {here.links_s / here.round_s:.0%} of a round, the longest part is "
        f"{longest} ({formats.seconds(parts[longest])})"
    ]
    if each.waiting >= _WORTH_SAYING:
        most = max(here.waits_s, key=here.waits_s.__getitem__)
        said.append(
            f"processes wait for a processor for {each.waiting:.0%} of it, most in {most} "
            f"({formats.seconds(here.waits_s[most])}): with one for each a round takes "
            f"{formats.seconds(here.free_s)}"
        )
    if each.mode.faults:
        what = ", ".join(dict.fromkeys(f"{one.action} {one.target}" for one in each.mode.faults))
        said.append(f"it had faults ({what}): what they cost is not predicted")
    elif each.error < -CLOSE:
        said.append(
            "it takes longer than links and the work of processes explain: time-outs after losses, "
            "or processes that wait for each other while they wait for a processor"
        )
    elif each.error > CLOSE:
        said.append(
            "it takes less than its parts add up to: bursts pass faster than the rate of links, or "
            "work waited for processors in several places at once"
        )
    if (used := each.processors) is not None:
        said.append(
            f"{used['count']} processors were busy {used['busy_share']:.0%} of the time, "
            f"{used['own_share']:.0%} with this run"
        )
    return ". ".join(text[0].upper() + text[1:] for text in said) + "."


_WORTH_SAYING = 0.02
