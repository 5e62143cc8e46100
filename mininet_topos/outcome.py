"""What a run came to across its modes: faults and recoveries, the audit, one model or several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mininet_topos import formats


def outcome(modes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of run.json for what a run came to (docs/run-json.md)."""
    audits = [mode["audit"] for mode in modes.values() if mode["audit"] is not None]
    faults, missed = (
        [{"mode": name, **fault} for name, mode in modes.items() for fault in mode[field]]
        for field in ("faults", "faults_missed")
    )
    return {
        "model_sha256": _common(mode["model_sha256"] for mode in modes.values()),
        "faults": faults,
        "faults_missed": missed,
        "audit": {
            "conserved": all(each["conserved"] for each in audits),
            "pushed_sha256": _common(each["pushed_sha256"] for each in audits),
        }
        if audits
        else None,
    }


def _common(hashes: Iterable[str]) -> str | None:
    """The hash that all have; None if they differ."""
    found = set(hashes)
    return found.pop() if len(found) == 1 else None


def fault_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """What a person is told of the faults of a run."""
    for fault in run["faults"]:
        recovery_s = fault["recovery_s"]
        yield _what(fault) + (
            ", not recovered when the training ended"
            if recovery_s is None
            else f", recovered after {formats.seconds(recovery_s)}"
        )
    for fault in run["faults_missed"]:
        yield f"warning: {_what(fault)} did not happen: the training ended before"


def _what(fault: Mapping[str, Any]) -> str:
    phase = f" ({fault['phase']})" if fault["phase"] else ""
    return f"{fault['mode']}: {fault['action']} {fault['target']} in round {fault['round']}{phase}"


def audit_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """What a person is told of the audit of a run."""
    for name, mode in run["modes"].items():
        audit = mode["audit"]
        if audit is None:
            continue
        verdict = "conserved" if audit["conserved"] else "NOT CONSERVED"
        yield (
            f"{name}: {verdict}: {formats.count(audit['gradients'])} gradients in "
            f"{formats.count(audit['steps'])} pushes, {formats.count(audit['commits'])} commits; "
            f"{formats.count(audit['discarded'])} pushes were discarded and made again"
        )
        yield from (f"  {problem}" for problem in audit["problems"])


def scale_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """What a person is told of a scale that does not fit the gradients of a run."""
    for name, mode in run["modes"].items():
        scale = mode["scale"]
        if scale is not None and scale["better_fraction_bits"] is not None:
            yield f"{name}: {scale['advice']}"
