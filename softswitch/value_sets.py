"""Parser value sets of a running switch."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.binding import u64_array
from softswitch.codegen.value_sets import value_set_layout
from softswitch.engine import Handle
from softswitch.errors import AlreadyExists, ResourceExhausted
from softswitch.matching import compile_ternary, normalize
from softswitch.program import MatchKey, MatchType, ValueSet

Members = tuple[tuple[MatchKey, ...], ...]


class ValueSetStore:
    """One parser value set. Thread-safe. A key matches if it matches one of the members."""

    def __init__(self, value_set: ValueSet, switch: Handle) -> None:
        self.value_set = value_set
        self._switch = switch
        self._members: Members = ()

    def write(self, members: Sequence[Sequence[MatchKey]], kinds: Sequence[MatchType] = ()) -> None:
        """Replace all members, in one step for packets; `kinds` (exact) per part of the key.

        Raises AlreadyExists for a member given twice, InvalidArgument, ResourceExhausted.
        """
        name, size = self.value_set.name, self.value_set.max_size
        if len(members) > size:
            raise ResourceExhausted(f"value set {name!r} holds {size} members, not {len(members)}")
        layout = value_set_layout(self.value_set, kinds)
        keys = tuple(normalize(layout.table, member) for member in members)
        if len(set(keys)) != len(keys):
            raise AlreadyExists(f"value set {name!r}: a member is given twice")
        compiled = [compile_ternary(layout, key) for key in keys]
        words = u64_array([word for match in compiled for word in match.words])
        count = sum(match.expansions for match in compiled)
        with self._switch.lock:
            ctx, index = self._switch.ctx, self.value_set.index
            code = self._switch.lib.ss_value_set_write(ctx, index, words, layout.words, count)
            if code != 0:
                raise ResourceExhausted(f"no memory for the members of value set {name!r}")
            self._members = keys

    def members(self) -> Members:
        """Return the members."""
        return self._members
