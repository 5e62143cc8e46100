"""Keys and actions between P4Runtime messages and the data plane.

The rules are those of the specification's sections "Match Format" and "Action Specification":
don't-care fields are omitted, masked and trailing bits are zero, every parameter is given once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from finsy.proto import p4r

from softswitch.p4runtime.errors import denied, invalid
from softswitch.p4runtime.schema_types import ActionInfo, FieldInfo, KeyInfo, TableInfo
from softswitch.program import MatchKey, MatchType

Key = tuple[MatchKey, ...]


def key_from_wire(owner: KeyInfo, matches: Iterable[p4r.FieldMatch]) -> Key:
    """Return the data plane's key of `matches`; raises P4RuntimeError."""
    key = list(owner.template)
    given = set()
    for match in matches:
        info = owner.fields_by_id.get(match.field_id)
        if info is None:
            raise invalid(
                f"{owner.label}: no key field has id {match.field_id}; {named(owner.fields)}"
            )
        if match.field_id in given:
            raise invalid(f"{owner.label}: key field {info.name} is given twice")
        given.add(match.field_id)
        key[info.position] = _match(owner, info, match)
    if None in key:
        absent = [item.name for item in owner.fields_by_position if key[item.position] is None]
        raise invalid(f"{owner.label}: exact key fields must be given: {', '.join(absent)}")
    return tuple(item for item in key if item is not None)


def key_to_wire(owner: KeyInfo, key: Key) -> list[p4r.FieldMatch]:
    """Return the canonical matches of a key: shortest byte strings, don't-care fields omitted."""
    matches = []
    for info in owner.fields:
        match = _FIELD_TO_WIRE[info.match_type](info, key[info.position])
        if match is not None:
            matches.append(match)
    return matches


def check_priority(table: TableInfo, priority: int) -> None:
    """Raise unless `priority` is what the table's match kinds demand."""
    if table.uses_priority and priority <= 0:
        raise invalid(
            f"{table.label}: priority is {priority}; a table with ternary, range or optional "
            "fields needs a priority of 1 or more"
        )
    if not table.uses_priority and priority:
        raise invalid(
            f"{table.label}: priority is {priority}; it must be 0 in a table without "
            "ternary, range and optional fields"
        )


def action_from_wire(
    table: TableInfo, message: p4r.TableAction, *, default: bool
) -> tuple[str, tuple[int, ...]]:
    """Return (name, parameter values) of an action for an entry, or for the default entry."""
    kind = message.WhichOneof("type")
    if kind != "action":
        raise invalid(
            f"table {table.name}: the action is given as {kind or 'nothing'}; this table takes "
            "an action with its parameters"
        )
    ref = table.actions.get(message.action.action_id)
    if ref is None:
        raise invalid(
            f"table {table.name}: no action has id {message.action.action_id:#010x}; "
            f"{named(ref.action for ref in table.actions.values())}"
        )
    if not (ref.as_default if default else ref.in_entries):
        where = "as default action" if default else "in entries"
        raise denied(f"table {table.name}: action {ref.action.name} is not allowed {where}")
    return ref.action.name, params_from_wire(ref.action, message.action.params)


def action_to_wire(action: ActionInfo, params: Iterable[int]) -> p4r.TableAction:
    """Return the message of an action with its parameter values."""
    return p4r.TableAction(
        action=p4r.Action(
            action_id=action.id,
            params=[
                p4r.Action.Param(param_id=param.id, value=param.wire.write(value))
                for param, value in zip(action.params, params, strict=True)
            ],
        )
    )


def params_from_wire(action: ActionInfo, params: Any) -> tuple[int, ...]:
    """Return the parameter values of an action in the data plane's order."""
    slots = action.slots
    given: list[int | None] = [None] * len(slots)
    for item in params:
        slot = slots.get(item.param_id)
        if slot is None:
            raise invalid(
                f"action {action.name}: no parameter has id {item.param_id}; {named(action.params)}"
            )
        position, param = slot
        if given[position] is not None:
            raise invalid(f"action {action.name}: parameter {param.name} is given twice")
        given[position] = param.wire.read(item.value, param.name)
    if None in given:
        absent = [
            param.name for param, value in zip(action.params, given, strict=True) if value is None
        ]
        raise invalid(f"action {action.name}: parameters must be given: {', '.join(absent)}")
    return tuple(value for value in given if value is not None)


def _match(owner: KeyInfo, info: FieldInfo, match: p4r.FieldMatch) -> MatchKey:
    kind = match.WhichOneof("field_match_type")
    if kind != info.match_type:
        raise invalid(
            f"{owner.label}: key field {info.name} is given as {kind or 'nothing'}; it is "
            f"{info.match_type}"
        )
    return _FIELD_FROM_WIRE[info.match_type](info, getattr(match, kind))


