"""Where the program's values live in C: types, struct members, validity bytes.

Nothing in the generated text comes from a name in the program: members are numbered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from softswitch.codegen.loads import read_bits
from softswitch.codegen.locality import local_fields
from softswitch.codegen.plan import Plan
from softswitch.codegen.views import NATIVE_BITS, find_views
from softswitch.ir import Field, HeaderExpr, HeaderRef
from softswitch.program import FieldType, HeaderType, Program


def c_type(width: int) -> str:
    """Return the smallest native type for an unsigned number of `width` bits."""
    for bits in (8, 16, 32, 64):
        if width <= bits:
            return f"uint{bits}_t"
    return "u128"


def is_wide(width: int) -> bool:
    """Return True when a field of this width is an array of bytes."""
    return width > NATIVE_BITS


def declare(name: str, width: int, *, varbit: bool = False) -> str:
    """Return a struct member for a field; a varbit field also has a length in bytes."""
    if varbit:
        return f"uint16_t {name}_len; uint8_t {name}[{width // 8}];"
    if is_wide(width):
        return f"uint8_t {name}[{(width + 7) // 8}];"
    return f"{c_type(width)} {name};"


@dataclass(frozen=True)
class Layout:
    """Lvalues of a program's fields, headers and stacks."""

    program: Program
    plan: Plan = dataclasses.field(default_factory=Plan)

    @cached_property
    def locals(self) -> dict[tuple[int, int], str]:
        """The metadata fields that are local variables of a piece of a pipeline."""
        return local_fields(self.program, self.plan)

    @cached_property
    def views(self) -> frozenset[int]:
        """The headers that are pointers into the packet."""
        return find_views(self.program)

    @staticmethod
    def view(header: int) -> str:
        """Return the lvalue of the pointer of a header that is a view."""
        return f"p->h.v{header}"

    def local_piece(self, keys: Iterable[tuple[int, int]]) -> str | None:
        """Return the piece whose local variables are among these fields."""
        return next((self.locals[k] for k in keys if k in self.locals), None)

    def local_struct(self, piece: str) -> Iterator[str]:
        """Yield the struct of a piece's local variables."""
        yield f"struct ss_local_{piece} {{"
        for key, owner in self.locals.items():
            if owner == piece and key not in self.plan.private and not self.plan.arrays.place(key):
                info = self.program.field(*key)
                name = f"h{key[0]}_f{key[1]}"
                yield f"    {declare(name, info.width, varbit=info.varbit)}"
        for number, array in enumerate(self.plan.arrays.all):
            if self.array_piece(array) == piece:
                yield f"    uint64_t g{number}[{len(array)}] __attribute__((aligned(64)));"
        yield "    uint8_t none;"
        yield "};"

    def array_piece(self, array: Iterable[object]) -> str | None:
        """Return the piece whose local variables the fields of an array are."""
        return self.local_piece(key for key in array if isinstance(key, tuple))

    @cached_property
    def type_numbers(self) -> dict[str, int]:
        """Numbers of the header types that packets use."""
        names: dict[str, int] = {}
        for header in self.program.headers:
            names.setdefault(header.type.name, len(names))
        return names

    @cached_property
    def valid_slots(self) -> dict[int, int]:
        """Index of each header's validity byte: members of a stack follow one another."""
        slots: dict[int, int] = {}
        for stack in self.program.stacks:
            for member in stack.members:
                slots[member] = len(slots)
            # Each stack ends in a header that stands for every index out of range.
            slots[-1 - stack.index] = len(slots)
        for header in self.program.headers:
            if not header.metadata and header.index not in slots:
                slots[header.index] = len(slots)
        return slots

    def depth(self, stack: int) -> int:
        """Return the number of headers, or of unions, of a stack."""
        stacks = self.program.stacks
        if stack < len(stacks):
            return len(stacks[stack].members)
        return len(self.program.union_stacks[stack - len(stacks)].unions)

    def columns(self, stack: int) -> tuple[int, ...]:
        """Return the header stacks that hold the headers of a stack, or of a stack of unions."""
        stacks = self.program.stacks
        if stack < len(stacks):
            return (stack,)
        return self.program.union_stacks[stack - len(stacks)].members

    def siblings(self, stack: int) -> list[int]:
        """Return the header stacks of which only one may have a valid header per index."""
        for unions in self.program.union_stacks:
            if stack in unions.members:
                return [column for column in unions.members if column != stack]
        return []

    def make_valid(self, header: int) -> str:
        """Return the statements that make a header valid, and the others of its union invalid."""
        info = self.program.headers[header]
        others = [self.static_valid(h) for h in info.union if h != header]
        return " ".join([f"{self.static_valid(header)} = 1;", *(f"{v} = 0;" for v in others)])

    def size_bytes(self, header_type: HeaderType, lvalue: str) -> str:
        """Return the number of bytes of a header, with its varbit field."""
        fixed = str(header_type.width // 8)
        if header_type.varbit is None:
            return fixed
        return f"({fixed}u + {lvalue}.f{header_type.varbit}_len)"

    def header_type(self, expr: HeaderExpr) -> HeaderType:
        """Return the type of a header expression."""
        if isinstance(expr, HeaderRef):
            return self.program.headers[expr.header].type
        return self.program.stacks[expr.stack].type

    def is_metadata(self, expr: HeaderExpr) -> bool:
        """Return True when the header is metadata, which is always valid."""
        return isinstance(expr, HeaderRef) and self.program.headers[expr.header].metadata

    def field_type(self, expr: Field) -> FieldType:
        """Return the type of a field expression."""
        return self.header_type(expr.header).fields[expr.field]

    def struct_name(self, header_type: HeaderType) -> str:
        """Return the C name of a header type."""
        return f"struct ss_type{self.type_numbers[header_type.name]}"

    def header(self, index: int, pointer: str = "p") -> str:
        """Return the lvalue of a header that is no metadata."""
        header = self.program.headers[index]
        if header.stack is not None:
            return f"{pointer}->h.s{header.stack}[{header.slot}]"
        return f"{pointer}->h.h{index}"

    def static_field(self, header: int, field: int, pointer: str = "p") -> str:
        """Return the lvalue of a field given by indices; of a view it can only be read."""
        if header in self.views:
            info = self.program.field(header, field)
            text = read_bits(self.view(header), info.offset, info.width)
            return f"(({c_type(info.width)})({text}))"
        place = self.plan.arrays.place((header, field))
        if place is not None:
            return f"l->g{place.number}[{place.first}]"
        if (header, field) in self.locals:
            return f"l->h{header}_f{field}"
        if self.program.headers[header].metadata:
            return f"{pointer}->m.h{header}_f{field}"
        return f"{self.header(header, pointer)}.f{field}"

    def static_valid(self, header: int) -> str:
        """Return the validity of a header given by index."""
        if self.program.headers[header].metadata:
            return "1"
        return f"p->valid[{self.valid_slots[header]}]"

    def first_valid(self, stack: int) -> int:
        """Return the index of the validity byte of a stack's first header."""
        return self.valid_slots[self.program.stacks[stack].members[0]]

    def structs(self) -> Iterator[str]:
        """Yield the definitions of header types, ss_meta and ss_headers."""
        seen: set[str] = set()
        for header in self.program.headers:
            if header.metadata or header.type.name in seen:
                continue
            seen.add(header.type.name)
            yield f"{self.struct_name(header.type)} {{"
            for i, field in enumerate(header.type.fields):
                yield f"    {declare(f'f{i}', field.width, varbit=field.varbit)}"
            yield "    uint8_t none;" if not header.type.fields else ""
            yield "};"
        for piece in sorted(set(self.locals.values())):
            yield from self.local_struct(piece)
        yield from self._meta()
        yield "struct ss_headers {"
        for stack in self.program.stacks:
            size = self.depth(stack.index) + 1
            yield f"    {self.struct_name(stack.type)} s{stack.index}[{size}];"
        for header in self.program.headers:
            if header.index in self.views:
                yield f"    const uint8_t *v{header.index};"
            elif not header.metadata and header.stack is None:
                yield f"    {self.struct_name(header.type)} h{header.index};"
        yield "    uint8_t none;"
        yield "};"
        largest = max((self.program.headers[h].type.width // 8 for h in self.views), default=0)
        yield f"static const uint8_t ss_no_header[{largest} + SS_SLACK];"

    def _meta(self) -> Iterator[str]:
        """Yield struct ss_meta, wide members first so that no space is lost to alignment."""
        members: list[tuple[int, str]] = []
        for header in self.program.headers:
            if header.metadata:
                members += [
                    (
                        field.width,
                        declare(f"h{header.index}_f{i}", field.width, varbit=field.varbit),
                    )
                    for i, field in enumerate(header.type.fields)
                    if (header.index, i) not in self.locals
                ]
        members.sort(key=lambda m: -m[0])
        yield "struct ss_meta {"
        yield from (f"    {text}" for _, text in members)
        yield "    uint8_t none;"
        yield "};"
