"""The kinds of entities: what to do with each in a Write and in a Read.

A kind is one entry of `KINDS`. Everything else, batches and their rollback included, works with
any kind that is listed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4i, p4r

from softswitch.p4runtime.counters import modify_counter, read_counters
from softswitch.p4runtime.errors import invalid, unimplemented
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.registers import modify_register, read_registers

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

UPDATE_TYPES: dict[int, str] = {INSERT: "INSERT", MODIFY: "MODIFY", DELETE: "DELETE"}


@dataclass(frozen=True)
class Kind:
    """One kind of entity. Functions take the entity's own message and raise SoftSwitchError."""

    write: Callable[[Pipeline, int, Any], None]
    """Applies an update of a p4r.Update.Type: wholly, or not at all if it raises."""
    read: Callable[[Pipeline, Any], Iterator[p4r.Entity]]
    """Looks at the state in the call and makes the messages lazily."""
    state: Callable[[Pipeline], Iterator[p4r.Update]] | None
    """The updates that make, in a new pipeline, what controllers wrote into this one (see
    `reconcile`). None: nothing but what packets change, or part of another kind's state."""
    before: Callable[[Pipeline, int, Any], Iterator[p4r.Entity]] | None = None
    """What a MODIFY or DELETE is about to change: for each entity, the message that an opposite
    MODIFY or INSERT needs. None: what `read` returns for the message."""


def kind_of(entity: p4r.Entity) -> tuple[Kind, Any]:
    """Return the kind of an entity and its message; raises P4RuntimeError if there is none."""
    name = entity_name(entity)
    kind = KINDS.get(name)
    if kind is None:
        raise unimplemented(f"{name} is not supported by this switch; supported: {_supported()}")
    return kind, getattr(entity, name)


def kind_of_update(update: p4r.Update) -> tuple[Kind, Any]:
    """Return the kind of an update's entity and its message; raises P4RuntimeError."""
    if update.type not in UPDATE_TYPES:
        raise invalid(f"update type {update.type} is unknown; allowed: INSERT, MODIFY, DELETE")
    return kind_of(update.entity)


def entity_name(entity: p4r.Entity) -> str:
    """Return which entity is set; raises P4RuntimeError if none is."""
    name: str | None = entity.WhichOneof("entity")
    if name is None:
        raise invalid(f"the entity is not set; supported: {_supported()}")
    return name


def apply_update(pipeline: Pipeline, update: p4r.Update) -> None:
    """Apply one update of a Write; raises P4RuntimeError or the engine's SoftSwitchError."""
    kind, message = kind_of_update(update)
    kind.write(pipeline, update.type, message)


def read_entities(pipeline: Pipeline, query: p4r.Entity) -> Iterator[p4r.Entity]:
    """Return what a query selects. State is looked at in this call, messages are made lazily."""
    name = entity_name(query)
    if name in _OPTIONAL and name not in KINDS and not _is_in_program(pipeline, name):
        id_field, _ = _OPTIONAL[name]
        if not getattr(getattr(query, name), id_field):
            return iter(())
    kind, message = kind_of(query)
    return kind.read(pipeline, message)


_OPTIONAL = {
    "meter_entry": ("meter_id", p4i.P4Ids.METER),
    "value_set_entry": ("value_set_id", p4i.P4Ids.VALUE_SET),
    "digest_entry": ("digest_id", p4i.P4Ids.DIGEST),
}
"""Unsupported kinds: reading all of a kind that the program has none of is simply empty."""


def _is_in_program(pipeline: Pipeline, name: str) -> bool:
    _, prefix = _OPTIONAL[name]
    return any(object_id >> 24 == prefix for object_id in pipeline.schema.unsupported)


def _supported() -> str:
    return ", ".join(KINDS)


def _only_modify(kind: int, what: str) -> None:
    if kind != MODIFY:
        raise invalid(f"{UPDATE_TYPES[kind]} is not allowed for a {what}; use MODIFY")


def _write_counter(pipeline: Pipeline, kind: int, message: p4r.CounterEntry) -> None:
    _only_modify(kind, "counter entry")
    modify_counter(pipeline.schema, pipeline.dataplane, message)


def _write_direct_counter(pipeline: Pipeline, kind: int, message: p4r.DirectCounterEntry) -> None:
    _only_modify(kind, "direct counter entry")
    pipeline.tables.modify_counter(message)


def _write_register(pipeline: Pipeline, kind: int, message: p4r.RegisterEntry) -> None:
    _only_modify(kind, "register entry")
    modify_register(pipeline.schema, pipeline.dataplane, message)


def _inserts(entities: Iterator[p4r.Entity]) -> Iterator[p4r.Update]:
    return (p4r.Update(type=INSERT, entity=entity) for entity in entities)


KINDS: dict[str, Kind] = {
    "table_entry": Kind(
        write=lambda pipeline, kind, message: pipeline.tables.write(kind, message),
        read=lambda pipeline, query: pipeline.tables.read(query),
        state=lambda pipeline: pipeline.tables.state(),
        before=lambda pipeline, kind, message: pipeline.tables.before(kind, message),
    ),
    "action_profile_member": Kind(
        write=lambda pipeline, kind, message: pipeline.profiles.write_member(kind, message),
        read=lambda pipeline, query: pipeline.profiles.read_members(query),
        state=lambda pipeline: _inserts(pipeline.profiles.read_members(p4r.ActionProfileMember())),
    ),
    "action_profile_group": Kind(
        write=lambda pipeline, kind, message: pipeline.profiles.write_group(kind, message),
        read=lambda pipeline, query: pipeline.profiles.read_groups(query),
        state=lambda pipeline: _inserts(pipeline.profiles.read_groups(p4r.ActionProfileGroup())),
    ),
    "counter_entry": Kind(
        write=_write_counter,
        read=lambda pipeline, query: read_counters(pipeline.schema, pipeline.dataplane, query),
        state=None,
    ),
    "direct_counter_entry": Kind(
        write=_write_direct_counter,
        read=lambda pipeline, query: pipeline.tables.read_counters(query),
        state=None,
        before=lambda pipeline, _kind, message: pipeline.tables.counter_before(message),
    ),
    "register_entry": Kind(
        write=_write_register,
        read=lambda pipeline, query: read_registers(pipeline.schema, pipeline.dataplane, query),
        state=None,
    ),
    "packet_replication_engine_entry": Kind(
        write=lambda pipeline, kind, message: pipeline.replication.write(kind, message),
        read=lambda pipeline, query: pipeline.replication.read(query),
        state=lambda pipeline: _inserts(
            pipeline.replication.read(p4r.PacketReplicationEngineEntry())
        ),
    ),
}
