"""Parser states and the deparser."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from softswitch.errors import BadProgram, UnsupportedConstruct
from softswitch.ir import (
    AdvanceOp,
    Const,
    Expr,
    ExtractOp,
    Field,
    HeaderAt,
    HeaderRef,
    KeyPart,
    LastHeader,
    LookAhead,
    Op,
    Param,
    ParserOp,
    ParseState,
    Primitive,
    PrimitiveOp,
    SetOp,
    Transition,
    VerifyOp,
    is_bool,
)
from softswitch.load.actions import ActionReader, saturated
from softswitch.load.expressions import ExpressionReader
from softswitch.load.names import Names
from softswitch.load.reader import Reader, hex_value, text_pair
from softswitch.load.state import use_value_set
from softswitch.program import ActionParam, HeaderType


class ParserReader:
    """Reads the parser."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.expressions = ExpressionReader(names)
        self.actions = ActionReader(names)

    def read(self, root: Reader) -> tuple[tuple[ParseState, ...], int | None]:
        """Return the states and the index of the first one."""
        parsers = [r for r in root.objects("parsers") if r.text("name") == "parser"]
        if len(parsers) != 1:
            raise UnsupportedConstruct("program without exactly one 'parser'", "parsers")
        readers = parsers[0].objects("parse_states")
        index = {r.text("name"): i for i, r in enumerate(readers)}
        if len(index) != len(readers):
            raise BadProgram("two parser states have the same name")
        init = parsers[0].text_or_none("init_state")
        if init is not None and init not in index:
            raise BadProgram(f"there is no parser state {init!r}")
        states = tuple(self._state(r, index) for r in readers)
        return states, None if init is None else index[init]

    def _state(self, reader: Reader, index: dict[str, int]) -> ParseState:
        name = reader.text("name")
        ops = tuple(self._op(r, f"parser state {name!r}") for r in reader.objects("parser_ops"))
        key = tuple(self._key_part(r) for r in reader.objects("transition_key"))
        transitions: list[Transition] = []
        default: int | None = None
        for t in reader.objects("transitions"):
            target = t.text_or_none("next_state")
            if target is not None and target not in index:
                raise BadProgram(f"{t.path}: there is no parser state {target!r}")
            next_state = None if target is None else index[target]
            kind = t.text("type") if t.has("type") else "hexstr"
            if kind == "default" or (kind == "hexstr" and t.data.get("value") == "default"):
                default = next_state
            elif kind == "hexstr":
                transitions.append(_transition(t, key, next_state))
            elif kind == "parse_vset" and not t.has("mask"):
                value_set = t.text("value")
                use_value_set(self.names, value_set, tuple(k.width for k in key), t.path)
                transitions.append(Transition((), (), next_state, value_set))
            else:
                raise UnsupportedConstruct(f"{kind} transition", f"parser state {name!r}")
        return ParseState(name, ops, key, tuple(transitions), default)

    def _key_part(self, reader: Reader) -> KeyPart:
        expr = self.expressions.read(reader.data, reader.path)
        match expr:
            case Field(header=HeaderRef(header=header), field=field):
                return KeyPart(expr, self.names.headers[header].type.fields[field].width)
            case Field(header=LastHeader(stack=stack) | HeaderAt(stack=stack), field=field):
                return KeyPart(expr, self.names.stacks[stack].type.fields[field].width)
            case LookAhead(width=width):
                return KeyPart(expr, width)
            case Op(op="b2d"):
                return KeyPart(expr, 1)
        raise UnsupportedConstruct("transition key that is no field or lookahead", reader.path)

    def _op(self, reader: Reader, where: str) -> ParserOp:  # noqa: PLR0911 - one case per operation
        op = reader.text("op")
        params = reader.array("parameters")
        path = f"{reader.path}.parameters"
        counts = {
            "extract": 1,
            "extract_VL": 2,
            "set": 2,
            "verify": 2,
            "shift": 1,
            "advance": 1,
            "primitive": 1,
        }
        if op not in counts:
            raise UnsupportedConstruct(f"parser operation {op!r}", where)
        if len(params) != counts[op]:
            raise BadProgram(f"{path}: {op} takes {counts[op]} parameters, not {len(params)}")
        match op:
            case "extract":
                return self._extract(Reader(params[0], path), where, None)
            case "extract_VL":
                bits = self.expressions.read(params[1], path)
                return self._extract(Reader(params[0], path), where, bits)
            case "set":
                target = self.expressions.read(params[0], path)
                value = self.expressions.read(params[1], path)
                if not isinstance(target, Field):
                    raise BadProgram(f"{path}: the target of set must be a field")
                if is_bool(value):
                    value = Op("b2d", (value,))
                return SetOp(target, saturated(self.names, target, value))
            case "verify":
                condition = self.expressions.boolean(params[0], path)
                return VerifyOp(condition, self.expressions.read(params[1], path))
            case "shift":
                if type(params[0]) is not int or params[0] < 0:
                    raise BadProgram(f"{path}: shift takes a number of bytes")
                return AdvanceOp(Const(params[0] * 8))
            case "advance":
                return AdvanceOp(self.expressions.read(params[0], path))
        return self._primitive(params[0], path, where)

    def _primitive(self, value: Any, path: str, where: str) -> ParserOp:
        primitive = self.actions.primitive(Reader(value, path), self.expressions, where)
        return PrimitiveOp(_without_jumps(primitive, path))

    def _extract(self, reader: Reader, where: str, bits: Expr | None) -> ExtractOp:
        """Read what is extracted; `bits` is the length of the varbit field."""
        kind, path = reader.text("type"), reader.path
        value = reader.data.get("value")
        match kind:
            case "regular":
                header = self.names.header(value, path)
                op = ExtractOp(header, None, varbit_bits=bits)
            case "stack":
                stack = self.names.stack(value, path)
                header = self.names.stacks[stack].members[0]
                op = ExtractOp(None, stack, varbit_bits=bits)
            case "union_stack":
                stack_name, member_name = text_pair(value, path)
                unions = self.names.union_stack(stack_name, path)
                member = self.names.union_member(stack_name, member_name, path)
                header = unions.unions[0][member]
                op = ExtractOp(None, unions.index, member, varbit_bits=bits)
            case _:
                raise UnsupportedConstruct(f"extract to a {kind}", where)
        if self.names.headers[header].metadata:
            raise BadProgram(f"{path}: metadata cannot be extracted")
        header_type = self.names.headers[header].type
        if bits is None and header_type.name in self.names.length_expressions:
            op = replace(op, varbit_bits=self._own_length(header_type))
        if (op.varbit_bits is None) != (header_type.varbit is None):
            raise BadProgram(f"{path}: extract_VL is for headers with a varbit field")
        return op

    def _own_length(self, header_type: HeaderType) -> Expr:
        """Return the length of a varbit field that other fields of its header tell.

        They are still ahead of the parser when it is needed.
        """
        reader = self.names.length_expressions[header_type.name]
        params = tuple(ActionParam(f.name, f.width) for f in header_type.fields)
        length = ExpressionReader(self.names, params).read(reader.data, reader.path)
        return _ahead(length, header_type)


