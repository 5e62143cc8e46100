"""Direct counters and meters as entities of their own."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from softswitch.p4runtime.counters import counter_data, counts_from_wire
from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.meters import check_colors, colors_to_wire
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_types import TableInfo
from softswitch.p4runtime.table_entries import TableEntries
from softswitch.p4runtime.table_messages import (
    Counts,
    Live,
    Stored,
    check_counter,
    check_meter,
    check_no_filter,
    key_message,
)


class DirectEntries:
    """Direct counters and meters of one pipeline. The caller holds the device's lock."""

    def __init__(self, schema: Schema, tables: TableEntries) -> None:
        self._schema = schema
        self._tables = tables
        self._direct = tables.direct

    def read_counters(self, query: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        """Return the direct counters that `query` selects; raises P4RuntimeError."""
        key = query.table_entry
        if not key.table_id:
            check_no_filter(key)
            tables = [table for table in self._schema.tables.values() if table.counter_id]
        else:
            tables = [self._counted(key)]
        snapshot = [
            (table, item, self._direct.counts(table, item))
            for table in tables
            for item in self._tables.named(table, key)
        ]
        return (p4r.Entity(direct_counter_entry=_counter_to_wire(*item)) for item in snapshot)

    def modify_counter(self, message: p4r.DirectCounterEntry) -> None:
        """Set the counts of one entry; raises P4RuntimeError."""
        if not message.HasField("table_entry"):
            raise invalid("a direct counter entry needs its table_entry")
        table = self._counted(message.table_entry)
        stored = self._tables.one(table, message.table_entry)
        if message.HasField("data"):
            self._direct.set_counts(table, stored, counts_from_wire(message.data))

    def read_meters(self, query: p4r.DirectMeterEntry) -> Iterator[p4r.Entity]:
        """Return the direct meters that `query` selects; raises P4RuntimeError."""
        key, ask = query.table_entry, p4r.TableEntry()
        if query.HasField("counter_data"):
            ask.meter_counter_data.SetInParent()
        if not key.table_id:
            check_no_filter(key)
            tables = [table for table in self._schema.tables.values() if table.meter_id]
        else:
            tables = [self._metered(key)]
        snapshot = [
            (
                table,
                item,
                self._tables.meter(table, item),
                self._direct.live(table, item, ask),
            )
            for table in tables
            for item in self._tables.named(table, key)
        ]
        return (_meter_to_wire(*item) for item in snapshot)

    def modify_meter(self, message: p4r.DirectMeterEntry) -> None:
        """Configure the meter of one entry; raises P4RuntimeError."""
        if not message.HasField("table_entry"):
            raise invalid("a direct meter entry needs its table_entry")
        key = message.table_entry
        table = self._metered(key)
        stored = self._tables.one(table, key)
        if message.HasField("counter_data"):
            check_colors(message.counter_data, f"table {table.name}")
        config = None
        if message.HasField("config"):
            config = p4r.MeterConfig()
            config.CopyFrom(message.config)
        self._direct.write(table, stored, message, self._tables.meter(table, stored))
        self._tables.set_meter(table, stored, config)

    def meter_before(self, message: p4r.DirectMeterEntry) -> Iterator[p4r.Entity]:
        """Return the direct meter that a MODIFY is about to change."""
        return self.read_meters(p4r.DirectMeterEntry(table_entry=message.table_entry))

    def counter_before(self, message: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        """Return the direct counter that a MODIFY is about to change."""
        table = self._counted(message.table_entry)
        stored = self._tables.one(table, message.table_entry)
        counts = self._direct.counts(table, stored)
        return iter([p4r.Entity(direct_counter_entry=_counter_to_wire(table, stored, counts))])

    def _counted(self, key: p4r.TableEntry) -> TableInfo:
        table = self._schema.table(key.table_id)
        check_counter(table)
        return table

    def _metered(self, key: p4r.TableEntry) -> TableInfo:
        table = self._schema.table(key.table_id)
        check_meter(table)
        return table


def _counter_to_wire(
    table: TableInfo, stored: Stored | None, counts: Counts
) -> p4r.DirectCounterEntry:
    return p4r.DirectCounterEntry(table_entry=key_message(table, stored), data=counter_data(counts))


def _meter_to_wire(
    table: TableInfo,
    stored: Stored | None,
    config: p4r.MeterConfig | None,
    live: Live,
) -> p4r.Entity:
    entry = p4r.DirectMeterEntry(table_entry=key_message(table, stored), config=config)
    if live.colors is not None:
        entry.counter_data.CopyFrom(colors_to_wire(live.colors))
    return p4r.Entity(direct_meter_entry=entry)
