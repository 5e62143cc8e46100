"""P4Info, checked against the program it describes and indexed by id.

Everything that a request needs is one dictionary look-up away; nothing here changes after the
pipeline is verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from finsy.proto import p4i, p4t

from softswitch.p4runtime.errors import invalid, not_found, unimplemented
from softswitch.p4runtime.schema_profiles import ProfileInfo, profile_info
from softswitch.p4runtime.schema_state import (
    DigestInfo,
    MeterInfo,
    ValueSetInfo,
    digest_info,
    header_widths,
    match_digests,
    meter_info,
    value_set_info,
)
from softswitch.p4runtime.schema_types import (
    ActionInfo,
    ActionRef,
    CounterInfo,
    FieldInfo,
    HeaderInfo,
    ParamInfo,
    RegisterInfo,
    TableInfo,
)
from softswitch.p4runtime.translation import Translations, WireType, check_match
from softswitch.program import KeyField, MatchType, Program, Table

_MATCH_TYPES = {
    p4i.MatchField.EXACT: MatchType.EXACT,
    p4i.MatchField.LPM: MatchType.LPM,
    p4i.MatchField.TERNARY: MatchType.TERNARY,
    p4i.MatchField.RANGE: MatchType.RANGE,
    p4i.MatchField.OPTIONAL: MatchType.OPTIONAL,
}

_COLLECTIONS = {
    "tables": p4i.P4Ids.TABLE,
    "actions": p4i.P4Ids.ACTION,
    "action_profiles": p4i.P4Ids.ACTION_PROFILE,
    "counters": p4i.P4Ids.COUNTER,
    "direct_counters": p4i.P4Ids.DIRECT_COUNTER,
    "meters": p4i.P4Ids.METER,
    "direct_meters": p4i.P4Ids.DIRECT_METER,
    "registers": p4i.P4Ids.REGISTER,
    "value_sets": p4i.P4Ids.VALUE_SET,
    "digests": p4i.P4Ids.DIGEST,
    "controller_packet_metadata": p4i.P4Ids.CONTROLLER_HEADER,
}


class _Object(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...


ObjectT = TypeVar("ObjectT", bound=_Object)


@dataclass(frozen=True)
class Schema:
    """The objects of a P4Info by id. `unsupported` maps the ids of the rest to their names."""

    tables: dict[int, TableInfo] = field(default_factory=dict)
    actions: dict[int, ActionInfo] = field(default_factory=dict)
    profiles: dict[int, ProfileInfo] = field(default_factory=dict)
    counters: dict[int, CounterInfo] = field(default_factory=dict)
    meters: dict[int, MeterInfo] = field(default_factory=dict)
    value_sets: dict[int, ValueSetInfo] = field(default_factory=dict)
    digests: dict[int, DigestInfo] = field(default_factory=dict)
    registers: dict[int, RegisterInfo] = field(default_factory=dict)
    headers: dict[str, HeaderInfo] = field(default_factory=dict)
    unsupported: dict[int, str] = field(default_factory=dict)
    translations: Translations = field(default_factory=lambda: Translations(p4t.P4TypeInfo(), {}))

    def table(self, table_id: int) -> TableInfo:
        """Return a table by id; raises P4RuntimeError (NOT_FOUND) naming what there is."""
        return self._get(self.tables, table_id, "table")

    def profile(self, profile_id: int) -> ProfileInfo:
        """Return an action profile by id; raises P4RuntimeError (NOT_FOUND)."""
        return self._get(self.profiles, profile_id, "action profile")

    def counter(self, counter_id: int) -> CounterInfo:
        """Return an indirect counter by id; raises P4RuntimeError (NOT_FOUND)."""
        return self._get(self.counters, counter_id, "counter")

    def meter(self, meter_id: int) -> MeterInfo:
        """Return an indirect meter by id; raises P4RuntimeError (NOT_FOUND)."""
        indirect = {number: info for number, info in self.meters.items() if not info.table_id}
        return self._get(indirect, meter_id, "meter")

    def value_set(self, value_set_id: int) -> ValueSetInfo:
        """Return a parser value set by id; raises P4RuntimeError (NOT_FOUND)."""
        return self._get(self.value_sets, value_set_id, "value set")

    def digest(self, digest_id: int) -> DigestInfo:
        """Return a digest by id; raises P4RuntimeError (NOT_FOUND)."""
        return self._get(self.digests, digest_id, "digest")

    def register(self, register_id: int) -> RegisterInfo:
        """Return a register by id; raises P4RuntimeError (NOT_FOUND, UNIMPLEMENTED)."""
        return self._get(self.registers, register_id, "register")

    def _get(self, objects: Mapping[int, ObjectT], object_id: int, kind: str) -> ObjectT:
        found = objects.get(object_id)
        if found is not None:
            return found
        if object_id in self.unsupported:
            raise unimplemented(f"{self.unsupported[object_id]} is not supported by this switch")
        names = (f"{item.name} ({item.id:#010x})" for item in objects.values())
        raise not_found(f"no {kind} has id {object_id:#010x}; there are {_some(names)}")


def build_schema(
    p4info: p4i.P4Info, program: Program, ports: Mapping[str, int] | None = None
) -> Schema:
    """Index `p4info` after checking that `program` is the program it describes.

    `ports` are the names of interfaces and their ports, for types that are names to controllers.

    Raises P4RuntimeError (INVALID_ARGUMENT, UNIMPLEMENTED) at the first disagreement, naming both
    sides.
    """
    _check_ids(p4info)
    return _Builder(p4info, program, ports or {}).build()


def _check_ids(p4info: p4i.P4Info) -> None:
    seen: dict[int, str] = {}
    for collection, prefix in _COLLECTIONS.items():
        for item in getattr(p4info, collection):
            name, object_id = item.preamble.name, item.preamble.id
            if not name:
                raise invalid(f"P4Info: the object with id {object_id:#010x} has no name")
            if object_id >> 24 != prefix:
                raise invalid(
                    f"P4Info: id {object_id:#010x} of {name!r} must begin with byte {prefix:#04x}"
                )
            if object_id in seen:
                raise invalid(
                    f"P4Info: id {object_id:#010x} belongs to both {seen[object_id]!r} and {name!r}"
                )
            seen[object_id] = name


class _Builder:
    def __init__(self, p4info: p4i.P4Info, program: Program, ports: Mapping[str, int]) -> None:
        self._p4info = p4info
        self._program = program
        self._types = Translations(p4info.type_info, ports)
        self._schema = Schema(translations=self._types)
        self._direct = {item.preamble.id for item in p4info.direct_counters}
        self._real_actions = {action.name: action for action in program.actions}

    def build(self) -> Schema:
        info, schema = self._p4info, self._schema
        meters: list[p4i.Meter | p4i.DirectMeter] = [*info.meters, *info.direct_meters]
        for meter in meters:
            schema.meters[meter.preamble.id] = meter_info(meter, self._program)
        for value_set in info.value_sets:
            schema.value_sets[value_set.preamble.id] = value_set_info(
                value_set, self._program, _MATCH_TYPES, self._types
            )
        for digest, own in match_digests(info, self._program):
            schema.digests[digest.preamble.id] = digest_info(
                digest, own, self._program, info.type_info, self._resolve, self._types
            )
        for action in info.actions:
            schema.actions[action.preamble.id] = self._action(action)
        for profile in info.action_profiles:
            if not profile.table_ids:  # the compiler leaves it out of the program
                what = f"action profile {profile.preamble.name!r}, which no table uses,"
                schema.unsupported[profile.preamble.id] = what
                continue
            schema.profiles[profile.preamble.id] = profile_info(
                profile, self._program.action_profiles, schema.actions
            )
        for table in info.tables:
            schema.tables[table.preamble.id] = self._table(table)
        for counter in info.counters:
            schema.counters[counter.preamble.id] = self._counter(counter)
        for register in info.registers:
            self._register(register)
        for header in info.controller_packet_metadata:
            schema.headers[header.preamble.name] = self._header(header)
        return schema

    def _action(self, action: p4i.Action) -> ActionInfo:
        name = action.preamble.name
        _check_unique((item.id for item in action.params), f"parameters of action {name!r}")
        real = self._real_actions.get(name)
        wires = [WireType(max(item.bitwidth, 1)) for item in action.params]
        if real is not None:
            if len(real.params) != len(wires):
                raise invalid(
                    f"action {name!r} has {len(wires)} parameters in P4Info and "
                    f"{len(real.params)} in the program"
                )
            wires = [
                self._types.of(item, param.width, f"parameter {item.name!r} of action {name!r}")
                for item, param in zip(action.params, real.params, strict=True)
            ]
        params = zip(action.params, wires, strict=True)
        return ActionInfo(
            action.preamble.id,
            name,
            tuple(ParamInfo(item.id, item.name, wire) for item, wire in params),
        )

    def _table(self, table: p4i.Table) -> TableInfo:
        name = table.preamble.name
        real = self._program.tables.get(name)
        if table.size < 0:
            raise invalid(f"table {name!r} has size {table.size} in P4Info; 0 or more is allowed")
        if real is None:
            raise invalid(
                f"P4Info has table {name!r}, the program has {_some(self._program.tables)}"
            )
        profile = self._schema.profiles.get(table.implementation_id)
        if (None if profile is None else profile.name) != real.profile:
            raise invalid(
                f"table {name!r} has implementation {table.implementation_id:#010x} in P4Info and "
                f"action profile {real.profile!r} in the program"
            )
        actions = {ref.id: self._action_ref(ref, real) for ref in table.action_refs}
        counter_id, meter_id = self._direct_resources(table, real)
        return TableInfo(
            label=f"table {name}",
            id=table.preamble.id,
            name=name,
            fields=self._fields(table, real),
            actions=actions,
            is_const=table.is_const_table,
            # The specification lets nobody change the default entry of an indirect table.
            const_default=bool(table.const_default_action_id) or profile is not None,
            counter_id=counter_id,
            meter_id=meter_id,
            idle_timeout=table.idle_timeout_behavior != p4i.Table.NO_TIMEOUT,
            profile_id=table.implementation_id,
            has_initial_entries=table.has_initial_entries,
        )

    def _direct_resources(self, table: p4i.Table, real: Table) -> tuple[int, int]:
        counter_id = meter_id = 0
        for resource in table.direct_resource_ids:
            if resource in self._direct:
                counter_id = resource
            elif resource in self._schema.meters:
                meter_id = resource
            else:
                raise invalid(
                    f"P4Info: table {real.name!r} refers to direct resource {resource:#010x}, "
                    "which does not exist"
                )
        if counter_id and not real.with_counters:
            raise invalid(f"P4Info gives table {real.name!r} a direct counter, the program none")
        if (self._schema.meters[meter_id].name if meter_id else None) != real.meter:
            raise invalid(f"table {real.name!r} has another direct meter in the program")
        return counter_id, meter_id

    def _fields(self, table: p4i.Table, real: Table) -> tuple[FieldInfo, ...]:
        fields = table.match_fields
        if len(fields) != len(real.keys):
            raise invalid(
                f"table {real.name!r} has {len(fields)} key fields in P4Info and "
                f"{len(real.keys)} in the program"
            )
        _check_unique((item.id for item in fields), f"key fields of table {real.name!r}")
        # The compiler keeps the order; names decide where both sides have the same ones.
        slots = {key.name: slot for slot, key in enumerate(real.keys)}
        by_name = len(slots) == len(fields) and all(item.name in slots for item in fields)
        positions = [slots[item.name] if by_name else at for at, item in enumerate(fields)]
        return tuple(
            self._field(item, real.keys[position], position, real.name)
            for item, position in zip(fields, positions, strict=True)
        )

    def _field(self, item: p4i.MatchField, key: KeyField, position: int, table: str) -> FieldInfo:
        what = f"key field {item.name!r} of table {table!r}"
        if item.WhichOneof("match") == "other_match_type":
            raise unimplemented(f"{what} has match type {item.other_match_type!r}")
        given = _MATCH_TYPES.get(item.match_type)
        # The compiler writes optional fields as ternary ones; only P4Info tells them apart.
        same = given == key.match_type or (
            given is MatchType.OPTIONAL and key.match_type is MatchType.TERNARY
        )
        if given is None or not same:
            raise invalid(
                f"{what} is {given or 'unspecified'} in P4Info and {key.match_type} in the program"
            )
        wire = self._types.of(item, key.width, what)
        check_match(wire, given, what)
        return FieldInfo(item.id, item.name, given, wire, position)

    def _action_ref(self, ref: p4i.ActionRef, real: Table) -> ActionRef:
        action = self._schema.actions.get(ref.id)
        if action is None:
            raise invalid(
                f"P4Info: table {real.name!r} refers to action {ref.id:#010x}, which does not exist"
            )
        if action.name not in real.actions:
            raise invalid(
                f"P4Info gives table {real.name!r} action {action.name!r}, the program gives it "
                f"{_some(real.actions)}"
            )
        return ActionRef(
            action,
            in_entries=ref.scope != p4i.ActionRef.DEFAULT_ONLY,
            as_default=ref.scope != p4i.ActionRef.TABLE_ONLY,
        )

    def _counter(self, counter: p4i.Counter) -> CounterInfo:
        name = counter.preamble.name
        real = self._program.counter_arrays.get(name)
        if real is None or real.is_direct:
            raise invalid(f"P4Info has counter {name!r}, which the program does not have")
        if counter.size != real.size:
            raise invalid(
                f"counter {name!r} has {counter.size} cells in P4Info and {real.size} in the "
                "program"
            )
        return CounterInfo(counter.preamble.id, name, real.size)

    def _register(self, register: p4i.Register) -> None:
        name, register_id = register.preamble.name, register.preamble.id
        real = self._program.register_arrays.get(name)
        if real is None:
            raise invalid(f"P4Info has register {name!r}, which the program does not have")
        if register.size != real.size:
            raise invalid(
                f"register {name!r} has {register.size} cells in P4Info and {real.size} in the "
                "program"
            )
        spec = self._resolve(register.type_spec)
        kind = spec.WhichOneof("type_spec")
        bits = spec.bitstring.WhichOneof("type_spec") if kind == "bitstring" else None
        if kind != "bool" and bits not in ("bit", "int"):
            self._schema.unsupported[register_id] = f"register {name!r} (of {kind})"
            return
        width = 1 if kind == "bool" else getattr(spec.bitstring, bits or "").bitwidth
        if width != real.width:
            raise invalid(
                f"register {name!r} has cells of {width} bits in P4Info and {real.width} in the "
                "program"
            )
        self._schema.registers[register_id] = RegisterInfo(
            register_id, name, real.size, width, signed=bits == "int", is_bool=kind == "bool"
        )

    def _resolve(self, spec: p4t.P4DataTypeSpec) -> p4t.P4DataTypeSpec:
        """Follow new types down to what they are made of."""
        new_types = self._p4info.type_info.new_types
        for _ in range(len(new_types)):
            if spec.WhichOneof("type_spec") != "new_type" or spec.new_type.name not in new_types:
                break
            spec = new_types[spec.new_type.name].original_type
        return spec

    def _header(self, header: p4i.ControllerPacketMetadata) -> HeaderInfo:
        name = header.preamble.name
        _check_unique((item.id for item in header.metadata), f"fields of header {name!r}")
        widths = header_widths(header, self._program)
        fields = []
        for item, width in zip(header.metadata, widths, strict=True):
            wire = self._types.of(item, width, f"field {item.name!r} of header {name!r}")
            fields.append(ParamInfo(item.id, item.name, wire))
        return HeaderInfo(name, tuple(fields))


def _check_unique(ids: Iterator[int], what: str) -> None:
    found = list(ids)
    if len(set(found)) != len(found):
        raise invalid(f"P4Info: two of the {what} have the same id")


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return ", ".join(listed[:8]) + more if listed else "none"
