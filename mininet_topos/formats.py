"""Numbers as a reader wants them: units, SI prefixes, no more digits than mean something."""

from __future__ import annotations

import re

_MODE_LABELS = {"libra": "Libra", "server-only": "Server only", "fallback": "Fall-back"}
_METRIC_LABELS = {"rmse": "RMSE", "auc": "AUC", "log_loss": "log-loss (nats)"}


def seconds(value_s: float) -> str:
    """Return a duration in s, ms or µs."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value_s >= size or unit == "µs":
            return f"{_three_digits(value_s / size)} {unit}"
    raise AssertionError("unreachable")


def si(value: float, unit: str) -> str:
    """Return a quantity with a decimal prefix: 1,234,567 of B is 1.23 MB."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{_three_digits(value / size)} {prefix}{unit}".rstrip()
    return f"{_three_digits(value)} {unit}".rstrip()


def count(value: int) -> str:
    """Return an integer with its thousands set apart."""
    return f"{value:,}"


def percent(share: float) -> str:
    """Return a share of 1 in per cent."""
    return f"{100 * share:.3g}\u00a0%"


def mode_label(name: str) -> str:
    """Return what a mode is called in text."""
    return _MODE_LABELS.get(name, name)


def metric_label(name: str) -> str:
    """Return what a metric is called in text, with its unit."""
    return _METRIC_LABELS.get(name, name)


def mode_order(names: list[str]) -> list[str]:
    """Sort modes: those that are known in their usual order, then the others by name."""
    known = list(_MODE_LABELS)
    return sorted(names, key=lambda n: (known.index(n) if n in known else len(known), n))


def link_order(names: list[str]) -> list[str]:
    """Sort links: those of servers first, then by name, with numbers in names as numbers."""

    def key(name: str) -> tuple[bool, list[tuple[int, str]]]:
        parts = re.findall(r"(\d+)|(\D+)", name)
        return not name.startswith("server"), [(int(digits or 0), text) for digits, text in parts]

    return sorted(names, key=key)


def _three_digits(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
