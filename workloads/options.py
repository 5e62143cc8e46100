"""Options of data sets, models and optimisers: `name=value` pairs checked against what is known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from workloads.errors import WorkloadError


def check_names(what: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise `WorkloadError` if `given` holds a name that is not among `allowed`."""
    known = sorted(allowed)
    unknown = sorted(set(given) - set(known))
    if unknown:
        takes = ", ".join(known) if known else "none"
        raise WorkloadError(f"{what}: unknown option {', '.join(unknown)}; known: {takes}")


def integer(what: str, value: float, low: int, high: int) -> int:
    """`value` as an int in `low`..`high`; anything else is a `WorkloadError`."""
    if not math.isfinite(value) or value != int(value) or not low <= value <= high:
        raise WorkloadError(f"{what} is {value}; allowed: an integer from {low} to {high}")
    return int(value)


def number(what: str, value: float, low: float, high: float) -> float:
    """`value` as a finite float in `low`..`high`; anything else is a `WorkloadError`."""
    if not math.isfinite(value) or not low <= value <= high:
        raise WorkloadError(f"{what} is {value}; allowed: a number from {low:g} to {high:g}")
    return float(value)


def parse(what: str, text: str) -> Mapping[str, float]:
    """Read `name=number,name=number`; an empty text holds no option."""
    options: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (text.strip() for text in item.partition("="))
        if name in options:
            raise WorkloadError(f"{what}: option {name} is given twice")
        try:
            options[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise WorkloadError(f"{what}: cannot read option '{item}'; write name=number")
    return options


def split(what: str, spec: str) -> tuple[str, Mapping[str, float]]:
    """Read `NAME` or `NAME:name=number,…`, a `what`: the name and its options."""
    name, _, rest = spec.partition(":")
    return name, parse(f"{what} {name}", rest)
