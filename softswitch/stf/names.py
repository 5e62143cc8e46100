"""Names and values of STF statements, resolved against a program.

A table, action or counter may be named by the end of its name, as long as that fits one alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from softswitch.program import Action, KeyField, MatchKey, MatchType, Program, Table
from softswitch.stf.grammar import ActionCall, MatchField, StfError, to_int

T = TypeVar("T")
_DIGIT_BITS = {"x": 4, "o": 3, "b": 1}


def find(kind: str, name: str, known: Mapping[str, T]) -> T:
    """Return the object with this name, or the only one whose name ends with it."""
    if name in known:
        return known[name]
    # Whole parts first: "t" means "ingress.t" though "ingress.dst" ends with it too.
    for ending in (f".{name}", name):
        found = [full for full in known if full.endswith(ending)]
        if len(found) == 1:
            return known[found[0]]
        if found:
            raise StfError(f"{kind} {name!r} may be any of {', '.join(sorted(found))}")
    raise StfError(f"the program has no {kind} {name!r}{_list(known)}")


def _list(names: Iterable[str]) -> str:
    known = sorted(names)[:20]
    return f" (it has {', '.join(known)})" if known else ""


def action_of(program: Program, table: Table, call: ActionCall) -> tuple[str, tuple[int, ...]]:
    """Return the full name and the parameters of an action of a table."""
    action: Action = program.actions[find("action", call.name, table.actions)]
    values = dict(call.args)
    wanted = [p.name for p in action.params]
    if sorted(values) != sorted(wanted) or len(values) != len(call.args):
        raise StfError(f"action {action.name!r} takes the parameters {wanted}")
    params: list[int] = []
    for param in action.params:
        value = to_int(values[param.name], 0)
        if value >= 1 << param.width:
            raise StfError(
                f"action {action.name!r}, parameter {param.name!r}: {values[param.name]} "
                f"does not fit {param.width} bits"
            )
        params.append(value)
    return action.name, tuple(params)


def key_of(table: Table, fields: tuple[MatchField, ...]) -> tuple[MatchKey, ...]:
    """Return the key of an entry; fields that it does not name match everything, or zero."""
    given: dict[int, MatchField] = {}
    for field in fields:
        index = _key_index(table, field.name)
        if index in given:
            raise StfError(f"key field {field.name!r} is given twice")
        given[index] = field
    return tuple(
        _match(key, given[i]) if i in given else _wildcard(key) for i, key in enumerate(table.keys)
    )


def _key_index(table: Table, name: str) -> int:
    # P4 identifiers have no brackets: some tests write stack$0 for stack[0].
    name = re.sub(r"\$([0-9]+)", r"[\1]", name)
    names = [key.name for key in table.keys]
    candidates = [name, f"{name}$", f"{name}.$valid$"]
    if name.endswith("valid"):
        candidates.append(f"{name[:-5]}$valid$")
    for candidate in candidates:
        if candidate in names:
            return names.index(candidate)
    found = [i for i, full in enumerate(names) if _ends(full, name)]
    if len(found) != 1:
        raise StfError(f"table {table.name!r} has no key field {name!r}{_list(names)}")
    return found[0]


def _ends(full: str, name: str) -> bool:
    if name == "valid":
        return full.endswith("$valid$")
    return full.endswith((f".{name}", f".{name}$"))


def _wildcard(key: KeyField) -> MatchKey:
    if key.match_type is MatchType.RANGE:
        return MatchKey(0, high=(1 << key.width) - 1)
    return MatchKey(0)


def _match(  # noqa: PLR0911 - one case per match type
    key: KeyField, field: MatchField
) -> MatchKey:
    full = (1 << key.width) - 1
    match key.match_type, field.joint:
        case MatchType.EXACT, "":
            return MatchKey(_number(key, field.value))
        case MatchType.LPM, "":
            value, _, length = _digits(key, field.value)
            return MatchKey(value, prefix_len=min(length, key.width))
        case MatchType.LPM, "/":
            length = to_int(field.second, 0)
            return MatchKey(_number(key, field.value), prefix_len=length)
        case MatchType.TERNARY | MatchType.OPTIONAL, "":
            value, mask, _ = _digits(key, field.value)
            if key.match_type is MatchType.OPTIONAL:
                mask = full if mask else 0
            return MatchKey(value & mask & full, mask=mask & full)
        case MatchType.TERNARY | MatchType.OPTIONAL, "&&&":
            mask = _number(key, field.second)
            return MatchKey(_number(key, field.value) & mask, mask=mask)
        case MatchType.RANGE, "":
            value, mask, _ = _digits(key, field.value)
            low, high = (value, value) if mask else (0, full)
            return MatchKey(low, high=high)
        case MatchType.RANGE, "..":
            return MatchKey(_number(key, field.value), high=_number(key, field.second))
    raise StfError(f"key field {key.name!r} is matched as {key.match_type}: {field} does not fit")


def _number(key: KeyField, text: str) -> int:
    value = to_int(text, 0)
    if value >= 1 << key.width:
        raise StfError(f"key field {key.name!r}: {text} does not fit {key.width} bits")
    return value


def _digits(key: KeyField, text: str) -> tuple[int, int, int]:
    """Return value, mask and prefix length of a number with don't-care digits (*).

    The mask covers the digits that are written; a decimal number is matched whole.
    """
    if text == "*":
        return 0, 0, 0
    bits = _DIGIT_BITS.get(text[1:2].lower())
    if bits is None:
        return _number(key, text), (1 << key.width) - 1, key.width
    value = mask = 0
    for digit in text[2:]:
        value = value << bits | (0 if digit == "*" else int(digit, 16))
        mask = mask << bits | (0 if digit == "*" else (1 << bits) - 1)
    if value >= 1 << key.width:
        raise StfError(f"key field {key.name!r}: {text} does not fit {key.width} bits")
    return value, mask, bits * (len(text) - 2 - text.count("*"))
