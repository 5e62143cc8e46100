"""The entries of one table, as the control plane sees them, mirrored into the compiled switch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace

from softswitch.actions import action_words
from softswitch.batch import Library
from softswitch.binding import Match, u64_array
from softswitch.codegen.keys import KeyLayout
from softswitch.engine import Handles
from softswitch.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from softswitch.matching import CompiledMatch, check_priority, compile_match, normalize
from softswitch.profiles import ProfileStore
from softswitch.program import MatchKey, Program, Reference, Table, TableEntry

NO_ACTION = 0xFFFFFFFF
EntryKey = tuple[tuple[MatchKey, ...], int]


@dataclass(frozen=True)
class _Stored:
    entry: TableEntry
    handle: int
    match: CompiledMatch


class TableStore:
    """One table of a running switch. Not thread-safe: the data plane serializes calls.

    `profile` is the table's action profile, if it has one.
    """

    def __init__(
        self,
        program: Program,
        table: Table,
        lib: Library,
        ctx: int,
        profile: ProfileStore | None = None,
    ) -> None:
        self.table = table
        self._program = program
        self._layout = KeyLayout(table)
        self._positions = {name: i for i, name in enumerate(table.actions)}
        self._lib, self._ctx = lib, ctx
        self._profile = profile
        self._default_member: Reference | None = None
        self._is_const = table.is_const
        self._entries: dict[EntryKey, _Stored] = {}
        self._handles = Handles()
        self._default: tuple[str, tuple[int, ...]] = ("", ())
        self.reset_default()
        for entry in table.const_entries:
            self._insert(entry)

    # Entries

    def thaw(self) -> None:
        """Let the entries of the program be changed: in P4 they are `entries`, not `const` ones."""
        self._is_const = False
        for key, stored in self._entries.items():
            self._entries[key] = replace(stored, entry=replace(stored.entry, is_const=False))

    def add(self, entry: TableEntry) -> None:
        """Add an entry. Raises AlreadyExists, ResourceExhausted or InvalidArgument."""
        self._check_mutable()
        self._insert(replace(entry, is_const=False) if entry.is_const else entry)

    def _insert(self, entry: TableEntry) -> None:
        key = self._key(entry.key, entry.priority)
        action, data = self._action_data(entry)
        if key in self._entries:
            raise AlreadyExists(f"table {self.table.name!r} has an entry with this key already")
        if len(self._entries) >= max(self.table.max_size, len(self.table.const_entries)):
            raise ResourceExhausted(
                f"table {self.table.name!r} is full: its size is {self.table.max_size}"
            )
        compiled = compile_match(self._layout, key[0])
        handle = compiled.direct if compiled.direct is not None else self._handles.take()
        normal = entry if entry.key == key[0] else replace(entry, key=key[0])
        stored = _Stored(normal, handle, compiled)
        match = self._c_match(stored)
        code = self._lib.ss_table_add(self._ctx, self.table.index, handle, match, action, data)
        if code != 0:
            self._release_handle(stored)
            raise ResourceExhausted(f"no memory for another entry of table {self.table.name!r}")
        self._entries[key] = stored
        self._refer(entry.target, None)

    def modify(self, entry: TableEntry) -> None:
        """Change the action of an entry. Raises NotFound or InvalidArgument."""
        self._check_mutable()
        key = self._key(entry.key, entry.priority)
        action, data = self._action_data(entry)
        stored = self._find(key)
        self._lib.ss_table_modify(self._ctx, self.table.index, stored.handle, action, data)
        self._refer(entry.target, stored.entry.target)
        self._entries[key] = replace(stored, entry=replace(entry, key=key[0], is_const=False))

    def delete(self, key: Sequence[MatchKey], priority: int) -> None:
        """Remove an entry. Raises NotFound or InvalidArgument."""
        self._check_mutable()
        full_key = self._key(key, priority)
        stored = self._find(full_key)
        match = self._c_match(stored)
        self._lib.ss_table_delete(self._ctx, self.table.index, stored.handle, match)
        del self._entries[full_key]
        self._refer(None, stored.entry.target)
        self._release_handle(stored)

    def entries(self) -> list[TableEntry]:
        """Return all entries in the order in which they were added."""
        return [stored.entry for stored in self._entries.values()]

    def handle(self, key: Sequence[MatchKey], priority: int) -> int:
        """Return the index of an entry's direct resources. Raises NotFound."""
        return self._find(self._key(key, priority)).handle

    # Default action

    def set_default(self, action: str, params: Sequence[int]) -> None:
        """Change the default action. Raises InvalidArgument when the program fixes it."""
        table = self.table
        if table.default_is_const and action != table.default_action:
            raise InvalidArgument(f"the default action of table {table.name!r} is const")
        if table.default_params_are_const and tuple(params) != table.default_params:
            raise InvalidArgument(f"the default entry of table {table.name!r} is const")
        words = self._words(action, params)
        if self._profile is None:
            number, data = self._positions[action], u64_array(words)
            self._lib.ss_table_default(self._ctx, table.index, number, data)
        else:
            self._set_default_member(self._profile, self._profile.add_hidden(action, params))
        self._default = (action, tuple(params))

    def reset_default(self) -> None:
        """Return to the default action of the program."""
        table = self.table
        if table.default_action is None:
            if self._profile is not None:
                self._set_default_member(self._profile, None)
            else:
                self._lib.ss_table_default(self._ctx, table.index, NO_ACTION, u64_array(()))
            self._default = ("", ())
            return
        self.set_default(table.default_action, table.default_params)

    def _set_default_member(self, profile: ProfileStore, member: Reference | None) -> None:
        """Let a miss run a member that no one else knows of, or nothing."""
        target = NO_ACTION if member is None else profile.resolve(member)
        self._lib.ss_table_default(self._ctx, self.table.index, target, u64_array(()))
        if self._default_member is not None:
            profile.delete_member(self._default_member.id)
        self._default_member = member

    def get_default(self) -> tuple[str, tuple[int, ...]]:
        """Return the default action, "" when there is none."""
        return self._default

    # Helpers

    def _check_mutable(self) -> None:
        if self._is_const:
            raise InvalidArgument(f"the entries of table {self.table.name!r} are const")
        if not self.table.keys:
            raise InvalidArgument(f"table {self.table.name!r} has no key: it takes no entries")

    def _key(self, key: Sequence[MatchKey], priority: int) -> EntryKey:
        check_priority(self.table, priority)
        return normalize(self.table, key), priority

    def _find(self, key: EntryKey) -> _Stored:
        stored = self._entries.get(key)
        if stored is None:
            raise NotFound(f"table {self.table.name!r} has no entry with this key and priority")
        return stored

    def _action_data(self, entry: TableEntry) -> tuple[int, ctypes.Array[ctypes.c_uint64]]:
        """Return what the entry does, as the C side takes it."""
        if self._profile is not None:
            if entry.target is None or entry.action:
                raise InvalidArgument(
                    f"table {self.table.name!r} has an action profile: its entries need a member "
                    "or a group as target, and no action"
                )
            return self._profile.resolve(entry.target), u64_array(())
        if entry.target is not None:
            raise InvalidArgument(
                f"table {self.table.name!r} has no action profile: give an action"
            )
        words = self._words(entry.action, entry.params)
        return self._positions[entry.action], u64_array(words)

    def _words(self, action: str, params: Sequence[int]) -> list[int]:
        owner, allowed = f"table {self.table.name!r}", self.table.actions
        return action_words(owner, allowed, self._program, action, params)

    def _refer(self, new: Reference | None, old: Reference | None) -> None:
        """Count what entries refer to, so that it is not removed under them."""
        if self._profile is not None:
            if new is not None:
                self._profile.acquire(new)
            if old is not None:
                self._profile.release(old)

    def _c_match(self, stored: _Stored) -> Match:
        data = u64_array(stored.match.words)
        pointer = ctypes.cast(data, ctypes.POINTER(ctypes.c_uint64))
        match = stored.match
        return Match(pointer, match.expansions, match.prefix_len, stored.entry.priority)

    def _release_handle(self, stored: _Stored) -> None:
        if stored.match.direct is None:
            self._handles.give_back(stored.handle)
