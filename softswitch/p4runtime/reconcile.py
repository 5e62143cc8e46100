"""RECONCILE_AND_COMMIT: the state of one pipeline, carried over to its successor.

What controllers wrote (entries, groups, sessions, changed defaults) is written again into the new
pipeline, under the ids that its P4Info gives to the same names. What packets changed (registers and
counters) follows while no packet is processed. Anything that the new pipeline cannot hold is a
reason to refuse it; counters are statistics, and are dropped with the object that they counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc
from finsy.proto import p4i, p4r
from google.protobuf.message import Message

from softswitch.errors import NotFound, SoftSwitchError
from softswitch.p4runtime.entities import INSERT, KINDS, MODIFY, apply_update
from softswitch.p4runtime.errors import P4RuntimeError, from_engine, invalid
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.schema_types import TableInfo

_ID_FIELDS = frozenset(
    {"table_id", "action_id", "action_profile_id", "meter_id", "value_set_id", "digest_id"}
)
_PART_FIELDS = frozenset({"field_id", "param_id"})

Carry = Callable[[], None]


def carry_over(old: Pipeline, new: Pipeline) -> Carry:
    """Write the state of `old` into `new`; the result carries over what packets change.

    The result is to be called when `old` processes no packets any more and `new` does not yet.
    Raises P4RuntimeError (INVALID_ARGUMENT) if `new` cannot hold the state.
    """
    # Registers hold numbers that names stand for, so these must not change.
    new.schema.translations.adopt(old.schema.translations)
    renaming = Renaming(old.config.p4info, new.config.p4info)
    for update in _updates(old):
        try:
            _apply(new, renaming.update(update))
        except SoftSwitchError as error:
            raise _lost(_what(old, update), from_engine(error).message) from None
    steps = [*_registers(old, new), *_counters(old, new), *_direct_counters(old, new)]

    def carry() -> None:
        for step in steps:
            step()

    return carry


class Renaming:
    """Ids of one P4Info to those that another gives to the same names."""

    def __init__(self, old: p4i.P4Info, new: p4i.P4Info) -> None:
        ids = {key: item.preamble.id for key, item in _objects(new)}
        parts = {key: _parts(item) for key, item in _objects(new)}
        self._names: dict[int, str] = {}
        self._ids: dict[int, int] = {}
        self._parts: dict[int, dict[int, int]] = {}
        for key, item in _objects(old):
            number = item.preamble.id
            self._names[number] = item.preamble.name
            if key not in ids:
                continue
            self._ids[number] = ids[key]
            theirs = parts[key]
            self._parts[number] = {
                part: theirs[name] for name, part in _parts(item).items() if name in theirs
            }
        self._is_identity = old == new

    def update(self, update: p4r.Update) -> p4r.Update:
        """Return an update with the new ids; raises P4RuntimeError if an object has none."""
        if self._is_identity:
            return update
        renamed = p4r.Update()
        renamed.CopyFrom(update)
        self._rename(renamed.entity, 0)
        return renamed

    def _rename(self, message: Message, owner: int) -> None:
        """Rename in place; `owner` is the object that fields and parameters belong to."""
        fields = message.ListFields()
        for field, value in fields:
            if field.name in _ID_FIELDS:
                owner = value
                setattr(message, field.name, self._object(value))
        for field, value in fields:
            if field.name in _PART_FIELDS:
                setattr(message, field.name, self._part(owner, value))
            elif field.message_type is not None:
                for item in value if field.is_repeated else (value,):
                    self._rename(item, owner)

    def _object(self, number: int) -> int:
        if number not in self._ids:
            raise invalid(f"{self._names.get(number, number)!r} is not in the new P4Info")
        return self._ids[number]

    def _part(self, owner: int, number: int) -> int:
        found = self._parts.get(owner, {}).get(number)
        if found is None:
            raise invalid(
                f"field or parameter {number} of {self._names.get(owner, owner)!r} is not in the "
                "new P4Info"
            )
        return found


def _objects(info: p4i.P4Info) -> Iterator[tuple[tuple[str, str], Any]]:
    for collection in (
        "tables",
        "actions",
        "action_profiles",
        "meters",
        "direct_meters",
        "value_sets",
        "digests",
    ):
        for item in getattr(info, collection):
            yield (collection, item.preamble.name), item


def _parts(item: Any) -> dict[str, int]:
    """Return the ids of an object's key fields or parameters by name."""
    for name in ("match_fields", "match", "params"):
        if hasattr(item, name):
            return {part.name: part.id for part in getattr(item, name)}
    return {}


