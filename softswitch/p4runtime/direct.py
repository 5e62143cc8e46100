"""Direct resources: the counter, the meter and the age of each entry of a table."""

from __future__ import annotations

from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.meters import DEFAULT_ENTRY, MeterStore
from softswitch.p4runtime.counters import counts_from_wire
from softswitch.p4runtime.idle import IdleTimeouts
from softswitch.p4runtime.meters import config_from_wire
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_types import TableInfo
from softswitch.p4runtime.table_messages import Counts, Live, Stored, idle_message


class DirectResources:
    """What the data plane keeps for the entries of one pipeline; None is a default entry."""

    def __init__(self, schema: Schema, dataplane: DataPlane, idle: IdleTimeouts) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._idle = idle

    def counts(self, table: TableInfo, stored: Stored | None) -> Counts:
        """Return the packets and bytes of an entry."""
        if stored is None:
            return self._dataplane.direct_counter_read(table.name, None, 0)
        entry = stored.entry
        return self._dataplane.direct_counter_read(table.name, entry.key, entry.priority)

    def set_counts(self, table: TableInfo, stored: Stored | None, counts: Counts) -> None:
        """Set the packets and bytes of an entry."""
        key = None if stored is None else stored.entry.key
        priority = 0 if stored is None else stored.entry.priority
        self._dataplane.direct_counter_write(table.name, key, priority, *counts)

    def live(self, table: TableInfo, stored: Stored | None, query: p4r.TableEntry) -> Live:
        """Return what a query asks for of one entry, as far as the table has it."""
        with_counts = table.counter_id and query.HasField("counter_data")
        with_colors = table.meter_id and query.HasField("meter_counter_data")
        elapsed_ns = None
        if stored is not None and table.idle_timeout and query.HasField("time_since_last_hit"):
            [hit_us] = self._dataplane.last_hits_us(table.name, [self._index(table, stored)])
            elapsed_ns = max(self._dataplane.clock_us() - hit_us, 0) * 1000
        colors = None
        if with_colors:
            [colors] = self._meters(table).read(self._index(table, stored))
        counts = self.counts(table, stored) if with_counts else None
        return Live(counts, colors, elapsed_ns)

    def write(
        self,
        table: TableInfo,
        stored: Stored | None,
        message: p4r.TableEntry | p4r.DirectMeterEntry,
        before: p4r.MeterConfig | None,
    ) -> None:
        """Set what a write says of an entry's counter and meter; `before`: its meter until now."""
        if isinstance(message, p4r.DirectMeterEntry):
            config, clear = message.config, message.HasField("counter_data")
            has_config = message.HasField("config")
        else:
            config, clear = message.meter_config, message.HasField("meter_counter_data")
            has_config = message.HasField("meter_config")
            if message.HasField("counter_data"):
                self.set_counts(table, stored, counts_from_wire(message.counter_data))
        if not table.meter_id or not (clear or has_config or before is not None):
            return
        index = self._index(table, stored)
        if clear:
            self._meters(table).clear(index)
        if has_config:
            info = self._schema.meters[table.meter_id]
            self._meters(table).write(index, config_from_wire(info, config))
        elif before is not None:
            self._meters(table).write(index, None)

    def check_config(self, table: TableInfo, message: p4r.TableEntry) -> None:
        """Raise P4RuntimeError for a bad configuration, before anything is written."""
        if message.HasField("meter_config"):
            config_from_wire(self._schema.meters[table.meter_id], message.meter_config)

    def watch(self, table: TableInfo, stored: Stored) -> None:
        """Watch an entry for as long as it is not hit, or no more."""
        if table.idle_timeout:
            index = self._index(table, stored)
            if stored.idle_timeout_ns:
                self._idle.watch(table, index, idle_message(table, stored))
            else:
                self._idle.forget(table, index)

    def forget(self, table: TableInfo, stored: Stored) -> None:
        """Watch an entry no more that is about to be deleted."""
        if table.idle_timeout:
            self._idle.forget(table, self._index(table, stored))

    def _index(self, table: TableInfo, stored: Stored | None) -> int:
        if stored is None:
            return DEFAULT_ENTRY
        return self._dataplane.entry_index(table.name, stored.entry.key, stored.entry.priority)

    def _meters(self, table: TableInfo) -> MeterStore:
        return self._dataplane.meters[self._schema.meters[table.meter_id].name]
