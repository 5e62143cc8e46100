"""A run's time per round, predicted beside measured, and predicted for other links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from host_stack.jsonfile import read_json_object
from mininet_topos import formats
from mininet_topos.run_record import ModeRecord, RunRecord, parse_run
from planner.errors import PlanError
from planner.round_model import RoundProfile, RoundTime, measured_s, predict, predict_mode

CLOSE = 0.15
"""Share of the measurement within which a prediction is called close."""


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

    Raises `PlanError` if the run is none of synchronous rounds, or lacks the rate or the bytes of
    its links.
    """
    setup = record.setup
    if setup.consistency != "bsp":
        raise PlanError(
            f"workers of this run were kept in step by {setup.consistency}: only rounds that end "
            "with a barrier (bsp) can be predicted"
        )
    if not setup.link_mbps:
        raise PlanError("this run does not say the rate of its links")
    return [
        _predict_mode(record, name, record.modes[name], rates_bps)
        for name in formats.mode_order(list(record.modes))
    ]


def _predict_mode(
    record: RunRecord, name: str, mode: ModeRecord, rates_bps: Sequence[float]
) -> ModePrediction:
    profile, here = predict_mode(record, mode)
    others = [predict(profile, rate) for rate in rates_bps]
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
                "other_links": [other.as_fields() for other in each.elsewhere],
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
            {"link_mbps": slow.rate_bps / 1e6, "predicted": slow.round_s / fast.round_s}
            for slow, fast in zip(base.elsewhere, libra.elsewhere, strict=True)
        ],
    }


def in_words(each: ModePrediction) -> str:
    """What a prediction says of a mode's bottleneck, in a sentence."""
    parts = {name: part for name, part in each.here.parts_s.items() if part > 0}
    longest = max(parts, key=parts.__getitem__)
    label = formats.mode_label(each.name)
    links_s = sum(part for name, part in each.here.parts_s.items() if name not in _PROCESSOR)
    if each.error < -CLOSE:
        return (
            f"{label}: rounds take longer than links and known computation explain; processors, "
            "or time-outs after losses, are the bottleneck"
        )
    return (
        f"{label}: links take {links_s / each.here.round_s:.0%} of a round, the longest part is "
        f"{longest} ({formats.seconds(parts[longest])})"
    )


_PROCESSOR = ("compute", "apply")