def _exact_from_wire(info: FieldInfo, match: Any) -> MatchKey:
    return MatchKey(info.wire.read(match.value, info.name))


def _lpm_from_wire(info: FieldInfo, match: Any) -> MatchKey:
    value = info.wire.read(match.value, info.name)
    length = match.prefix_len - info.wire.more_bits
    if not 1 <= length <= info.width:
        raise invalid(
            f"{info.name}: prefix length {match.prefix_len} is not in {1 + info.wire.more_bits} to "
            f"{info.width + info.wire.more_bits}; omit the field to "
            "match everything"
        )
    if value & ((1 << (info.width - length)) - 1):
        raise invalid(f"{info.name}: {value:#x} has bits set beyond its prefix length {length}")
    return MatchKey(value, prefix_len=length)


def _ternary_from_wire(info: FieldInfo, match: Any) -> MatchKey:
    value = info.wire.read(match.value, info.name)
    mask = info.wire.read_mask(match.mask, f"mask of {info.name}")
    if not mask:
        raise invalid(f"{info.name}: the mask is zero; omit the field to match everything")
    if value & ~mask:
        raise invalid(f"{info.name}: {value:#x} has bits set outside its mask {mask:#x}")
    return MatchKey(value, mask=mask)


def _range_from_wire(info: FieldInfo, match: Any) -> MatchKey:
    low = info.wire.read(match.low, f"low end of {info.name}")
    high = info.wire.read(match.high, f"high end of {info.name}")
    if low > high:
        raise invalid(f"{info.name}: the low end {low:#x} is above the high end {high:#x}")
    if low == 0 and high == (1 << info.width) - 1:
        raise invalid(f"{info.name}: the range holds every value; omit the field instead")
    return MatchKey(low, high=high)


def _optional_from_wire(info: FieldInfo, match: Any) -> MatchKey:
    value = info.wire.read(match.value, info.name)
    return MatchKey(value, mask=(1 << info.width) - 1)


def _exact_to_wire(info: FieldInfo, key: MatchKey) -> p4r.FieldMatch | None:
    exact = p4r.FieldMatch.Exact(value=info.wire.write(key.value))
    return p4r.FieldMatch(field_id=info.id, exact=exact)


def _lpm_to_wire(info: FieldInfo, key: MatchKey) -> p4r.FieldMatch | None:
    if not key.prefix_len:
        return None
    lpm = p4r.FieldMatch.LPM(
        value=info.wire.write(key.value), prefix_len=key.prefix_len + info.wire.more_bits
    )
    return p4r.FieldMatch(field_id=info.id, lpm=lpm)


def _ternary_to_wire(info: FieldInfo, key: MatchKey) -> p4r.FieldMatch | None:
    if not key.mask:
        return None
    ternary = p4r.FieldMatch.Ternary(
        value=info.wire.write(key.value & key.mask), mask=info.wire.write_mask(key.mask)
    )
    return p4r.FieldMatch(field_id=info.id, ternary=ternary)


def _range_to_wire(info: FieldInfo, key: MatchKey) -> p4r.FieldMatch | None:
    if key == info.dont_care:
        return None
    ends = p4r.FieldMatch.Range(low=info.wire.write(key.value), high=info.wire.write(key.high))
    return p4r.FieldMatch(field_id=info.id, range=ends)


def _optional_to_wire(info: FieldInfo, key: MatchKey) -> p4r.FieldMatch | None:
    if not key.mask:
        return None
    optional = p4r.FieldMatch.Optional(value=info.wire.write(key.value))
    return p4r.FieldMatch(field_id=info.id, optional=optional)


_FIELD_FROM_WIRE = {
    MatchType.EXACT: _exact_from_wire,
    MatchType.LPM: _lpm_from_wire,
    MatchType.TERNARY: _ternary_from_wire,
    MatchType.RANGE: _range_from_wire,
    MatchType.OPTIONAL: _optional_from_wire,
}

_FIELD_TO_WIRE = {
    MatchType.EXACT: _exact_to_wire,
    MatchType.LPM: _lpm_to_wire,
    MatchType.TERNARY: _ternary_to_wire,
    MatchType.RANGE: _range_to_wire,
    MatchType.OPTIONAL: _optional_to_wire,
}


def named(items: Iterable[Any]) -> str:
    """Return what is allowed, for messages."""
    return "allowed: " + (", ".join(f"{item.name} ({item.id})" for item in items) or "none")
