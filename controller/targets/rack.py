"""Switches that serve one job together: what they must agree on."""

from __future__ import annotations

from collections.abc import Mapping

from controller.targets.base import Program, Target
from host_stack.errors import BadInput
from host_stack.layout import Layout
from host_stack.wire import DrainFormat


def common_layout(programs: Mapping[str, Program]) -> Layout:
    """The layout of all switches of a job, which is in every packet that they see.

    `programs` is by name of the switch. Raises `LayoutMismatch`, naming two switches and their
    values, for a mixed rack; `BadInput` without any switch.
    """
    if not programs:
        raise BadInput("a job needs a switch; none is given")
    (first, program), *others = programs.items()
    for name, other in others:
        program.layout.require(
            other.layout,
            f"switch {name} ({other.name}), and one job cannot use both it and switch {first} "
            f"({program.name}): run programs with the same layout on all switches of a job",
            here=f"at switch {first}",
        )
    return program.layout


def common_format(targets: Mapping[str, Target]) -> DrainFormat:
    """In which format the rows of a job can be drained: float32 only if every switch rounds."""
    if all(DrainFormat.FLOAT32 in target.capabilities.formats for target in targets.values()):
        return DrainFormat.FLOAT32
    return DrainFormat.DIGITS
