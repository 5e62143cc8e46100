"""Table entries as messages: what is checked before anything is looked up, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4r

from softswitch.meters import MeterState
from softswitch.p4runtime.action_profiles import one_shot_to_wire, target_to_wire
from softswitch.p4runtime.counters import counter_data, counts_from_wire
from softswitch.p4runtime.errors import P4RuntimeError, invalid
from softswitch.p4runtime.limits import check_metadata
from softswitch.p4runtime.meters import check_colors, colors_to_wire
from softswitch.p4runtime.schema_types import FieldInfo, TableInfo
from softswitch.p4runtime.translate import (
    Key,
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
    one_shot: p4r.ActionProfileActionSet | None = None
    meter: p4r.MeterConfig | None = None
    idle_timeout_ns: int = 0


@dataclass(frozen=True)
class Live:
    """What the data plane counts for an entry, as far as it is asked for."""

    counts: Counts | None = None
    colors: MeterState | None = None
    elapsed_ns: int | None = None


def canonical(table: TableInfo, key: Key) -> Key:
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


def slot_of(table: TableInfo, message: p4r.TableEntry) -> Slot:
    """Return what names the entry of a message; raises P4RuntimeError."""
    priority = message.priority
    check_priority(table, priority)
    return key_from_wire(table, message.match), priority


def check_write(table: TableInfo, message: p4r.TableEntry) -> None:
    """Raise P4RuntimeError unless a write may carry what `message` has set."""
    if message.is_const:
        raise invalid(f"table {table.name}: is_const must be false in a write")
    check_metadata(message.metadata, f"table {table.name}")
    if message.HasField("time_since_last_hit"):
        raise invalid(f"table {table.name}: time_since_last_hit must be unset in a write")
    if message.idle_timeout_ns and (not table.idle_timeout or message.is_default_action):
        raise no_idle_timeout(table)
    if message.idle_timeout_ns < 0:
        raise invalid(f"table {table.name}: idle_timeout_ns must not be negative")
    if message.HasField("counter_data"):
        check_counter(table)
        counts_from_wire(message.counter_data)
    if message.HasField("meter_config"):
        check_meter(table)
    if message.HasField("meter_counter_data"):
        check_meter(table)
        check_colors(message.meter_counter_data, f"table {table.name}")


def check_counter(table: TableInfo) -> None:
    """Raise P4RuntimeError unless the table has a direct counter."""
    if not table.counter_id:
        raise invalid(f"table {table.name} has no direct counter")


def check_meter(table: TableInfo) -> None:
    """Raise P4RuntimeError unless the table has a direct meter."""
    if not table.meter_id:
        raise invalid(f"table {table.name} has no direct meter")


def check_read(table: TableInfo, query: p4r.TableEntry) -> None:
    """Raise P4RuntimeError unless a read of one table may ask for this."""
    asks_for_age = query.HasField("time_since_last_hit")
    if asks_for_age and (not table.idle_timeout or query.is_default_action):
        raise no_idle_timeout(table)
    if query.HasField("action"):
        if query.action.WhichOneof("type") != "action":
            raise invalid(f"table {table.name}: entries can be filtered by action_id only")
        if query.action.action.action_id not in table.actions:
            raise invalid(
                f"table {table.name}: no action has id {query.action.action.action_id:#010x}"
            )


def check_no_filter(query: p4r.TableEntry) -> None:
    """Raise P4RuntimeError if a read of all tables has a filter."""
    if (
        query.match
        or query.HasField("action")
        or query.priority
        or query.controller_metadata
        or query.metadata
        or query.is_default_action
    ):
        raise invalid("table_id is 0 (all tables); no other filter can go with it")


def no_idle_timeout(table: TableInfo) -> P4RuntimeError:
    """Return the error for the idle timeout of a table, or of a default entry, without one."""
    what = "its default entry has" if table.idle_timeout else "it has"
    return invalid(f"table {table.name}: {what} no idle timeout")


def passes(table: TableInfo, stored: Stored, query: p4r.TableEntry) -> bool:
    """Return True if an entry passes the filter of a read."""
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


def to_wire(table: TableInfo, stored: Stored, live: Live | None = None) -> p4r.TableEntry:
    """Return the message of an entry; its meter is shown as it is configured."""
    entry = stored.entry
    message = p4r.TableEntry(
        table_id=table.id,
        match=key_to_wire(table, entry.key),
        priority=entry.priority,
        is_const=entry.is_const,
        metadata=stored.metadata,
        controller_metadata=stored.controller_metadata,
        idle_timeout_ns=stored.idle_timeout_ns,
        meter_config=stored.meter,
    )
    action = table.actions_by_name.get(entry.action)
    if stored.one_shot is not None:
        message.action.CopyFrom(one_shot_to_wire(stored.one_shot))
    elif entry.target is not None:
        message.action.CopyFrom(target_to_wire(entry.target))
    elif action is not None:
        message.action.CopyFrom(action_to_wire(action, entry.params))
    show_live(message, live or Live())
    return message


def show_live(message: p4r.TableEntry, live: Live) -> None:
    """Put what the data plane counts into a message."""
    if live.counts is not None:
        message.counter_data.CopyFrom(counter_data(live.counts))
    if live.colors is not None:
        message.meter_counter_data.CopyFrom(colors_to_wire(live.colors))
    if live.elapsed_ns is not None:
        message.time_since_last_hit.elapsed_ns = live.elapsed_ns


def key_message(table: TableInfo, stored: Stored | None) -> p4r.TableEntry:
    """Return what names an entry; None is the default entry."""
    if stored is None:
        return p4r.TableEntry(table_id=table.id, is_default_action=True)
    return p4r.TableEntry(
        table_id=table.id,
        match=key_to_wire(table, stored.entry.key),
        priority=stored.entry.priority,
    )


def idle_message(table: TableInfo, stored: Stored) -> p4r.TableEntry:
    """Return what a notification says of an idle entry."""
    message = key_message(table, stored)
    message.metadata = stored.metadata
    message.controller_metadata = stored.controller_metadata
    message.idle_timeout_ns = stored.idle_timeout_ns
    return message
