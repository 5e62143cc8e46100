"""Meters, digests and parser value sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from softswitch.errors import BadProgram, UnsupportedConstruct
from softswitch.ir import Const, DigestRef, Expr, Field, HeaderRef, Op, is_bool
from softswitch.load.expressions import ExpressionReader
from softswitch.load.names import Names
from softswitch.load.reader import Reader
from softswitch.program import Digest, MeterArray, Table, ValueSet

MAX_METERS = 1 << 24
MAX_DIGEST_BITS = 2048
MAX_VALUE_SET_BITS = 4096
_RATES = 2
_CONSTANT_BITS = 64


def read_meters(root: Reader, names: Names) -> dict[str, MeterArray]:
    """Read the meter arrays."""
    result: dict[str, MeterArray] = {}
    for index, r in enumerate(root.objects("meter_arrays", optional=True)):
        name, kind = r.text("name"), r.text("type")
        if kind not in ("packets", "bytes"):
            raise BadProgram(f"{r.path}: meters count packets or bytes, not {kind!r}")
        if r.integer("rate_count", 0, 2**31) != _RATES:
            raise UnsupportedConstruct("meter without two rates", f"meter array {name!r}")
        table, target = None, None
        if r.flag("is_direct", False):
            table = r.text("binding")
            header_name, field_name = r.pair("result_target")
            header = names.header(header_name, r.path)
            target = header, names.field(header, field_name, r.path)
            names.direct_meters.add(name)
        else:
            names.meters.add(name)
        size = 0 if table else r.integer("size", 1, MAX_METERS)
        result[name] = MeterArray(name, index, size, kind == "bytes", table, target)
    return result


def check_direct_meters(meters: Mapping[str, MeterArray], tables: Mapping[str, Table]) -> None:
    """Check that direct meters and tables belong to each other."""
    for meter in meters.values():
        if meter.table is not None and (
            meter.table not in tables or tables[meter.table].meter != meter.name
        ):
            raise BadProgram(f"direct meter {meter.name!r} is not that of table {meter.table!r}")


def read_digests(root: Reader, names: Names) -> dict[str, Digest]:
    """Read the learn lists; the compiler writes one per call, and those of one name are alike."""
    result: dict[str, Digest] = {}
    expressions = ExpressionReader(names)
    for r in root.objects("learn_lists", optional=True):
        name, list_id = r.text("name"), r.integer("id", 0, 65535)
        items: list[Expr] = []
        for i, element in enumerate(r.array("elements")):
            expr = expressions.read(element, f"{r.path}.elements[{i}]")
            items.append(Op("b2d", (expr,)) if is_bool(expr) else expr)
        widths = tuple(_width(names, item, r.path) for item in items)
        if sum(widths) > MAX_DIGEST_BITS:
            raise UnsupportedConstruct(f"digest of more than {MAX_DIGEST_BITS} bits", r.path)
        digest = result.setdefault(name, Digest(name, len(result), widths))
        if digest.widths != widths:
            raise BadProgram(f"{r.path}: learn lists {name!r} are not alike")
        if list_id in names.learn_lists:
            raise BadProgram(f"{r.path}: two learn lists have the id {list_id}")
        names.learn_lists[list_id] = DigestRef(name, tuple(items))
    return result


def _width(names: Names, item: Expr, path: str) -> int:
    match item:
        case Field(header=HeaderRef(header=header), field=field):
            return names.headers[header].type.fields[field].width
        case Const():
            return _CONSTANT_BITS
        case Op(op="b2d"):
            return 1
    raise UnsupportedConstruct("digest of something that is no field", path)


def read_value_sets(root: Reader, names: Names) -> None:
    """Read the declarations; the widths are those of the first key that uses a set."""
    for index, r in enumerate(root.objects("parse_vsets", optional=True)):
        name = r.text("name")
        if name in names.value_sets:
            raise BadProgram(f"{r.path}: value set {name!r} is declared twice")
        width = r.integer("compressed_bitwidth", 1, MAX_VALUE_SET_BITS)
        size = r.integer("max_size", 0, 2**31) if r.has("max_size") else 2**31
        names.value_sets[name] = ValueSet(name, index, size, (width,))


def use_value_set(names: Names, name: str, widths: tuple[int, ...], path: str) -> None:
    """Note the key that a value set is used with."""
    value_set = names.value_sets.get(name)
    if value_set is None:
        raise BadProgram(f"{path}: there is no value set {name!r}")
    if sum(widths) != sum(value_set.widths):
        raise BadProgram(f"{path}: value set {name!r} has {sum(value_set.widths)} bits")
    if len(value_set.widths) == 1:
        names.value_sets[name] = replace(value_set, widths=widths)
    elif value_set.widths != widths:
        raise UnsupportedConstruct("value set for two different keys", path)
