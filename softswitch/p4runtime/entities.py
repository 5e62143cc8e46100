"""The kinds of entities: what to do with each in a Write and in a Read.

A kind is one entry of `KINDS`. Everything else, batches and their rollback included, works with
any kind that is listed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4r

from softswitch.p4runtime.counters import modify_counter, read_counters
from softswitch.p4runtime.errors import invalid, unimplemented
from softswitch.p4runtime.meters import meter_state, modify_meter, read_meters
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.registers import modify_register, read_registers
from softswitch.p4runtime.value_sets import (
    modify_value_set,
    read_value_sets,
    value_set_state,
)

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
    kind, message = kind_of(query)
    return kind.read(pipeline, message)


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
    pipeline.direct.modify_counter(message)


def _write_register(pipeline: Pipeline, kind: int, message: p4r.RegisterEntry) -> None:
    _only_modify(kind, "register entry")
    modify_register(pipeline.schema, pipeline.dataplane, message)


def _write_meter(pipeline: Pipeline, kind: int, message: p4r.MeterEntry) -> None:
    _only_modify(kind, "meter entry")
    modify_meter(pipeline.schema, pipeline.dataplane, message)


def _write_direct_meter(pipeline: Pipeline, kind: int, message: p4r.DirectMeterEntry) -> None:
    _only_modify(kind, "direct meter entry")
    pipeline.direct.modify_meter(message)


def _write_value_set(pipeline: Pipeline, kind: int, message: p4r.ValueSetEntry) -> None:
    _only_modify(kind, "value set entry")
    modify_value_set(pipeline.schema, pipeline.dataplane, message)


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
        read=lambda pipeline, query: pipeline.direct.read_counters(query),
        state=None,
        before=lambda pipeline, _kind, message: pipeline.direct.counter_before(message),
    ),
    "meter_entry": Kind(
        write=_write_meter,
        read=lambda pipeline, query: read_meters(pipeline.schema, pipeline.dataplane, query),
        state=lambda pipeline: meter_state(pipeline.schema, pipeline.dataplane),
    ),
    "direct_meter_entry": Kind(
        write=_write_direct_meter,
        read=lambda pipeline, query: pipeline.direct.read_meters(query),
        state=None,  # table entries carry theirs
        before=lambda pipeline, _kind, message: pipeline.direct.meter_before(message),
    ),
    "value_set_entry": Kind(
        write=_write_value_set,
        read=lambda pipeline, query: read_value_sets(pipeline.schema, pipeline.dataplane, query),
        state=lambda pipeline: value_set_state(pipeline.schema, pipeline.dataplane),
    ),
    "digest_entry": Kind(
        write=lambda pipeline, kind, message: pipeline.digests.write(kind, message),
        read=lambda pipeline, query: pipeline.digests.read(query),
        state=lambda pipeline: _inserts(pipeline.digests.read(p4r.DigestEntry())),
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
