"""Headers that a program only reads stay where they are: in the packet.

Such a header is not taken apart into fields when it is parsed, and not put together again when it
is deparsed. It is a pointer into the packet's buffer; a field is loaded where it is used, and the
bytes mostly are in their place already when the packet leaves.
"""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.ir import (
    Arg,
    ExtractOp,
    Field,
    HeaderRef,
    ParserOp,
    Primitive,
    PrimitiveOp,
    SetOp,
    UnionRef,
)
from softswitch.program import Header, Program

NATIVE_BITS = 128
"""Wider fields are arrays of bytes: they can be extracted, copied, cut and emitted."""


def find_views(program: Program) -> frozenset[int]:
    """Return the headers that are views: extracted, never written, of fields with native types."""
    written = set(_written(program))
    extracted = {
        op.header
        for state in program.parse_states
        for op in state.ops
        if isinstance(op, ExtractOp) and op.header is not None
    }
    return frozenset(
        h.index
        for h in program.headers
        if h.index in extracted and h.index not in written and _is_plain(h)
    )


def _is_plain(header: Header) -> bool:
    if header.metadata or header.stack is not None or header.union or header.type.width == 0:
        return False
    return not any(f.varbit or f.width > NATIVE_BITS for f in header.type.fields)


def _written(program: Program) -> Iterator[int]:
    """Yield the headers that something may write, or takes as a whole."""
    for action in program.actions:
        for primitive in action.primitives:
            yield from _written_by(primitive)
    for primitive in program.deparser_primitives:
        yield from _written_by(primitive)
    for state in program.parse_states:
        for op in state.ops:
            yield from _written_in_parser(op)
    for checksum in program.checksums:
        if checksum.update:
            yield checksum.header
    for fields in program.field_lists.values():
        yield from (header for header, _ in fields.fields)


def _written_in_parser(op: ParserOp) -> Iterator[int]:
    if isinstance(op, SetOp):
        yield from _headers_of(op.target)
    elif isinstance(op, PrimitiveOp):
        yield from _written_by(op.primitive)


def _written_by(primitive: Primitive) -> Iterator[int]:
    if primitive.op == "remove_header":
        return
    # Of an assignment only the target is written; of any other primitive every plain argument may.
    args = primitive.args[:1] if primitive.op == "assign" else primitive.args
    for arg in args:
        yield from _headers_of(arg)


def _headers_of(arg: Arg) -> Iterator[int]:
    if isinstance(arg, Field):
        arg = arg.header
    if isinstance(arg, HeaderRef):
        yield arg.header
    elif isinstance(arg, UnionRef):
        for header in arg.headers:
            yield from _headers_of(header)
