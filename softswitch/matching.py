"""Table keys from the control plane: validation and the form that the lookup takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from softswitch.codegen.keys import KeyLayout
from softswitch.errors import InvalidArgument, ResourceExhausted
from softswitch.program import KeyField, MatchKey, MatchType, Table

MAX_PRIORITY = 2**31 - 1
MAX_EXPANSIONS = 4096
"""Most (value, mask) pairs that the ranges of one entry may need."""


@dataclass(frozen=True)
class CompiledMatch:
    """Words for the C side (see runtime/tables.h); `direct` is the key of a direct table."""

    words: tuple[int, ...]
    expansions: int
    prefix_len: int
    direct: int | None


def normalize(table: Table, key: Sequence[MatchKey]) -> tuple[MatchKey, ...]:
    """Check a key against a table and clear what does not take part in the match."""
    if len(key) != len(table.keys):
        raise InvalidArgument(
            f"table {table.name!r} has {len(table.keys)} key fields, {len(key)} were given"
        )
    return tuple(
        _normalize_field(table, field, match) for field, match in zip(table.keys, key, strict=True)
    )


def check_priority(table: Table, priority: int) -> None:
    """Check the priority of an entry."""
    if table.uses_priority:
        if not 1 <= priority <= MAX_PRIORITY:
            raise InvalidArgument(
                f"table {table.name!r} needs a priority from 1 to {MAX_PRIORITY}, not {priority}"
            )
    elif priority != 0:
        raise InvalidArgument(
            f"table {table.name!r} takes no priority ({priority} was given): it must be 0"
        )


def _normalize_field(table: Table, field: KeyField, match: MatchKey) -> MatchKey:
    full = (1 << field.width) - 1
    where = f"table {table.name!r}, key field {field.name!r}"
    for number in (match.value, match.mask, match.high):
        if not 0 <= number <= full:
            raise InvalidArgument(f"{where}: {number:#x} does not fit {field.width} bits")
    match field.match_type:
        case MatchType.EXACT:
            return MatchKey(match.value)
        case MatchType.LPM:
            if not 0 <= match.prefix_len <= field.width:
                raise InvalidArgument(
                    f"{where}: prefix length {match.prefix_len}, allowed is 0 to {field.width}"
                )
            mask = full & ~(full >> match.prefix_len)
            return MatchKey(match.value & mask, prefix_len=match.prefix_len)
        case MatchType.RANGE:
            if match.value > match.high:
                raise InvalidArgument(f"{where}: range {match.value} to {match.high} is empty")
            return MatchKey(match.value, high=match.high)
        case MatchType.OPTIONAL:
            if match.mask not in (0, full):
                raise InvalidArgument(f"{where}: an optional field has mask 0 or {full:#x}")
    return MatchKey(match.value & match.mask, mask=match.mask)


def compile_match(layout: KeyLayout, key: Sequence[MatchKey]) -> CompiledMatch:
    """Return the packed form of a normalized key."""
    values = [m.value for m in key]
    match layout.kind:
        case "SS_DIRECT":
            return CompiledMatch((), 1, 0, layout.pack(values)[0])
        case "SS_LPM":
            lpm = key[layout.lpm_index]
            packed = layout.pack(values) + layout.pack_lpm(lpm.value)
            return CompiledMatch(tuple(packed), 1, lpm.prefix_len, None)
        case "SS_TERNARY":
            return compile_ternary(layout, key)
    return CompiledMatch(tuple(layout.pack(values)), 1, 0, None)


def compile_ternary(layout: KeyLayout, key: Sequence[MatchKey]) -> CompiledMatch:
    """Return a normalized key as pairs of values and masks."""
    choices = [_masks(f, m) for f, m in zip(layout.table.keys, key, strict=True)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MAX_EXPANSIONS:
        raise ResourceExhausted(
            f"the ranges of this entry of table {layout.table.name!r} need {count} prefixes, "
            f"allowed are {MAX_EXPANSIONS}: use wider or aligned ranges"
        )
    words: list[int] = []
    for combination in product(*choices):
        words += layout.pack([value for value, _ in combination])
        words += layout.pack([mask for _, mask in combination])
    return CompiledMatch(tuple(words), count, 0, None)


def _masks(field: KeyField, match: MatchKey) -> list[tuple[int, int]]:
    """Return the (value, mask) pairs that together match what one field of a key matches."""
    full = (1 << field.width) - 1
    match field.match_type:
        case MatchType.EXACT:
            return [(match.value, full)]
        case MatchType.LPM:
            return [(match.value, full & ~(full >> match.prefix_len))]
        case MatchType.RANGE:
            return range_prefixes(match.value, match.high, field.width)
    return [(match.value, match.mask)]


def range_prefixes(low: int, high: int, width: int) -> list[tuple[int, int]]:
    """Cover [low, high] with the fewest (value, mask) prefixes of `width` bits."""
    full = (1 << width) - 1
    prefixes: list[tuple[int, int]] = []
    while low <= high:
        size = low & -low or 1 << width
        while size > high - low + 1:
            size >>= 1
        prefixes.append((low, full & ~(size - 1)))
        low += size
    return prefixes
