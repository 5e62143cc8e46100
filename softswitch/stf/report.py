"""Results as a table for people and as JSON for programs."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from rich.table import Table
from rich.text import Text

from softswitch.compiler import find_compiler
from softswitch.stf.programs import P4Compiler
from softswitch.stf.runner import Outcome, Result

_STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "bold red",
    Outcome.REFUSED: "yellow",
    Outcome.SKIPPED: "dim",
}
_SHOWN_REASONS = 3


def table(results: Sequence[Result], *, with_passed: bool) -> Table:
    """Return the table of results; tests that passed are only counted unless asked for."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("test", overflow="fold")
    shown.add_column("result")
    shown.add_column("reason", overflow="fold")
    for result in sorted(results, key=lambda r: r.name):
        if result.outcome is Outcome.PASSED and not with_passed:
            continue
        reasons = list(result.reasons[:_SHOWN_REASONS])
        if len(result.reasons) > _SHOWN_REASONS:
            reasons.append(f"… and {len(result.reasons) - _SHOWN_REASONS} more")
        shown.add_row(
            Text(result.name),
            Text(str(result.outcome), style=_STYLES[result.outcome]),
            Text("\n".join(reasons)),
        )
    return shown


def summary(results: Sequence[Result]) -> str:
    """Return one line with the number of tests of each outcome."""
    return ", ".join(f"{_count(results, outcome)} {outcome}" for outcome in Outcome)


def _count(results: Sequence[Result], outcome: Outcome) -> int:
    return sum(r.outcome is outcome for r in results)


def as_json(results: Sequence[Result], folder: str, compiler: P4Compiler) -> dict[str, Any]:
    """Return the results and the conditions as JSON data, the same for the same results."""
    ordered = sorted(results, key=lambda r: r.name)

    def with_reasons(outcome: Outcome) -> list[dict[str, Any]]:
        return [
            {"test": r.name, "reasons": list(r.reasons)} for r in ordered if r.outcome is outcome
        ]

    return {
        "schema": 1,
        "passed": [r.name for r in ordered if r.outcome is Outcome.PASSED],
        "failed": with_reasons(Outcome.FAILED),
        "refused": with_reasons(Outcome.REFUSED),
        "skipped": with_reasons(Outcome.SKIPPED),
        "conditions": {
            "folder": folder,
            "softswitch": version("libra-ina"),
            "p4c": compiler.version(),
            "cc": find_compiler().version.splitlines()[0],
            "python": platform.python_version(),
        },
    }
