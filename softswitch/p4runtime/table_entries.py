"""Table entries and default entries.

The server owns the tables: this store mirrors what it wrote (the data plane has no place for the
controller's metadata), so that reading a key back is one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.p4runtime.action_profiles import ActionProfiles, Use
from softswitch.p4runtime.direct import DirectResources
from softswitch.p4runtime.errors import already_exists, denied, invalid, not_found
from softswitch.p4runtime.idle import IdleTimeouts
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_types import TableInfo
from softswitch.p4runtime.table_messages import (
    Live,
    Slot,
    Stored,
    canonical,
    check_no_filter,
    check_read,
    check_write,
    passes,
    show_live,
    slot_of,
    to_wire,
)
from softswitch.p4runtime.translate import (
    action_from_wire,
    action_to_wire,
    key_from_wire,
)
from softswitch.program import TableEntry

_WITH_METER = p4r.TableEntry(meter_config=p4r.MeterConfig())


class TableEntries:
    """The entries of all tables of one pipeline. The caller holds the device's lock."""

    def __init__(
        self,
        schema: Schema,
        dataplane: DataPlane,
        profiles: ActionProfiles,
        idle: IdleTimeouts,
    ) -> None:
        self._schema = schema
        self._profiles = profiles
        self._dataplane = dataplane
        self.direct = DirectResources(schema, dataplane, idle)
        self._entries: dict[int, dict[Slot, Stored]] = {
            table.id: _initial(table, dataplane) for table in schema.tables.values()
        }
        self._from_program = {number: dict(found) for number, found in self._entries.items()}
        self._defaults: dict[int, Stored] = {}
        """What controllers said of default entries; their actions are the data plane's."""

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
        self.direct.check_config(table, message)
        with self._made(table, Stored(TableEntry(*slot)), message) as stored:
            self._dataplane.table_add(table.name, stored.entry)
        entries[slot] = stored
        self.direct.write(table, stored, message, None)
        self.direct.watch(table, stored)

    def modify(self, message: p4r.TableEntry) -> None:
        """Change the action or the counts of an entry or of the default; raises P4RuntimeError."""
        table = self._schema.table(message.table_id)
        check_write(table, message)
        if message.is_default_action:
            self._modify_default(table, message)
            return
        slot = slot_of(table, message)
        stored = self._find(table, slot)
        self.direct.check_config(table, message)
        old = stored
        if message.HasField("action"):
            self._check_mutable(table, stored)
            with self._made(table, old, message) as stored:
                self._dataplane.table_modify(table.name, stored.entry)
            self._release(table, old)
        elif table.meter_id:
            stored = replace(stored, meter=_meter_of(message))
        self._entries[table.id][slot] = stored
        self.direct.write(table, stored, message, old.meter)
        if message.HasField("action"):
            self.direct.watch(table, stored)

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
        self.direct.forget(table, stored)
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
        with_meter = query.HasField("meter_config")
        snapshot = [
            (
                table,
                stored if with_meter else replace(stored, meter=None),
                self.direct.live(table, stored, query),
            )
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
                    yield _update(p4r.Update.DELETE, to_wire(table, stored))
            for slot, stored in entries.items():
                if original.get(slot) is stored:
                    continue
                entry = to_wire(table, stored)
                if stored.entry.is_const:  # only its direct resources can have changed
                    entry.ClearField("action")
                    yield _update(p4r.Update.MODIFY, entry)
                else:
                    yield _update(p4r.Update.INSERT, entry)
            if table.id in self._defaults:
                entry = self._default(table, _WITH_METER)
                yield _update(p4r.Update.MODIFY, entry)

    def before(self, kind: int, message: p4r.TableEntry) -> Iterator[p4r.Entity]:
        """Return the entry that a MODIFY or DELETE is about to change, as far as it changes it."""
        table = self._schema.table(message.table_id)
        if message.is_default_action:
            ask = p4r.TableEntry()
            ask.CopyFrom(_WITH_METER)
            if message.HasField("counter_data"):
                ask.counter_data.SetInParent()
            entry = self._default(table, ask)
            entry.is_const = False
            return iter([p4r.Entity(table_entry=entry)])
        stored = self._find(table, slot_of(table, message))
        whole = kind == p4r.Update.DELETE
        with_counts = table.counter_id and (whole or message.HasField("counter_data"))
        counts = self.direct.counts(table, stored) if with_counts else None
        entry = to_wire(table, stored, Live(counts))
        entry.is_const = False
        if not whole and not message.HasField("action"):
            entry.ClearField("action")
        return iter([p4r.Entity(table_entry=entry)])

    def one(self, table: TableInfo, key: p4r.TableEntry) -> Stored | None:
        """Return the entry that a direct resource names, None for the default entry."""
        if key.is_default_action:
            if key.match or key.priority:
                raise invalid(f"table {table.name}: the default entry has no match and no priority")
            return None
        return self._find(table, slot_of(table, key))

    def named(self, table: TableInfo, key: p4r.TableEntry) -> Iterable[Stored | None]:
        """Return the entries that a read of direct resources names: one, or all of a table."""
        if key.match or key.is_default_action:
            return [self.one(table, key)]
        return self._entries[table.id].values()

    def meter(self, table: TableInfo, stored: Stored | None) -> p4r.MeterConfig | None:
        """Return how the meter of an entry is configured."""
        return (self._default_of(table) if stored is None else stored).meter

    def set_meter(
        self, table: TableInfo, stored: Stored | None, config: p4r.MeterConfig | None
    ) -> None:
        """Note how the meter of an entry is configured now."""
        if stored is None:
            self._defaults[table.id] = replace(self._default_of(table), meter=config)
        else:
            slot = stored.entry.key, stored.entry.priority
            self._entries[table.id][slot] = replace(stored, meter=config)

    @contextmanager
    def _made(self, table: TableInfo, old: Stored, message: p4r.TableEntry) -> Iterator[Stored]:
        """Yield what `message` makes of an entry; undo what that took if the block fails."""
        entry = old.entry
        new = Stored(
            entry,
            message.metadata,
            message.controller_metadata,
            meter=_meter_of(message),
            idle_timeout_ns=message.idle_timeout_ns,
        )
        if not table.profile_id:
            action, params = action_from_wire(table, message.action, default=False)
            yield replace(new, entry=replace(entry, action=action, params=params))
            return
        replaced = None if entry.target is None else Use(entry.target, old.one_shot is not None)
        info = self._schema.profile(table.profile_id)
        target = self._profiles.target(info, message.action, replaced)
        one_shot = None
        if message.action.HasField("action_profile_action_set"):
            one_shot = p4r.ActionProfileActionSet()
            one_shot.CopyFrom(message.action.action_profile_action_set)
        stored = replace(new, entry=replace(entry, target=target), one_shot=one_shot)
        try:
            yield stored
        except Exception:
            self._release(table, stored)
            raise

    def _release(self, table: TableInfo, stored: Stored) -> None:
        """Forget what an entry refers to."""
        if stored.entry.target is not None:
            info = self._schema.profile(table.profile_id)
            self._profiles.release(info, Use(stored.entry.target, stored.one_shot is not None))

    def _modify_default(self, table: TableInfo, message: p4r.TableEntry) -> None:
        if message.match or message.priority:
            raise invalid(f"table {table.name}: the default entry has no match and no priority")
        if table.const_default:
            raise denied(f"table {table.name}: the default action is constant")
        self.direct.check_config(table, message)
        old = self._default_of(table)
        if message.HasField("action"):
            action, params = action_from_wire(table, message.action, default=True)
            self._dataplane.table_set_default(table.name, action, params)
        else:
            self._dataplane.table_reset_default(table.name)
        if message.HasField("action") or message.HasField("meter_config"):
            self._defaults[table.id] = replace(
                old,
                metadata=message.metadata,
                controller_metadata=message.controller_metadata,
                meter=_meter_of(message),
            )
        else:
            self._defaults.pop(table.id, None)
        self.direct.write(table, None, message, old.meter)

    def _default(self, table: TableInfo, query: p4r.TableEntry) -> p4r.TableEntry:
        if query.match or query.priority:
            raise invalid(f"table {table.name}: the default entry has no match and no priority")
        name, params = self._dataplane.table_get_default(table.name)
        stored = self._default_of(table)
        message = p4r.TableEntry(
            table_id=table.id,
            is_default_action=True,
            is_const=table.const_default,
            metadata=stored.metadata,
            controller_metadata=stored.controller_metadata,
            meter_config=stored.meter if query.HasField("meter_config") else None,
        )
        action = table.actions_by_name.get(name)
        if action is not None:
            message.action.CopyFrom(action_to_wire(action, params))
        show_live(message, self.direct.live(table, None, query))
        return message

    def _default_of(self, table: TableInfo) -> Stored:
        return self._defaults.get(table.id, Stored(TableEntry((), 0)))

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


def _initial(table: TableInfo, dataplane: DataPlane) -> dict[Slot, Stored]:
    if table.has_initial_entries and not table.is_const:
        dataplane.table_thaw(table.name)
    return {
        (canonical(table, entry.key), entry.priority): Stored(entry)
        for entry in dataplane.table_entries(table.name)
    }


def _meter_of(message: p4r.TableEntry) -> p4r.MeterConfig | None:
    if not message.HasField("meter_config"):
        return None
    config = p4r.MeterConfig()
    config.CopyFrom(message.meter_config)
    return config


def _update(kind: p4r.Update.Type.ValueType, entry: p4r.TableEntry) -> p4r.Update:
    entry.is_const = False
    return p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))
