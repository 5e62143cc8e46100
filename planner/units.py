"""Quantities as people write them on a command line."""

from __future__ import annotations

import math
import re

from planner.errors import PlanError

_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_RATE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([kMGT]?)(?:bit/s|bps|b)?\s*")
MIN_RATE_BPS, MAX_RATE_BPS = 1e3, 1e14


def parse_rate_bps(text: str) -> float:
    """Read a link rate, for example 10G, 2.5Gbit/s or 400M: bits a second, prefixes decimal.

    Raises `PlanError` for anything else, and outside of 1 kbit/s to 100 Tbit/s.
    """
    match = _RATE.fullmatch(text)
    value = float(match[1]) * _FACTORS[match[2]] if match else math.nan
    if not is_rate_bps(value):
        raise PlanError(
            f"rate {text!r}: allowed are numbers with a prefix, such as 100M or 10G, from 1k to "
            "100T (bit/s)"
        )
    return value


def is_rate_bps(value: float) -> bool:
    """Whether a link may have this rate."""
    return MIN_RATE_BPS <= value <= MAX_RATE_BPS


def rate_text(rate_bps: float) -> str:
    """A link rate for people: 10 Gbit/s."""
    for prefix in ("T", "G", "M", "k"):
        if rate_bps >= _FACTORS[prefix]:
            return f"{rate_bps / _FACTORS[prefix]:.4g} {prefix}bit/s"
    return f"{rate_bps:.4g} bit/s"


def at_least(value: float, digits: int) -> float:
    """The least number of so many digits that is no less than `value`, which is above 0."""
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return math.ceil(value / step) * step


def milliseconds(value_s: float) -> str:
    """A duration for people, in ms whatever its size, so that durations compare at a glance."""
    return f"{value_s * 1e3:,.1f} ms"


def above_0(name: str, value: float) -> float:
    """`value`, which must be finite and above 0; `PlanError` names it otherwise."""
    if not (math.isfinite(value) and value > 0):
        raise PlanError(f"{name} is {value:g}; need a number above 0")
    return value
