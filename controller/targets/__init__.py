"""Targets: what differs between the switches that the same controller code drives."""

from __future__ import annotations

from controller.targets.base import Capabilities, Program, Target
from controller.targets.tofino import P4RT, P4RT2, STRATUM, STRATUM2
from controller.targets.v1model import BMV2, SOFT
from host_stack.errors import BadInput

__all__ = ["EMULATED", "TARGETS", "Capabilities", "Program", "Target", "find_target"]

TARGETS: dict[str, Target] = {
    target.name: target for target in (SOFT, BMV2, STRATUM, P4RT, STRATUM2, P4RT2)
}

EMULATED = {name: target for name, target in TARGETS.items() if target.capabilities.emulated}
"""Those that `libra run` can start."""


def find_target(name: str) -> Target:
    """The target called `name`; `BadInput` lists those that exist."""
    try:
        return TARGETS[name]
    except KeyError:
        raise BadInput(f"unknown target {name!r}; known are {', '.join(TARGETS)}") from None