def _updates(pipeline: Pipeline) -> Iterator[p4r.Update]:
    # Table entries refer to members and groups of action profiles, so they come last.
    for name in sorted(KINDS, key=lambda name: name == "table_entry"):
        state = KINDS[name].state
        if state is not None:
            yield from state(pipeline)


def _apply(pipeline: Pipeline, update: p4r.Update) -> None:
    """Apply an update to a pipeline that may have the entity, or lack it, from the start."""
    try:
        apply_update(pipeline, update)
    except SoftSwitchError as error:
        code = from_engine(error).code
        if update.type == INSERT and code is grpc.StatusCode.ALREADY_EXISTS:
            apply_update(pipeline, p4r.Update(type=MODIFY, entity=update.entity))
        elif update.type != p4r.Update.DELETE or code is not grpc.StatusCode.NOT_FOUND:
            raise


def _what(pipeline: Pipeline, update: p4r.Update) -> str:
    name: str = update.entity.WhichOneof("entity") or ""
    if name == "table_entry":
        return f"table {pipeline.schema.table(update.entity.table_entry.table_id).name!r}"
    return name


def _lost(what: str, reason: str) -> P4RuntimeError:
    return invalid(
        f"the forwarding state cannot be preserved: {what}: {reason}; remove it, or use "
        "VERIFY_AND_COMMIT to start anew"
    )


def _registers(old: Pipeline, new: Pipeline) -> Iterator[Carry]:
    there = new.dataplane.program.register_arrays
    for name, register in old.dataplane.program.register_arrays.items():
        found = there.get(name)
        if found is not None and found.width == register.width and found.size >= register.size:
            yield partial(_copy_register, old, new, name)
        elif any(old.dataplane.registers_save(name)):
            shape = f"{register.size} cells of {register.width} bits"
            other = (
                f"{found.size} of {found.width} bits in the new program"
                if found is not None
                else "none in the new program"
            )
            raise _lost(f"register {name!r}", f"{shape}, not all zero, {other}")


def _copy_register(old: Pipeline, new: Pipeline, name: str) -> None:
    new.dataplane.registers_load(name, old.dataplane.registers_save(name))


def _counters(old: Pipeline, new: Pipeline) -> Iterator[Carry]:
    there = new.dataplane.program.counter_arrays
    for name, counter in old.dataplane.program.counter_arrays.items():
        found = there.get(name)
        if not counter.is_direct and found is not None and not found.is_direct:
            size = min(counter.size, found.size)
            yield partial(_copy_counter, old, new, name, size)


def _copy_counter(old: Pipeline, new: Pipeline, name: str, size: int) -> None:
    for index, (packets, octets) in enumerate(old.dataplane.counters_read(name, 0, size)):
        if packets or octets:
            new.dataplane.counter_write(name, index, packets, octets)


def _direct_counters(old: Pipeline, new: Pipeline) -> Iterator[Carry]:
    there = {table.name: table for table in new.schema.tables.values()}
    for table in old.schema.tables.values():
        found = there.get(table.name)
        if table.counter_id and found is not None and found.counter_id:
            places = _places(table, found)
            if places is not None:
                yield partial(_copy_counts, old, new, table, places)


def _places(old: TableInfo, new: TableInfo) -> list[int] | None:
    """Return where each field of the new key is in the old one, None if some is not there."""
    by_name = {item.name: item.position for item in old.fields}
    if {item.name for item in new.fields} != set(by_name):
        return None
    return [by_name[item.name] for item in new.fields_by_position]


def _copy_counts(old: Pipeline, new: Pipeline, table: TableInfo, places: list[int]) -> None:
    for entry in old.dataplane.table_entries(table.name):
        counts = old.dataplane.direct_counter_read(table.name, entry.key, entry.priority)
        key = [entry.key[place] for place in places]
        if any(counts):
            try:
                new.dataplane.direct_counter_write(table.name, key, entry.priority, *counts)
            except NotFound:
                continue  # an entry of the program alone, which the new program has not
