"""Actions with their parameters, checked and in the form that the compiled switch takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from softswitch.binding import words
from softswitch.errors import InvalidArgument
from softswitch.program import Program


def action_words(
    owner: str, allowed: Mapping[str, int], program: Program, action: str, params: Sequence[int]
) -> list[int]:
    """Return the parameters of an action of `owner` (a table or profile), as 64-bit words.

    Raises InvalidArgument when the action is not among `allowed`, or a parameter does not fit.
    """
    if action not in allowed:
        names = ", ".join(sorted(allowed)) or "none"
        raise InvalidArgument(f"{owner} does not allow action {action!r} (allowed: {names})")
    declared = program.actions[allowed[action]].params
    if len(params) != len(declared):
        raise InvalidArgument(
            f"action {action!r} takes {len(declared)} parameters, {len(params)} were given"
        )
    for value, param in zip(params, declared, strict=True):
        if not 0 <= value < 1 << param.width:
            raise InvalidArgument(
                f"action {action!r}, parameter {param.name!r}: {value:#x} does not fit "
                f"{param.width} bits"
            )
    return words(params, [p.width for p in declared])
