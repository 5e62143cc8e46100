"""Table entries and default entries, with their direct counters.

The server owns the tables: this store mirrors what it wrote (the data plane has no place for the
controller's metadata), so that reading a key back is one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.p4runtime.counters import counter_data, counts_from_wire
from softswitch.p4runtime.errors import (
    P4RuntimeError,
    already_exists,
    denied,
    invalid,
    not_found,
    unimplemented,
)
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_types import FieldInfo, TableInfo
from softswitch.p4runtime.translate import (
    Key,
    action_from_wire,
    action_to_wire,
    check_priority,
    key_from_wire,
    key_to_wire,
)
from softswitch.program import MatchKey, MatchType, TableEntry

Slot = tuple[Key, int]
"""What names an entry in its table: key and priority."""

Counts = tuple[int, int]
"""(packets, bytes)."""


@dataclass(frozen=True)
class Stored:
    """An entry of the data plane and what the controller wants back with it."""

    entry: TableEntry
    metadata: bytes = b""
    controller_metadata: int = 0


class TableEntries:
    """The entries of all tables of one pipeline. The caller holds the device's lock."""

    def __init__(self, schema: Schema, dataplane: DataPlane) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._entries: dict[int, dict[Slot, Stored]] = {
            table.id: _initial(table, dataplane) for table in schema.tables.values()
        }
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
        _check_write(table, message)
        if message.is_default_action:
            raise invalid(f"table {table.name}: the default entry can only be modified")
        if table.is_const:
            raise denied(f"table {table.name} is constant; its entries come with the program")
        if not table.fields:
            raise invalid(f"table {table.name} has no key and takes no entries")
        slot = _slot(table, message)
        entries = self._entries[table.id]
        if slot in entries:
            raise already_exists(f"table {table.name}: an entry with this key is already there")
        if not message.HasField("action"):
            raise invalid(f"table {table.name}: an entry needs an action")
        action, params = action_from_wire(table, message.action, default=False)
        entry = TableEntry(slot[0], slot[1], action, params)
        self._dataplane.table_add(table.name, entry)
        entries[slot] = Stored(entry, message.metadata, message.controller_metadata)
        self._write_counts(table, entry, message)

    def modify(self, message: p4r.TableEntry) -> None:
        """Change the action or the counts of an entry or of the default; raises P4RuntimeError."""
        table = self._schema.table(message.table_id)
        _check_write(table, message)
        if message.is_default_action:
            self._modify_default(table, message)
            return
        slot = _slot(table, message)
        stored = self._find(table, slot)
        if message.HasField("action"):
            self._check_mutable(table, stored)
            action, params = action_from_wire(table, message.action, default=False)
            entry = replace(stored.entry, action=action, params=params)
            self._dataplane.table_modify(table.name, entry)
            stored = Stored(entry, message.metadata, message.controller_metadata)
            self._entries[table.id][slot] = stored
        self._write_counts(table, stored.entry, message)

    def delete(self, message: p4r.TableEntry) -> None:
        """Remove an entry; raises P4RuntimeError."""
        table = self._schema.table(message.table_id)
        if message.is_const:
            raise invalid(f"table {table.name}: is_const must be false in a write")
        if message.is_default_action:
            raise invalid(f"table {table.name}: the default entry can only be modified")
        slot = _slot(table, message)
        stored = self._find(table, slot)
        self._check_mutable(table, stored)
        self._dataplane.table_delete(table.name, stored.entry.key, stored.entry.priority)
        del self._entries[table.id][slot]

    def read(self, query: p4r.TableEntry) -> Iterator[p4r.Entity]:
        """Return the entries that `query` selects, as they are now; raises P4RuntimeError."""
        if query.table_id:
            tables = [self._schema.table(query.table_id)]
            _check_read(tables[0], query)
        else:
            tables = list(self._schema.tables.values())
            _check_no_filter(query)
        if query.is_default_action:
            return iter([p4r.Entity(table_entry=self._default(tables[0], query))])
        found = [(table, self._select(table, query)) for table in tables]
        with_counts = query.HasField("counter_data")
        snapshot = [
            (table, stored, self._counts(table, stored) if with_counts else None)
            for table, selected in found
            for stored in selected
        ]
        return (p4r.Entity(table_entry=_to_wire(*item)) for item in snapshot)

    def read_counters(self, query: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        """Return the direct counters that `query` selects; raises P4RuntimeError."""
        key = query.table_entry
        if not key.table_id:
            _check_no_filter(key)
            tables = [table for table in self._schema.tables.values() if table.counter_id]
        else:
            tables = [self._counted(key)]
        stored = [self._find(tables[0], _slot(tables[0], key))] if key.match else []
        snapshot = [
            (table, item, self._counts(table, item))
            for table in tables
            for item in (stored or self._entries[table.id].values())
        ]
        return (p4r.Entity(direct_counter_entry=_counter_to_wire(*item)) for item in snapshot)

    def modify_counter(self, message: p4r.DirectCounterEntry) -> None:
        """Set the counts of one entry; raises P4RuntimeError."""
        if not message.HasField("table_entry"):
            raise invalid("a direct counter entry needs its table_entry")
        table = self._counted(message.table_entry)
        stored = self._find(table, _slot(table, message.table_entry))
        if message.HasField("data"):
            self._set_counts(table, stored.entry, counts_from_wire(message.data))

    def before(self, kind: int, message: p4r.TableEntry) -> Iterator[p4r.Entity]:
        """Return the entry that a MODIFY or DELETE is about to change, as far as it changes it."""
        table = self._schema.table(message.table_id)
        if message.is_default_action:
            entry = self._default(table, p4r.TableEntry())
            entry.is_const = False
            return iter([p4r.Entity(table_entry=entry)])
        stored = self._find(table, _slot(table, message))
        whole = kind == p4r.Update.DELETE
        with_counts = whole or message.HasField("counter_data")
        counts = self._counts(table, stored) if with_counts else None
        return _entry_before(table, stored, counts, with_action=whole or message.HasField("action"))

    def counter_before(self, message: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        """Return the direct counter that a MODIFY is about to change."""
        table = self._counted(message.table_entry)
        stored = self._find(table, _slot(table, message.table_entry))
        counts = self._counts(table, stored)
        return iter([p4r.Entity(direct_counter_entry=_counter_to_wire(table, stored, counts))])

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
            return [item for item in entries.values() if _passes(table, item, query)]
        key = key_from_wire(table, query.match)
        if query.priority or not table.uses_priority:
            found = entries.get((key, query.priority))
            candidates = [] if found is None else [found]
        else:
            candidates = [item for (other, _), item in entries.items() if other == key]
        return [item for item in candidates if _passes(table, item, query)]

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


def _initial(table: TableInfo, dataplane: DataPlane) -> dict[Slot, Stored]:
    return {
        (_canonical(table, entry.key), entry.priority): Stored(entry)
        for entry in dataplane.table_entries(table.name)
    }


def _canonical(table: TableInfo, key: Key) -> Key:
    """Return the key as a controller has to write it, so that it can be found again."""
    return tuple(
        _canonical_field(info, item)
        for info, item in zip(table.fields_by_position, key, strict=True)
    )


def _canonical_field(info: FieldInfo, key: MatchKey) -> MatchKey:
    if info.match_type is MatchType.EXACT:
        return MatchKey(key.value)
    if info.match_type is MatchType.LPM:
        host_bits = (1 << (info.width - key.prefix_len)) - 1
        return MatchKey(key.value & ~host_bits, prefix_len=key.prefix_len)
    if info.match_type is MatchType.RANGE:
        return MatchKey(key.value, high=key.high)
    return MatchKey(key.value & key.mask, mask=key.mask)


def _slot(table: TableInfo, message: p4r.TableEntry) -> Slot:
    priority = message.priority
    check_priority(table, priority)
    return key_from_wire(table, message.match), priority


def _check_write(table: TableInfo, message: p4r.TableEntry) -> None:
    if message.is_const:
        raise invalid(f"table {table.name}: is_const must be false in a write")
    if message.HasField("time_since_last_hit"):
        raise invalid(f"table {table.name}: time_since_last_hit must be unset in a write")
    if message.idle_timeout_ns:
        raise _no_idle_timeout(table)
    if message.HasField("meter_config") or message.HasField("meter_counter_data"):
        if table.meter:
            raise unimplemented(f"table {table.name}: {table.meter} is not supported")
        raise invalid(f"table {table.name} has no direct meter")
    if message.HasField("counter_data"):
        if not table.counter_id:
            raise invalid(f"table {table.name} has no direct counter")
        counts_from_wire(message.counter_data)


def _check_read(table: TableInfo, query: p4r.TableEntry) -> None:
    if query.HasField("time_since_last_hit"):
        raise _no_idle_timeout(table)
    if query.HasField("action"):
        if query.action.WhichOneof("type") != "action":
            raise invalid(f"table {table.name}: entries can be filtered by action_id only")
        if query.action.action.action_id not in table.actions:
            raise invalid(
                f"table {table.name}: no action has id {query.action.action.action_id:#010x}"
            )


def _check_no_filter(query: p4r.TableEntry) -> None:
    if (
        query.match
        or query.HasField("action")
        or query.priority
        or query.controller_metadata
        or query.metadata
        or query.is_default_action
    ):
        raise invalid("table_id is 0 (all tables); no other filter can go with it")


def _no_idle_timeout(table: TableInfo) -> P4RuntimeError:
    if table.idle_timeout:
        return unimplemented(f"table {table.name}: idle timeouts are not supported")
    return invalid(f"table {table.name} has no idle timeout")


def _passes(table: TableInfo, stored: Stored, query: p4r.TableEntry) -> bool:
    if query.priority and stored.entry.priority != query.priority:
        return False
    if query.metadata and stored.metadata != query.metadata:
        return False
    if query.controller_metadata and stored.controller_metadata != query.controller_metadata:
        return False
    if query.HasField("action"):
        action = table.actions_by_name.get(stored.entry.action)
        return action is not None and action.id == query.action.action.action_id
    return True


def _to_wire(table: TableInfo, stored: Stored, counts: Counts | None) -> p4r.TableEntry:
    entry = stored.entry
    message = p4r.TableEntry(
        table_id=table.id,
        match=key_to_wire(table, entry.key),
        priority=entry.priority,
        is_const=entry.is_const,
        metadata=stored.metadata,
        controller_metadata=stored.controller_metadata,
    )
    action = table.actions_by_name.get(entry.action)
    if action is not None:
        message.action.CopyFrom(action_to_wire(action, entry.params))
    if counts is not None:
        message.counter_data.CopyFrom(counter_data(counts))
    return message


def _entry_before(
    table: TableInfo, stored: Stored, counts: Counts | None, *, with_action: bool
) -> Iterator[p4r.Entity]:
    entry = _to_wire(table, stored, counts)
    entry.is_const = False
    if not with_action:
        entry.ClearField("action")
    yield p4r.Entity(table_entry=entry)


def _counter_to_wire(
    table: TableInfo, stored: Stored, counts: Counts | None
) -> p4r.DirectCounterEntry:
    key = p4r.TableEntry(
        table_id=table.id,
        match=key_to_wire(table, stored.entry.key),
        priority=stored.entry.priority,
    )
    return p4r.DirectCounterEntry(table_entry=key, data=counter_data(counts or (0, 0)))
