"""Parser value sets, which controllers write and read as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.p4runtime.errors import exhausted
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_state import ValueSetInfo
from softswitch.p4runtime.translate import key_from_wire, key_to_wire


def modify_value_set(schema: Schema, dataplane: DataPlane, message: p4r.ValueSetEntry) -> None:
    """Replace the members of a value set; raises P4RuntimeError."""
    info = schema.value_set(message.value_set_id)
    if len(message.members) > info.size:
        raise exhausted(f"value set {info.name}: {len(message.members)} members, of {info.size}")
    members = [key_from_wire(info.key, member.match) for member in message.members]
    kinds = [field.match_type for field in info.key.fields_by_position]
    dataplane.value_sets[info.name].write(members, kinds)


def read_value_sets(
    schema: Schema, dataplane: DataPlane, query: p4r.ValueSetEntry
) -> Iterator[p4r.Entity]:
    """Return the value sets that `query` selects; an id of 0 selects all."""
    infos = list(schema.value_sets.values())
    if query.value_set_id:
        infos = [schema.value_set(query.value_set_id)]
    return iter([_to_wire(info, dataplane) for info in infos])


def value_set_state(schema: Schema, dataplane: DataPlane) -> Iterator[p4r.Update]:
    """Return the updates that make the members that there are now."""
    for entity in read_value_sets(schema, dataplane, p4r.ValueSetEntry()):
        if entity.value_set_entry.members:
            yield p4r.Update(type=p4r.Update.MODIFY, entity=entity)


def _to_wire(info: ValueSetInfo, dataplane: DataPlane) -> p4r.Entity:
    entry = p4r.ValueSetEntry(value_set_id=info.id)
    for member in dataplane.value_sets[info.name].members():
        entry.members.add(match=key_to_wire(info.key, member))
    return p4r.Entity(value_set_entry=entry)
