"""Names of the program's objects, resolved to indices while the JSON is read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from softswitch.errors import BadProgram, UnsupportedConstruct
from softswitch.ir import DigestRef
from softswitch.load.reader import Reader
from softswitch.program import (
    FieldType,
    Header,
    HeaderStack,
    HeaderType,
    UnionStack,
    ValueSet,
)

MAX_FIELD_BITS = 2048
MAX_VARBIT_BYTES = 10240
MAX_HEADERS = 4096


@dataclass
class Names:
    """What has been declared so far."""

    headers: list[Header] = field(default_factory=list)
    header_by_name: dict[str, int] = field(default_factory=dict)
    header_by_id: dict[int, int] = field(default_factory=dict)
    field_by_name: dict[tuple[str, str], int] = field(default_factory=dict)
    stacks: list[HeaderStack] = field(default_factory=list)
    stack_by_name: dict[str, int] = field(default_factory=dict)
    unions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    union_members: dict[str, list[str]] = field(default_factory=dict)
    length_expressions: dict[str, Reader] = field(default_factory=dict)
    union_stacks: dict[str, UnionStack] = field(default_factory=dict)
    calculations: set[str] = field(default_factory=set)
    registers: dict[str, int] = field(default_factory=dict)
    counters: set[str] = field(default_factory=set)
    meters: set[str] = field(default_factory=set)
    direct_meters: set[str] = field(default_factory=set)
    learn_lists: dict[int, DigestRef] = field(default_factory=dict)
    value_sets: dict[str, ValueSet] = field(default_factory=dict)

    def header(self, name: Any, path: str) -> int:
        """Return the index of a header instance."""
        if not isinstance(name, str) or name not in self.header_by_name:
            raise BadProgram(f"{path}: there is no header {name!r}")
        return self.header_by_name[name]

    def field(self, header: int, name: str, path: str) -> int:
        """Return the index of a field within its header type."""
        type_name = self.headers[header].type.name
        if (type_name, name) not in self.field_by_name:
            raise BadProgram(f"{path}: header type {type_name!r} has no field {name!r}")
        return self.field_by_name[type_name, name]

    def union(self, name: Any, path: str) -> tuple[int, ...]:
        """Return the headers of a header union."""
        if not isinstance(name, str) or name not in self.unions:
            raise BadProgram(f"{path}: there is no header union {name!r}")
        return self.unions[name]

    def union_stack(self, name: Any, path: str) -> UnionStack:
        """Return a stack of header unions."""
        if not isinstance(name, str) or name not in self.union_stacks:
            raise BadProgram(f"{path}: there is no stack of header unions {name!r}")
        return self.union_stacks[name]

    def union_member(self, stack: str, member: Any, path: str) -> int:
        """Return the position of a member in the unions of a stack."""
        members = self.union_members[stack]
        if member not in members:
            raise BadProgram(f"{path}: {stack!r} has no member {member!r}")
        return members.index(member)

    def stack(self, name: Any, path: str) -> int:
        """Return the index of a header stack."""
        if not isinstance(name, str) or name not in self.stack_by_name:
            raise BadProgram(f"{path}: there is no header stack {name!r}")
        return self.stack_by_name[name]


def read_header_type(reader: Reader) -> HeaderType:
    """Read one entry of header_types."""
    name = reader.text("name")
    fields: list[FieldType] = []
    offset = 0
    for i, item in enumerate(reader.array("fields")):
        path = f"{reader.path}.fields[{i}]"
        if not isinstance(item, list) or len(item) not in (2, 3, 4):
            raise BadProgram(f"{path} must be an array of a name, a width and a sign")
        field_name, width = item[0], item[1]
        varbit = width == "*"
        if varbit:
            width = _varbit_width(reader)
        signed = bool(item[2]) if len(item) > 2 else False
        if not isinstance(field_name, str) or type(width) is not int:
            raise BadProgram(f"{path} must be an array of a name, a width and a sign")
        if not 1 <= width <= (MAX_VARBIT_BYTES * 8 if varbit else MAX_FIELD_BITS):
            raise BadProgram(f"{path}: width {width}, allowed is 1 to {MAX_FIELD_BITS} bits")
        saturating = bool(item[3]) if len(item) > 3 else False
        fields.append(FieldType(field_name, width, signed, offset, varbit, saturating))
        offset += 0 if varbit else width
    return HeaderType(name, tuple(fields), offset)


def read_headers(root: Reader) -> Names:
    """Read header types, header instances and header stacks."""
    names = Names()
    types: dict[str, HeaderType] = {}
    for reader in root.objects("header_types"):
        header_type = read_header_type(reader)
        types[header_type.name] = header_type
        if reader.has("length_exp"):
            names.length_expressions[header_type.name] = reader.child("length_exp")
        for i, f in enumerate(header_type.fields):
            names.field_by_name[header_type.name, f.name] = i
    readers = root.objects("headers")
    if len(readers) > MAX_HEADERS:
        raise BadProgram(f"{len(readers)} headers, allowed are {MAX_HEADERS}")
    for index, reader in enumerate(readers):
        _add_header(names, types, reader, index)
    for index, reader in enumerate(root.objects("header_stacks", optional=True)):
        _add_stack(names, types, reader, index)
    _add_unions(names, root)
    return names


def _varbit_width(reader: Reader) -> int:
    """Return the largest width of a header type's varbit field."""
    name = reader.text("name")
    items = reader.array("fields")
    widths = [item[1] for item in items if isinstance(item, list) and len(item) > 1]
    if widths.count("*") != 1:
        raise BadProgram(f"{reader.path}: more than one varbit field")
    fixed = sum(width for width in widths if type(width) is int)
    if not reader.has("max_length"):
        return MAX_FIELD_BITS
    width = reader.integer("max_length", 0, MAX_VARBIT_BYTES) * 8 - fixed
    if width % 8 or width < 8:
        raise UnsupportedConstruct(f"varbit field of up to {width} bits", f"header type {name!r}")
    return width


