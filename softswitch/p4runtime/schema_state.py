"""Meters, value sets and digests of a P4Info, checked against the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from finsy.proto import p4i, p4t

from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.schema_types import FieldInfo, KeyInfo
from softswitch.p4runtime.translation import Translations, WireType, check_match
from softswitch.program import Digest, MatchType, MeterArray, Program, ValueSet

Resolve = Callable[[p4t.P4DataTypeSpec], p4t.P4DataTypeSpec]
"""Follows new types down to what they are made of."""


@dataclass(frozen=True)
class MeterInfo:
    """A meter array of `size` cells, or a direct one of table `table_id`.

    `kind` is a p4i.MeterSpec.Type.
    """

    id: int
    name: str
    size: int
    table_id: int
    kind: int


@dataclass(frozen=True)
class ValueSetInfo:
    """A parser value set; `key` describes its members."""

    id: int
    name: str
    size: int
    key: KeyInfo


@dataclass(frozen=True)
class DigestField:
    """A value in a digest: `kind` is bit, int, bool, error, enum or serializable_enum.

    `names` are those of errors and of members of enums, by number.
    """

    wire: WireType
    kind: str = "bit"
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class DigestInfo:
    """A digest; `shape` is the field of P4Data that holds it: struct, tuple, bitstring or bool."""

    id: int
    name: str
    shape: str
    fields: tuple[DigestField, ...]


def meter_info(item: p4i.Meter | p4i.DirectMeter, program: Program) -> MeterInfo:
    """Return a meter after checking that the program has it; raises P4RuntimeError."""
    name = item.preamble.name
    real = program.meter_arrays.get(name)
    if real is None or (real.table is not None) != isinstance(item, p4i.DirectMeter):
        raise invalid(f"P4Info has meter {name!r}, which the program does not have")
    _check_unit(item, real)
    if isinstance(item, p4i.DirectMeter):
        return MeterInfo(item.preamble.id, name, 0, item.direct_table_id, item.spec.type)
    if item.size != real.size:
        raise invalid(
            f"meter {name!r} has {item.size} cells in P4Info and {real.size} in the program"
        )
    return MeterInfo(item.preamble.id, name, real.size, 0, item.spec.type)


def _check_unit(item: p4i.Meter | p4i.DirectMeter, real: MeterArray) -> None:
    unit = p4i.MeterSpec.BYTES if real.counts_bytes else p4i.MeterSpec.PACKETS
    if item.spec.unit != unit:
        raise invalid(
            f"meter {real.name!r} counts {p4i.MeterSpec.Unit.Name(item.spec.unit)} in P4Info and "
            f"{p4i.MeterSpec.Unit.Name(unit)} in the program"
        )


def value_set_info(
    item: p4i.ValueSet,
    program: Program,
    match_types: Mapping[p4i.MatchField.MatchType.ValueType, MatchType],
    types: Translations,
) -> ValueSetInfo:
    """Return a value set after checking that the program has it; raises P4RuntimeError."""
    name = item.preamble.name
    real = program.value_sets.get(name)
    if real is None:
        raise invalid(f"P4Info has value set {name!r}, which the program does not have")
    fields = tuple(_members(item, real, match_types, types))
    if item.size < 0:
        raise invalid(f"value set {name!r} has size {item.size} in P4Info; 0 or more is allowed")
    return ValueSetInfo(item.preamble.id, name, item.size, KeyInfo(f"value set {name}", fields))


def _members(
    item: p4i.ValueSet,
    real: ValueSet,
    match_types: Mapping[p4i.MatchField.MatchType.ValueType, MatchType],
    types: Translations,
) -> Iterator[FieldInfo]:
    if len(item.match) != len(real.widths):
        raise invalid(
            f"value set {real.name!r} has {len(item.match)} fields in P4Info and "
            f"{len(real.widths)} in the program"
        )
    for position, (match, bits) in enumerate(zip(item.match, real.widths, strict=True)):
        what = f"field {match.id} of value set {real.name!r}"
        kind = match_types.get(match.match_type)
        if kind is None:
            raise invalid(f"{what} has no match type that is known")
        label = match.name or f"field {match.id}"
        wire = types.of(match, bits, what)
        check_match(wire, kind, what)
        yield FieldInfo(match.id, label, kind, wire, position)


def match_digests(info: p4i.P4Info, program: Program) -> Iterator[tuple[p4i.Digest, Digest]]:
    """Yield each digest of P4Info with that of the program.

    The compiler names digests of tuples differently in both: they have the same order.
    Raises P4RuntimeError if the program lacks one.
    """
    own = {item.preamble.name for item in info.digests}
    others = [digest for name, digest in program.digests.items() if name not in own]
    for item in info.digests:
        real = program.digests.get(item.preamble.name)
        if real is None and others:
            real = others.pop(0)
        if real is None:
            raise invalid(
                f"P4Info has digest {item.preamble.name!r}, which the program does not have"
            )
        yield item, real


def digest_info(
    item: p4i.Digest,
    real: Digest,
    program: Program,
    types: p4t.P4TypeInfo,
    resolve: Resolve,
    translations: Translations,
) -> DigestInfo:
    """Return a digest that is described as the program has it; raises P4RuntimeError."""
    name = item.preamble.name
    spec = resolve(item.type_spec)
    shape = spec.WhichOneof("type_spec") or "nothing"
    specs = [item.type_spec]
    if shape == "struct":
        specs = [member.type_spec for member in types.structs[spec.struct.name].members]
    elif shape == "tuple":
        specs = list(spec.tuple.members)
    if len(specs) != len(real.widths):
        raise invalid(
            f"digest {name!r} has {len(specs)} fields in P4Info and {len(real.widths)} in the "
            "program"
        )
    fields = []
    for each, width in zip(specs, real.widths, strict=True):
        wire = translations.named(each.new_type.name, width)
        if wire is None:
            fields.append(_digest_field(resolve(each), width, name, types, program))
        else:
            fields.append(DigestField(wire))
    return DigestInfo(item.preamble.id, real.name, shape, tuple(fields))


def _digest_field(
    spec: p4t.P4DataTypeSpec, real: int, name: str, types: p4t.P4TypeInfo, program: Program
) -> DigestField:
    kind = spec.WhichOneof("type_spec") or "nothing"
    match kind:
        case "bool":
            return DigestField(WireType(1), kind)
        case "error":
            numbers = {number: error for error, number in program.errors.items()}
            known = range(max(numbers, default=-1) + 1)
            return DigestField(WireType(real), kind, tuple(numbers.get(n, str(n)) for n in known))
        case "enum":
            members = types.enums[spec.enum.name].members
            return DigestField(WireType(real), kind, tuple(m.name for m in members))
        case "serializable_enum":
            return DigestField(WireType(real), kind)
    bits = spec.bitstring.WhichOneof("type_spec") if kind == "bitstring" else None
    if bits not in ("bit", "int"):
        raise invalid(f"digest {name!r} has a field of type {bits or kind}, which has no P4Data")
    width = spec.bitstring.bit.bitwidth if bits == "bit" else spec.bitstring.int.bitwidth
    if width > real:  # a constant has more bits in the program than its type
        raise invalid(f"digest {name!r} has a field of {width} bits, in the program of {real}")
    return DigestField(WireType(width), bits)


def header_widths(header: p4i.ControllerPacketMetadata, program: Program) -> list[int]:
    """Return the widths of a controller header's fields in the program.

    P4Info has them, but for translated types: then the program's header with the same fields
    says. Raises P4RuntimeError if there is none.
    """
    if not any(item.HasField("type_name") for item in header.metadata):
        return [item.bitwidth for item in header.metadata]
    names = [item.name for item in header.metadata]
    for real in program.headers:
        if not real.metadata and [field.name for field in real.type.fields] == names:
            return [field.width for field in real.type.fields]
    raise invalid(f"the program has no header with the fields of {header.preamble.name!r}: {names}")
