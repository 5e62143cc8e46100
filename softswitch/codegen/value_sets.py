"""Parser value sets: their packed keys, and the test of a transition."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.codegen.keys import KeyLayout
from softswitch.codegen.layout import is_wide
from softswitch.program import KeyField, MatchType, Table, ValueSet


def value_set_layout(value_set: ValueSet, kinds: Sequence[MatchType] = ()) -> KeyLayout:
    """Return the layout of a set's keys, seen as those of a table that matches by masks.

    `kinds` says how the members match each part; the layout does not depend on it.
    """
    kinds = kinds or [MatchType.EXACT] * len(value_set.widths)
    keys = tuple(
        KeyField(f"part {i}", kind, width, -1, -1)
        for i, (kind, width) in enumerate(zip(kinds, value_set.widths, strict=True))
    )
    return KeyLayout(
        Table(
            name=value_set.name,
            index=value_set.index,
            keys=keys,
            match_type=MatchType.RANGE,
            actions={},
            max_size=value_set.max_size,
            const_entries=(),
            default_action=None,
            default_params=(),
            default_is_const=False,
            default_params_are_const=False,
            with_counters=False,
            support_timeout=False,
        )
    )


def value_set_test(value_set: ValueSet) -> str:
    """Return the condition that the key parts k0, k1, … are matched by a member of the set."""
    layout = value_set_layout(value_set)
    words: list[list[str]] = [[] for _ in range(layout.words)]
    for piece in layout.pieces:
        text = f"k{piece.field}"
        if is_wide(value_set.widths[piece.field]):
            text += f"[{piece.low // 64}]"
        elif piece.low:
            text = f"({text} >> {piece.low})"
        text = f"(uint64_t){text}"
        words[piece.word].append(f"({text} << {piece.shift})" if piece.shift else text)
    packed = ", ".join(" | ".join(terms) for terms in words)
    return (
        f"ss_tuples_get(&c->value_sets[{value_set.index}], "
        f"(const uint64_t[]){{{packed}}}, {layout.words}) != SS_NONE"
    )