def _add_unions(names: Names, root: Reader) -> None:
    """Read header unions and stacks of them."""
    members: dict[str, list[str]] = {}
    for reader in root.objects("header_union_types", optional=True):
        pairs = reader.array("headers")
        if not all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
            raise BadProgram(f"{reader.path}.headers must be pairs of names")
        members[reader.text("name")] = [p[0] for p in pairs]
    by_id: dict[int, tuple[int, ...]] = {}
    for reader in root.objects("header_unions", optional=True):
        ids = reader.integers("header_ids")
        if not all(i in names.header_by_id for i in ids):
            raise BadProgram(f"{reader.path} has an unknown header")
        union = tuple(names.header_by_id[i] for i in ids)
        if len(union) != len(members.get(reader.text("union_type"), [])):
            raise BadProgram(f"{reader.path} does not fit its type")
        for header in union:
            if names.headers[header].union or names.headers[header].stack is not None:
                raise BadProgram(f"{reader.path}: a header belongs to two unions or a stack")
            names.headers[header] = replace(names.headers[header], union=union)
        names.unions[reader.text("name")] = union
        by_id[reader.integer("id")] = union
    _add_union_stacks(names, root, by_id, members)


def _add_union_stacks(
    names: Names,
    root: Reader,
    unions: dict[int, tuple[int, ...]],
    members: dict[str, list[str]],
) -> None:
    """Read stacks of header unions; each member of theirs becomes a header stack of its own."""
    readers = root.objects("header_union_stacks", optional=True)
    found: list[tuple[Reader, tuple[tuple[int, ...], ...], tuple[int, ...]]] = []
    for reader in readers:
        ids = reader.integers("header_union_ids")
        if not ids or not all(i in unions for i in ids):
            raise BadProgram(f"{reader.path} is empty or has an unknown union")
        elements = tuple(unions[i] for i in ids)
        names_of = members.get(reader.text("union_type"), [])
        if any(len(union) != len(names_of) for union in elements):
            raise BadProgram(f"{reader.path} has unions that do not fit its type")
        stacks: list[int] = []
        for column in zip(*elements, strict=True):
            stacks.append(len(names.stacks))
            _add_column(names, reader, column)
        found.append((reader, elements, tuple(stacks)))
    for reader, elements, columns in found:
        name = reader.text("name")
        index = len(names.stacks) + len(names.union_stacks)
        names.union_stacks[name] = UnionStack(name, index, elements, columns)
        names.union_members[name] = members.get(reader.text("union_type"), [])


def _add_column(names: Names, reader: Reader, column: tuple[int, ...]) -> None:
    """Make a header stack of the same members of all unions of a stack."""
    index, header_type = len(names.stacks), names.headers[column[0]].type
    for slot, header in enumerate(column):
        old = names.headers[header]
        if old.type.name != header_type.name or old.stack is not None:
            raise BadProgram(f"{reader.path}: header {old.name!r} does not fit its stack")
        names.headers[header] = replace(old, stack=index, slot=slot)
    name = f"{reader.text('name')} of {header_type.name}"
    names.stacks.append(HeaderStack(name, index, header_type, column))


def _type_of(types: dict[str, HeaderType], reader: Reader) -> HeaderType:
    type_name = reader.text("header_type")
    if type_name not in types:
        raise BadProgram(f"{reader.path}: there is no header type {type_name!r}")
    return types[type_name]


def _add_header(names: Names, types: dict[str, HeaderType], reader: Reader, index: int) -> None:
    header_type = _type_of(types, reader)
    name, metadata = reader.text("name"), reader.flag("metadata")
    if name in names.header_by_name:
        raise BadProgram(f"{reader.path}: header {name!r} is declared twice")
    if not metadata and header_type.width % 8:
        raise UnsupportedConstruct(
            f"header of {header_type.width} bits (not a multiple of 8)", f"header {name!r}"
        )
    names.headers.append(Header(name, index, header_type, metadata))
    names.header_by_name[name] = index
    names.header_by_id[reader.integer("id")] = index


def _add_stack(names: Names, types: dict[str, HeaderType], reader: Reader, index: int) -> None:
    name, header_type = reader.text("name"), _type_of(types, reader)
    members: list[int] = []
    for slot, header_id in enumerate(reader.integers("header_ids")):
        if header_id not in names.header_by_id:
            raise BadProgram(f"{reader.path}: there is no header with id {header_id!r}")
        member = names.header_by_id[header_id]
        old = names.headers[member]
        if old.stack is not None or old.type.name != header_type.name:
            raise BadProgram(f"{reader.path}: header {old.name!r} cannot be in stack {name!r}")
        names.headers[member] = Header(
            old.name, old.index, old.type, old.metadata, stack=index, slot=slot
        )
        members.append(member)
    if not members:
        raise BadProgram(f"{reader.path}: stack {name!r} is empty")
    names.stacks.append(HeaderStack(name, index, header_type, tuple(members)))
    names.stack_by_name[name] = index
