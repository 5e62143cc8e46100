"""The whole file: from bytes to a `Program`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from softswitch.errors import BadProgram, UnsupportedConstruct
from softswitch.ir import BoolConst, Calculation, CalculationInput, Checksum
from softswitch.load.actions import ActionReader
from softswitch.load.expressions import ExpressionReader
from softswitch.load.names import Names, read_headers
from softswitch.load.parsers import ParserReader, read_deparser
from softswitch.load.pipelines import PipelineReader
from softswitch.load.profiles import read_profiles, read_selectors
from softswitch.load.reader import Reader, hex_value, text_pair
from softswitch.load.state import (
    check_direct_meters,
    read_digests,
    read_meters,
    read_value_sets,
)
from softswitch.load.tables import TableReader
from softswitch.program import (
    Action,
    CounterArray,
    FieldList,
    Header,
    Pipeline,
    Program,
    RegisterArray,
    Table,
)

MAX_ARRAY_CELLS = 1 << 28
MAX_REGISTER_BITS = 1 << 16
REFUSED = {"extern_instances": "extern instance"}
ALGORITHMS = frozenset(
    {
        "crc16",
        "crc32",
        "crcCCITT",
        "crc8_custom",
        "crc16_custom",
        "crc32_custom",
        "crc64_custom",
        "csum16",
        "cksum16",
        "identity",
        "xor16",
        "xor32",
        "xxh64",
    }
)


def load_program(bmv2_json: bytes) -> Program:
    """Parse and validate a bmv2 JSON file.

    Raises BadProgram when it is malformed and UnsupportedConstruct when it uses something that
    the switch does not implement.
    """
    try:
        data = json.loads(bmv2_json)
    except (ValueError, RecursionError) as error:
        raise BadProgram(f"the program is not JSON: {error}") from None
    root = Reader(data, "program")
    _check_version(root)
    for key, construct in REFUSED.items():
        for item in root.array(key, optional=True):
            name = item.get("name", "?") if isinstance(item, dict) else "?"
            raise UnsupportedConstruct(construct, f"{key}: {name!r}")
    names = read_headers(root)
    registers = _registers(root, names)
    counters = _counters(root, names)
    calculations = _calculations(root, names)
    checksums, own = _checksums(root, names)
    selectors = read_selectors(root, names, read_calculation)
    meters = read_meters(root, names)
    digests = read_digests(root, names)
    read_value_sets(root, names)
    action_reader = ActionReader(names)
    by_id: dict[int, Action] = {}
    for index, reader in enumerate(root.objects("actions")):
        by_id[reader.integer("id")] = action_reader.read(reader, index)
    if len(by_id) != len(root.array("actions")):
        raise BadProgram("two actions have the same id")
    tables, pipelines = _pipelines(root, names, by_id, selectors)
    check_direct_meters(meters, tables)
    deparser, deparser_primitives = read_deparser(root, names)
    states, init_state = ParserReader(names).read(root)
    return Program(
        headers=tuple(names.headers),
        stacks=tuple(names.stacks),
        union_stacks=tuple(names.union_stacks.values()),
        actions=tuple(by_id.values()),
        tables=tables,
        action_profiles=read_profiles(root, selectors, tables, tuple(by_id.values())),
        counter_arrays=counters,
        register_arrays=registers,
        meter_arrays=meters,
        value_sets=dict(names.value_sets),
        digests=digests,
        field_lists=_field_lists(root, names),
        calculations=(*calculations, *own, *(s for s in selectors.values() if s is not None)),
        checksums=checksums,
        errors=_errors(root),
        parse_states=states,
        init_state=init_state,
        ingress=pipelines["ingress"],
        egress=pipelines["egress"],
        deparser=deparser,
        deparser_primitives=deparser_primitives,
        aliases=_aliases(root, names),
    )


def _check_version(root: Reader) -> None:
    if not root.has("__meta__"):
        raise BadProgram("the program has no __meta__: it is not a bmv2 JSON file")
    version = root.child("__meta__").array("version")
    if len(version) != 2 or version[0] != 2:
        raise BadProgram(f"bmv2 JSON format {version}, supported is 2.x")


def _registers(root: Reader, names: Names) -> dict[str, RegisterArray]:
    result: dict[str, RegisterArray] = {}
    for index, r in enumerate(root.objects("register_arrays", optional=True)):
        name, width = r.text("name"), r.integer("bitwidth", 1, MAX_REGISTER_BITS)
        size = r.integer("size", 1, MAX_ARRAY_CELLS)
        result[name] = RegisterArray(name, index, size, width)
        names.registers[name] = width
    return result


def _counters(root: Reader, names: Names) -> dict[str, CounterArray]:
    result: dict[str, CounterArray] = {}
    for index, r in enumerate(root.objects("counter_arrays", optional=True)):
        name = r.text("name")
        table = r.text("binding") if r.flag("is_direct", False) else None
        size = 0 if table else r.integer("size", 1, MAX_ARRAY_CELLS)
        result[name] = CounterArray(name, index, size, table)
        if table is None:
            names.counters.add(name)
    return result


def _calculations(root: Reader, names: Names) -> tuple[Calculation, ...]:
    result: list[Calculation] = []
    for r in root.objects("calculations", optional=True):
        name = r.text("name")
        result.append(read_calculation(r, names, name))
        names.calculations.add(name)
    return tuple(result)


def read_calculation(reader: Reader, names: Names, name: str) -> Calculation:
    """Read the algorithm and the inputs of a hash."""
    algorithm = reader.text("algo")
    if algorithm not in ALGORITHMS:
        raise UnsupportedConstruct(f"hash algorithm {algorithm!r}", f"calculation {name!r}")
    inputs = tuple(_calculation_input(i, names) for i in reader.objects("input"))
    return Calculation(name, algorithm, inputs)


def _calculation_input(reader: Reader, names: Names) -> CalculationInput:
    kind = reader.text("type")
    value = reader.data.get("value")
    match kind:
        case "field":
            header_name, field_name = text_pair(value, reader.path)
            header = names.header(header_name, reader.path)
            field = names.field(header, field_name, reader.path)
            return CalculationInput("field", header, field)
        case "header":
            return CalculationInput("header", names.header(value, reader.path))
        case "hexstr":
            width = reader.integer("bitwidth", 1, 2048)
            number = hex_value(value, reader.path) & ((1 << width) - 1)
            return CalculationInput("constant", value=number, width=width)
        case "payload":
            return CalculationInput("payload")
    raise UnsupportedConstruct(f"calculation input of type {kind!r}", reader.path)


def _checksums(root: Reader, names: Names) -> tuple[tuple[Checksum, ...], tuple[Calculation, ...]]:
    """Return the checksums, and the calculations of those that are over their own header."""
    result: list[Checksum] = []
    own: list[Calculation] = []
    expressions = ExpressionReader(names)
    for r in root.objects("checksums", optional=True):
        name = r.text("name")
        header_name, field_name = r.pair("target")
        header = names.header(header_name, r.path)
        field = names.field(header, field_name, r.path)
        match r.text("type"):
            case "generic":
                calculation = r.text("calculation")
            case "ipv4":
                own.append(_own_checksum(name, names.headers[header], field))
                calculation = own[-1].name
                names.calculations.add(calculation)
            case kind:
                raise UnsupportedConstruct(f"checksum of type {kind!r}", f"checksum {name!r}")
        if calculation not in names.calculations:
            raise BadProgram(f"{r.path}: there is no calculation {calculation!r}")
        condition: Any = {"type": "bool", "value": True}
        if r.has("if_cond"):
            condition = r.data["if_cond"]
        expr = expressions.boolean(condition, f"{r.path}.if_cond")
        result.append(
            Checksum(
                name,
                header,
                field,
                calculation,
                expr,
                verify=r.flag("verify", True) and expr != BoolConst(False),
                update=r.flag("update", True) and expr != BoolConst(False),
            )
        )
    return tuple(result), tuple(own)


def _own_checksum(name: str, header: Header, target: int) -> Calculation:
    """Return the Internet checksum of a header in which the checksum itself counts as zero."""
    inputs = [CalculationInput("field", header.index, i) for i in range(len(header.type.fields))]
    inputs[target] = CalculationInput("constant", width=header.type.fields[target].width)
    return Calculation(f"{name} of {header.name}", "csum16", tuple(inputs))


def _pipelines(
    root: Reader,
    names: Names,
    actions: dict[int, Action],
    selectors: Mapping[str, Calculation | None],
) -> tuple[dict[str, Table], dict[str, Pipeline]]:
    readers = {r.text("name"): r for r in root.objects("pipelines")}
    if set(readers) != {"ingress", "egress"}:
        raise UnsupportedConstruct(
            f"pipelines {sorted(readers)} (v1model has ingress and egress)", "pipelines"
        )
    tables: dict[str, Table] = {}
    table_reader = TableReader(names, actions, selectors)
    for pipeline in readers.values():
        for r in pipeline.objects("tables"):
            table = table_reader.read(r, len(tables))
            if table.name in tables:
                raise BadProgram(f"{r.path}: table {table.name!r} is declared twice")
            tables[table.name] = table
    pipeline_reader = PipelineReader(ExpressionReader(names), actions, tables)
    return tables, {name: pipeline_reader.read(r) for name, r in readers.items()}


def _field_lists(root: Reader, names: Names) -> dict[int, FieldList]:
    result: dict[int, FieldList] = {}
    for r in root.objects("field_lists", optional=True):
        fields: list[tuple[int, int]] = []
        for element in r.objects("elements"):
            if element.text("type") == "hexstr":
                continue
            header_name, field_name = text_pair(element.data.get("value"), element.path)
            header = names.header(header_name, element.path)
            fields.append((header, names.field(header, field_name, element.path)))
        list_id = r.integer("id", 0, 65535)
        result[list_id] = FieldList(list_id, tuple(fields))
    return result


def _errors(root: Reader) -> dict[str, int]:
    result: dict[str, int] = {}
    for item in root.array("errors", optional=True):
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
            raise BadProgram("errors must be pairs of a name and a number")
        if type(item[1]) is not int or not 0 <= item[1] < 2**31:
            raise BadProgram(f"errors: {item[0]!r} has the number {item[1]!r}")
        result[item[0]] = item[1]
    return result


def _aliases(root: Reader, names: Names) -> dict[str, tuple[int, int]]:
    result: dict[str, tuple[int, int]] = {}
    for item in root.array("field_aliases", optional=True):
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
            raise BadProgram("field_aliases must be pairs of a name and a field")
        header_name, field_name = text_pair(item[1], "field_aliases")
        header = names.header(header_name, "field_aliases")
        result[item[0]] = (header, names.field(header, field_name, "field_aliases"))
    return result
