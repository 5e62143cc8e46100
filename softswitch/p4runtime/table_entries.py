"""Table entries and default entries, with their direct counters.

The server owns the tables: this store mirrors what it wrote (the data plane has no place for the
controller's metadata), so that reading a key back is one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.p4runtime.action_profiles import (
    ActionProfiles,
)
from softswitch.p4runtime.counters import counts_from_wire
from softswitch.p4runtime.errors import (
    already_exists,
    denied,
    invalid,
    not_found,
    unimplemented,
)
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_types import TableInfo
from softswitch.p4runtime.table_messages import (
    Counts,
    Slot,
    Stored,
    canonical,
    check_no_filter,
    check_read,
    check_write,
    counter_to_wire,
    entry_before,
    passes,
    slot_of,
    to_wire,
)
from softswitch.p4runtime.translate import (
    action_from_wire,
    action_to_wire,
    key_from_wire,
)
from softswitch.program import TableEntry


class TableEntries:
    """The entries of all tables of one pipeline. The caller holds the device's lock."""

    def __init__(self, schema: Schema, dataplane: DataPlane, profiles: ActionProfiles) -> None:
        self._schema = schema
        self._profiles = profiles
        self._dataplane = dataplane
        self._entries: dict[int, dict[Slot, Stored]] = {
            table.id: _initial(table, dataplane) for table in schema.tables.values()
        }
        self._from_program = {number: dict(found) for number, found in self._entries.items()}
        self._default_metadata: dict[int, tuple[bytes, int]] = {}

    def write(self, kind: int, message: p4r.TableEntry) -> None:
        """Insert, modify or delete; `kind` is a p4r.Update.Type. Raises P4RuntimeError."""
        if kind == p4r.Update.INSERT:
            self.insert(message)
        elif kind == p4r.Update.MODIFY:
            self.modify(message)
        else:
            self.delete(message)

    def insert(self, message: p4r.TableEntry) -> None:
        """Add an entry; raises P4RuntimeError."""
        table = self._schema.table(message.table_id)
        check_write(table, message)
        if message.is_default_action:
            raise invalid(f"table {table.name}: the default entry can only be modified")
        if table.is_const:
            raise denied(f"table {table.name} is constant; its entries come with the program")
        if not table.fields:
            raise invalid(f"table {table.name} has no key and takes no entries")
        slot = slot_of(table, message)
        entries = self._entries[table.id]
        if slot in entries:
            raise already_exists(f"table {table.name}: an entry with this key is already there")
        if not message.HasField("action"):
            raise invalid(f"table {table.name}: an entry needs an action")
        with self._made(table, TableEntry(*slot), message) as stored:
            self._dataplane.table_add(table.name, stored.entry)
        entry, entries[slot] = stored.entry, stored
        self._write_counts(table, entry, message)

    def modify(self, message: p4r.TableEntry) -> None:
        """Change the action or the counts of an entry or of the default; raises P4RuntimeError."""
        table = self._schema.table(message.table_id)
        check_write(table, message)
        if message.is_default_action:
            self._modify_default(table, message)
            return
        slot = slot_of(table, message)
        stored = self._find(table, slot)
        if message.HasField("action"):
            self._check_mutable(table, stored)
            old = stored
            with self._made(table, stored.entry, message) as stored:
                self._dataplane.table_modify(table.name, stored.entry)
            self._entries[table.id][slot] = stored
            self._release(table, old)
        self._write_counts(table, stored.entry, message)

    def delete(self, message: p4r.TableEntry) -> None:
        """Remove an entry; raises P4RuntimeError."""
        table = self._schema.table(message.table_id)
        if message.is_const:
            raise invalid(f"table {table.name}: is_const must be false in a write")
        if message.is_default_action:
            raise invalid(f"table {table.name}: the default entry can only be modified")
        slot = slot_of(table, message)
        stored = self._find(table, slot)
        self._check_mutable(table, stored)
        self._dataplane.table_delete(table.name, stored.entry.key, stored.entry.priority)
        del self._entries[table.id][slot]
        self._release(table, stored)

    def read(self, query: p4r.TableEntry) -> Iterator[p4r.Entity]:
        """Return the entries that `query` selects, as they are now; raises P4RuntimeError."""
        if query.table_id:
            tables = [self._schema.table(query.table_id)]
            check_read(tables[0], query)
        else:
            tables = list(self._schema.tables.values())
            check_no_filter(query)
        if query.is_default_action:
            return iter([p4r.Entity(table_entry=self._default(tables[0], query))])
        found = [(table, self._select(table, query)) for table in tables]
        with_counts = query.HasField("counter_data")
        snapshot = [
            (table, stored, self._counts(table, stored) if with_counts else None)
            for table, selected in found
            for stored in selected
        ]
        return (p4r.Entity(table_entry=to_wire(*item)) for item in snapshot)

    def state(self) -> Iterator[p4r.Update]:
        """Return the updates that make, from the program's own entries, what there is now."""
        for table in self._schema.tables.values():
            entries, original = self._entries[table.id], self._from_program[table.id]
            for slot, stored in original.items():
                if slot not in entries:
                    yield _update(p4r.Update.DELETE, to_wire(table, stored, None))
            for slot, stored in entries.items():
                if original.get(slot) is not stored:
                    yield _update(p4r.Update.INSERT, to_wire(table, stored, None))
            if table.id in self._default_metadata:
                entry = self._default(table, p4r.TableEntry())
                yield _update(p4r.Update.MODIFY, entry)

    def read_counters(self, query: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        """Return the direct counters that `query` selects; raises P4RuntimeError."""
        key = query.table_entry
        if not key.table_id:
            check_no_filter(key)
            tables = [table for table in self._schema.tables.values() if table.counter_id]
        else:
            tables = [self._counted(key)]
        stored = [self._find(tables[0], slot_of(tables[0], key))] if key.match else []
        snapshot = [
            (table, item, self._counts(table, item))
            for table in tables
            for item in (stored or self._entries[table.id].values())
        ]
        return (p4r.Entity(direct_counter_entry=counter_to_wire(*item)) for item in snapshot)

    def modify_counter(self, message: p4r.DirectCounterEntry) -> None:
        """Set the counts of one entry; raises P4RuntimeError."""
        if not message.HasField("table_entry"):
            raise invalid("a direct counter entry needs its table_entry")
        table = self._counted(message.table_entry)
        stored = self._find(table, slot_of(table, message.table_entry))
        if message.HasField("data"):
            self._set_counts(table, stored.entry, counts_from_wire(message.data))

    def before(self, kind: int, message: p4r.TableEntry) -> Iterator[p4r.Entity]:
        """Return the entry that a MODIFY or DELETE is about to change, as far as it changes it."""
        table = self._schema.table(message.table_id)
        if message.is_default_action:
            entry = self._default(table, p4r.TableEntry())
            entry.is_const = False
            return iter([p4r.Entity(table_entry=entry)])
        stored = self._find(table, slot_of(table, message))
        whole = kind == p4r.Update.DELETE
        with_counts = whole or message.HasField("counter_data")
        counts = self._counts(table, stored) if with_counts else None
        return entry_before(table, stored, counts, with_action=whole or message.HasField("action"))

    def counter_before(self, message: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        """Return the direct counter that a MODIFY is about to change."""
        table = self._counted(message.table_entry)
        stored = self._find(table, slot_of(table, message.table_entry))
        counts = self._counts(table, stored)
        return iter([p4r.Entity(direct_counter_entry=counter_to_wire(table, stored, counts))])

    @contextmanager
    def _made(
        self, table: TableInfo, entry: TableEntry, message: p4r.TableEntry
    ) -> Iterator[Stored]:
        """Yield `entry` with the action of `message`; undo what that took if the block fails."""
        if not table.profile_id:
            action, params = action_from_wire(table, message.action, default=False)
            entry = replace(entry, action=action, params=params)
            yield Stored(entry, message.metadata, message.controller_metadata)
            return
        target = self._profiles.target(self._schema.profile(table.profile_id), message.action)
        one_shot = None
        if message.action.HasField("action_profile_action_set"):
            one_shot = p4r.ActionProfileActionSet()
            one_shot.CopyFrom(message.action.action_profile_action_set)
        entry = replace(entry, target=target)
        stored = Stored(entry, message.metadata, message.controller_metadata, one_shot)
        try:
            yield stored
        except Exception:
            self._release(table, stored)
            raise

    def _release(self, table: TableInfo, stored: Stored) -> None:
        """Forget what an entry refers to."""
        if stored.entry.target is not None:
            info = self._schema.profile(table.profile_id)
            one_shot = stored.one_shot is not None
            self._profiles.release(info, stored.entry.target, one_shot=one_shot)

    def _modify_default(self, table: TableInfo, message: p4r.TableEntry) -> None:
        if message.match or message.priority:
            raise invalid(f"table {table.name}: the default entry has no match and no priority")
        if table.const_default:
            raise denied(f"table {table.name}: the default action is constant")
        if message.HasField("counter_data"):
            raise unimplemented(f"table {table.name}: the default entry has no direct counter")
        if message.HasField("action"):
            action, params = action_from_wire(table, message.action, default=True)
            self._dataplane.table_set_default(table.name, action, params)
            self._default_metadata[table.id] = (message.metadata, message.controller_metadata)
        else:
            self._dataplane.table_reset_default(table.name)
            self._default_metadata.pop(table.id, None)

    def _default(self, table: TableInfo, query: p4r.TableEntry) -> p4r.TableEntry:
        if query.match or query.priority:
            raise invalid(f"table {table.name}: the default entry has no match and no priority")
        name, params = self._dataplane.table_get_default(table.name)
        metadata, controller_metadata = self._default_metadata.get(table.id, (b"", 0))
        message = p4r.TableEntry(
            table_id=table.id,
            is_default_action=True,
            is_const=table.const_default,
            metadata=metadata,
            controller_metadata=controller_metadata,
        )
        action = table.actions_by_name.get(name)
        if action is not None:
            message.action.CopyFrom(action_to_wire(action, params))
        return message

    def _select(self, table: TableInfo, query: p4r.TableEntry) -> Iterable[Stored]:
        entries = self._entries[table.id]
        if not query.match:
            return [item for item in entries.values() if passes(table, item, query)]
        key = key_from_wire(table, query.match)
        if query.priority or not table.uses_priority:
            found = entries.get((key, query.priority))
            candidates = [] if found is None else [found]
        else:
            candidates = [item for (other, _), item in entries.items() if other == key]
        return [item for item in candidates if passes(table, item, query)]

    def _find(self, table: TableInfo, slot: Slot) -> Stored:
        stored = self._entries[table.id].get(slot)
        if stored is None:
            raise not_found(f"table {table.name}: no entry has this key and priority {slot[1]}")
        return stored

    def _check_mutable(self, table: TableInfo, stored: Stored) -> None:
        if table.is_const or stored.entry.is_const:
            raise denied(f"table {table.name}: the entry is constant; it comes with the program")

    def _counted(self, key: p4r.TableEntry) -> TableInfo:
        table = self._schema.table(key.table_id)
        if key.is_default_action:
            raise unimplemented(f"table {table.name}: the default entry has no direct counter")
        if not table.counter_id:
            raise invalid(f"table {table.name} has no direct counter")
        return table

    def _counts(self, table: TableInfo, stored: Stored) -> Counts | None:
        if not table.counter_id:
            return None
        entry = stored.entry
        return self._dataplane.direct_counter_read(table.name, entry.key, entry.priority)

    def _write_counts(self, table: TableInfo, entry: TableEntry, message: p4r.TableEntry) -> None:
        if message.HasField("counter_data"):
            self._set_counts(table, entry, counts_from_wire(message.counter_data))

    def _set_counts(self, table: TableInfo, entry: TableEntry, counts: Counts) -> None:
        self._dataplane.direct_counter_write(table.name, entry.key, entry.priority, *counts)


def _update(kind: p4r.Update.Type.ValueType, entry: p4r.TableEntry) -> p4r.Update:
    return p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))


def _initial(table: TableInfo, dataplane: DataPlane) -> dict[Slot, Stored]:
    return {
        (canonical(table, entry.key), entry.priority): Stored(entry)
        for entry in dataplane.table_entries(table.name)
    }