def _ahead(expr: Expr, header_type: HeaderType) -> Expr:
    """Return an expression in which bits of the packet stand for the fields of a header."""
    match expr:
        case Param(index=index, width=width):
            return LookAhead(header_type.fields[index].offset, width)
        case Op(op=op, args=args):
            return Op(op, tuple(_ahead(arg, header_type) for arg in args))
    return expr


def _transition(reader: Reader, key: tuple[KeyPart, ...], next_state: int | None) -> Transition:
    """Split value and mask, which are concatenations of byte-padded fields."""
    value = hex_value(reader.data.get("value"), f"{reader.path}.value")
    mask = None
    if reader.has("mask"):
        mask = hex_value(reader.data["mask"], f"{reader.path}.mask")
    values: list[int] = []
    masks: list[int] = []
    for part in reversed(key):
        bits = (part.width + 7) // 8 * 8
        full = (1 << bits) - 1
        values.append(value & full)
        masks.append(full if mask is None else mask & full)
        value >>= bits
        if mask is not None:
            mask >>= bits
    if value or mask:
        raise BadProgram(f"{reader.path}: value or mask is wider than the transition key")
    return Transition(tuple(reversed(values)), tuple(reversed(masks)), next_state)


def read_deparser(root: Reader, names: Names) -> tuple[tuple[int, ...], tuple[Primitive, ...]]:
    """Return the headers in the order in which the deparser emits them, and its primitives."""
    deparsers = [r for r in root.objects("deparsers") if r.text("name") == "deparser"]
    if len(deparsers) != 1:
        raise UnsupportedConstruct("program without exactly one 'deparser'", "deparsers")
    actions, expressions = ActionReader(names), ExpressionReader(names)
    primitives = tuple(
        _without_jumps(actions.primitive(r, expressions, "the deparser"), r.path)
        for r in deparsers[0].objects("primitives", optional=True)
    )
    order = deparsers[0].array("order")
    headers = tuple(names.header(name, f"{deparsers[0].path}.order") for name in order)
    if any(names.headers[h].metadata for h in headers):
        raise BadProgram("deparsers[0].order: metadata cannot be emitted")
    return headers, primitives


def _without_jumps(primitive: Primitive, path: str) -> Primitive:
    if primitive.op in ("_jump", "_jump_if_zero"):
        raise BadProgram(f"{path}: a jump outside of an action")
    return primitive
