"""Action profiles of a P4Info, checked against the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from finsy.proto import p4i

from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.schema_types import ActionInfo
from softswitch.program import ActionProfile


@dataclass(frozen=True)
class ProfileInfo:
    """An action profile. `max_group_size` and `max_member_weight` are 0 where there is no limit.

    `size` and `max_group_size` count members when `sum_of_members`, else weights.
    """

    id: int
    name: str
    size: int
    with_selector: bool
    max_group_size: int
    sum_of_members: bool
    max_member_weight: int
    weights_disallowed: bool
    actions: dict[int, ActionInfo]

    def action_id(self, name: str) -> int:
        """Return the id of one of the actions by its name."""
        return next(action.id for action in self.actions.values() if action.name == name)


def profile_info(
    item: p4i.ActionProfile,
    programs: Mapping[str, ActionProfile],
    actions: Mapping[int, ActionInfo],
) -> ProfileInfo:
    """Return the profile after checking that the program has it; raises P4RuntimeError."""
    name = item.preamble.name
    real = programs.get(name)
    if real is None:
        raise invalid(f"P4Info has action profile {name!r}, which the program does not have")
    if item.with_selector != (real.selector is not None):
        raise invalid(f"action profile {name!r} has a selector only in P4Info or in the program")
    if item.size < 0 or item.max_group_size < 0 or item.sum_of_members.max_member_weight < 0:
        raise invalid(f"action profile {name!r} has a negative size in P4Info")
    return ProfileInfo(
        id=item.preamble.id,
        name=name,
        size=item.size,
        with_selector=item.with_selector,
        max_group_size=item.max_group_size,
        sum_of_members=item.HasField("sum_of_members"),
        max_member_weight=item.sum_of_members.max_member_weight,
        weights_disallowed=item.weights_disallowed,
        actions={a.id: a for a in actions.values() if a.name in real.actions},
    )
