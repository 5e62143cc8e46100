"""What to do with each kind of entity in a Write and in a Read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from finsy.proto import p4i, p4r

from softswitch.p4runtime.counters import modify_counter, read_counters
from softswitch.p4runtime.errors import invalid, unimplemented
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.registers import modify_register, read_registers

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

_KINDS: dict[int, str] = {INSERT: "INSERT", MODIFY: "MODIFY", DELETE: "DELETE"}

_ENTITIES = (
    "table_entry, counter_entry, direct_counter_entry, register_entry, "
    "packet_replication_engine_entry"
)

_OPTIONAL = {
    "action_profile_member": ("action_profile_id", p4i.P4Ids.ACTION_PROFILE),
    "action_profile_group": ("action_profile_id", p4i.P4Ids.ACTION_PROFILE),
    "meter_entry": ("meter_id", p4i.P4Ids.METER),
    "value_set_entry": ("value_set_id", p4i.P4Ids.VALUE_SET),
    "digest_entry": ("digest_id", p4i.P4Ids.DIGEST),
}
"""Unsupported kinds: reading all of a kind that the program has none of is simply empty."""


def apply_update(pipeline: Pipeline, update: p4r.Update) -> None:
    """Apply one update of a Write; raises P4RuntimeError or the engine's SoftSwitchError."""
    if update.type not in _KINDS:
        raise invalid(f"update type {update.type} is unknown; allowed: INSERT, MODIFY, DELETE")
    name = _entity(update.entity)
    writer = _WRITERS.get(name)
    if writer is None:
        raise _unsupported(name)
    writer(pipeline, update.type, getattr(update.entity, name))


def read_entities(pipeline: Pipeline, query: p4r.Entity) -> Iterator[p4r.Entity]:
    """Return what a query selects. State is looked at in this call, messages are made lazily."""
    name = _entity(query)
    message = getattr(query, name)
    reader = _READERS.get(name)
    if reader is not None:
        return reader(pipeline, message)
    if name in _OPTIONAL and not _is_in_program(pipeline, name):
        id_field, _ = _OPTIONAL[name]
        if not getattr(message, id_field):
            return iter(())
    raise _unsupported(name)


def _is_in_program(pipeline: Pipeline, name: str) -> bool:
    _, prefix = _OPTIONAL[name]
    return any(object_id >> 24 == prefix for object_id in pipeline.schema.unsupported)


def _entity(entity: p4r.Entity) -> str:
    name: str | None = entity.WhichOneof("entity")
    if name is None:
        raise invalid(f"the entity is not set; supported: {_ENTITIES}")
    return name


def _unsupported(name: str) -> Exception:
    return unimplemented(f"{name} is not supported by this switch; supported: {_ENTITIES}")


def _write_table_entry(pipeline: Pipeline, kind: int, message: p4r.TableEntry) -> None:
    if kind == INSERT:
        pipeline.tables.insert(message)
    elif kind == MODIFY:
        pipeline.tables.modify(message)
    else:
        pipeline.tables.delete(message)


def _only_modify(kind: int, what: str) -> None:
    if kind != MODIFY:
        raise invalid(f"{_KINDS[kind]} is not allowed for a {what}; use MODIFY")


def _write_counter(pipeline: Pipeline, kind: int, message: p4r.CounterEntry) -> None:
    _only_modify(kind, "counter entry")
    modify_counter(pipeline.schema, pipeline.dataplane, message)


def _write_direct_counter(pipeline: Pipeline, kind: int, message: p4r.DirectCounterEntry) -> None:
    _only_modify(kind, "direct counter entry")
    pipeline.tables.modify_counter(message)


def _write_register(pipeline: Pipeline, kind: int, message: p4r.RegisterEntry) -> None:
    _only_modify(kind, "register entry")
    modify_register(pipeline.schema, pipeline.dataplane, message)


def _write_replication(
    pipeline: Pipeline, kind: int, message: p4r.PacketReplicationEngineEntry
) -> None:
    pipeline.replication.write(kind, message)


_WRITERS: dict[str, Callable[[Pipeline, int, Any], None]] = {
    "table_entry": _write_table_entry,
    "counter_entry": _write_counter,
    "direct_counter_entry": _write_direct_counter,
    "register_entry": _write_register,
    "packet_replication_engine_entry": _write_replication,
}

_READERS: dict[str, Callable[[Pipeline, Any], Iterator[p4r.Entity]]] = {
    "table_entry": lambda pipeline, query: pipeline.tables.read(query),
    "counter_entry": lambda pipeline, query: read_counters(
        pipeline.schema, pipeline.dataplane, query
    ),
    "direct_counter_entry": lambda pipeline, query: pipeline.tables.read_counters(query),
    "register_entry": lambda pipeline, query: read_registers(
        pipeline.schema, pipeline.dataplane, query
    ),
    "packet_replication_engine_entry": lambda pipeline, query: pipeline.replication.read(query),
}
