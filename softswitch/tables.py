"""The entries of one table, as the control plane sees them, mirrored into the compiled switch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace

from softswitch.batch import Library
from softswitch.binding import Match, u64_array, words
from softswitch.codegen.keys import KeyLayout
from softswitch.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from softswitch.matching import CompiledMatch, check_priority, compile_match, normalize
from softswitch.program import MatchKey, Program, Table, TableEntry

NO_ACTION = 0xFFFFFFFF
EntryKey = tuple[tuple[MatchKey, ...], int]


@dataclass(frozen=True)
class _Stored:
    entry: TableEntry
    handle: int
    match: CompiledMatch


class TableStore:
    """One table of a running switch. Not thread-safe: the data plane serializes calls."""

    def __init__(self, program: Program, table: Table, lib: Library, ctx: int) -> None:
        self.table = table
        self._program = program
        self._layout = KeyLayout(table)
        self._positions = {name: i for i, name in enumerate(table.actions)}
        self._lib, self._ctx = lib, ctx
        self._entries: dict[EntryKey, _Stored] = {}
        self._free: list[int] = []
        self._next_handle = 0
        self._default: tuple[str, tuple[int, ...]] = ("", ())
        self.reset_default()
        for entry in table.const_entries:
            self._insert(entry)

    # Entries

    def add(self, entry: TableEntry) -> None:
        """Add an entry. Raises AlreadyExists, ResourceExhausted or InvalidArgument."""
        self._check_mutable()
        self._insert(replace(entry, is_const=False))

    def _insert(self, entry: TableEntry) -> None:
        key = self._key(entry.key, entry.priority)
        data = self._action_data(entry.action, entry.params)
        if key in self._entries:
            raise AlreadyExists(f"table {self.table.name!r} has an entry with this key already")
        if len(self._entries) >= max(self.table.max_size, len(self.table.const_entries)):
            raise ResourceExhausted(
                f"table {self.table.name!r} is full: its size is {self.table.max_size}"
            )
        compiled = compile_match(self._layout, key[0])
        handle = compiled.direct if compiled.direct is not None else self._take_handle()
        stored = _Stored(replace(entry, key=key[0]), handle, compiled)
        match = self._c_match(stored)
        action = self._positions[entry.action]
        code = self._lib.ss_table_add(self._ctx, self.table.index, handle, match, action, data)
        if code != 0:
            self._release_handle(stored)
            raise ResourceExhausted(f"no memory for another entry of table {self.table.name!r}")
        self._entries[key] = stored

    def modify(self, entry: TableEntry) -> None:
        """Change the action of an entry. Raises NotFound or InvalidArgument."""
        self._check_mutable()
        key = self._key(entry.key, entry.priority)
        data = self._action_data(entry.action, entry.params)
        stored = self._find(key)
        action = self._positions[entry.action]
        self._lib.ss_table_modify(self._ctx, self.table.index, stored.handle, action, data)
        self._entries[key] = replace(stored, entry=replace(entry, key=key[0], is_const=False))

    def delete(self, key: Sequence[MatchKey], priority: int) -> None:
        """Remove an entry. Raises NotFound or InvalidArgument."""
        self._check_mutable()
        full_key = self._key(key, priority)
        stored = self._find(full_key)
        match = self._c_match(stored)
        self._lib.ss_table_delete(self._ctx, self.table.index, stored.handle, match)
        del self._entries[full_key]
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
        data = self._action_data(action, params)
        self._lib.ss_table_default(self._ctx, table.index, self._positions[action], data)
        self._default = (action, tuple(params))

    def reset_default(self) -> None:
        """Return to the default action of the program."""
        table = self.table
        if table.default_action is None:
            self._lib.ss_table_default(self._ctx, table.index, NO_ACTION, u64_array(()))
            self._default = ("", ())
            return
        self.set_default(table.default_action, table.default_params)

    def get_default(self) -> tuple[str, tuple[int, ...]]:
        """Return the default action, "" when there is none."""
        return self._default

    # Helpers

    def _check_mutable(self) -> None:
        if self.table.is_const:
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

    def _action_data(self, action: str, params: Sequence[int]) -> ctypes.Array[ctypes.c_uint64]:
        if action not in self.table.actions:
            allowed = ", ".join(sorted(self.table.actions)) or "none"
            raise InvalidArgument(
                f"table {self.table.name!r} does not allow action {action!r} (allowed: {allowed})"
            )
        declared = self._program.actions[self.table.actions[action]].params
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
        return u64_array(words(params, [p.width for p in declared]))

    def _c_match(self, stored: _Stored) -> Match:
        data = u64_array(stored.match.words)
        pointer = ctypes.cast(data, ctypes.POINTER(ctypes.c_uint64))
        match = stored.match
        return Match(pointer, match.expansions, match.prefix_len, stored.entry.priority)

    def _take_handle(self) -> int:
        if self._free:
            return self._free.pop()
        self._next_handle += 1
        return self._next_handle - 1

    def _release_handle(self, stored: _Stored) -> None:
        if stored.match.direct is None:
            self._free.append(stored.handle)
