"""Switches of a rack: what they must agree on."""

from __future__ import annotations

from collections.abc import Mapping

from controller.targets.base import Program


def check_racks(racks: Mapping[str, str], programs: Mapping[str, Program]) -> None:
    """Raise `LayoutMismatch`, naming two switches and their values, for a mixed rack.

    Args:
        racks: rack of each switch; switches without one (`""`) stand for themselves.
        programs: what each switch runs.
    """
    first: dict[str, str] = {}
    for name, rack in racks.items():
        other = first.setdefault(rack, name) if rack else name
        programs[other].layout.require(
            programs[name].layout,
            f"{name} of rack {rack}: run programs with the same layout on all switches of a rack",
            here=f"at {other}",
        )
