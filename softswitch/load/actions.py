"""Actions and their primitives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softswitch.errors import BadProgram, UnsupportedConstruct
from softswitch.ir import (
    Arg,
    ArrayRef,
    Const,
    DigestRef,
    Expr,
    Field,
    HeaderAt,
    HeaderRef,
    LastHeader,
    Op,
    Primitive,
    StackRef,
    Text,
    UnionRef,
    Vector,
    is_bool,
)
from softswitch.load.expressions import ExpressionReader
from softswitch.load.names import Names
from softswitch.load.reader import Reader, hex_value
from softswitch.program import Action, ActionParam

MAX_PARAM_BITS = 2048

# Kinds of arguments of each primitive: v(alue), b(oolean or value), f(ield), h(eader), s(tack),
# u(nion), r(egister array), c(ounter array), m(eter array), l(earn list), k (calculation), t(ext),
# p (vector), j(ump target).
SIGNATURES = {
    "assign": "fv",
    "assign_VL": "ff",
    "assign_union": "uu",
    "assign_union_stack": "ss",
    "assign_header": "hh",
    "copy_header": "hh",
    "assign_header_stack": "ss",
    "add_header": "h",
    "remove_header": "h",
    "push": "sv",
    "pop": "sv",
    "_jump": "j",
    "_jump_if_zero": "bj",
    "exit": "",
    "assert": "b",
    "assume": "b",
    "log_msg": "tp",
    "mark_to_drop": "h",
    "drop": "",
    "no_op": "",
    "count": "cv",
    "register_read": "frv",
    "register_write": "rvv",
    "clone_ingress_pkt_to_egress": "vv",
    "clone_egress_pkt_to_egress": "vv",
    "resubmit": "v",
    "recirculate": "v",
    "truncate": "v",
    "modify_field_with_hash_based_offset": "fvkv",
    "modify_field_rng_uniform": "fvv",
    "execute_meter": "mvf",
    "generate_digest": "vl",
    # Of P4_14, as old compilers wrote it.
    "add_header_fast": "h",
    "modify_field": "fv",
    "add_to_field": "fv",
    "subtract_from_field": "fv",
    "add": "fvv",
    "subtract": "fvv",
    "bit_and": "fvv",
    "bit_or": "fvv",
    "bit_xor": "fvv",
    "shift_left": "fvv",
    "shift_right": "fvv",
}
_OPERATORS = {
    "add_to_field": "+",
    "subtract_from_field": "-",
    "add": "+",
    "subtract": "-",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}


@dataclass
class ActionReader:
    """Reads actions; objects are resolved through `names`."""

    names: Names

    def read(self, reader: Reader, index: int) -> Action:
        """Read one entry of the actions array."""
        name = reader.text("name")
        params: list[ActionParam] = []
        for param in reader.objects("runtime_data"):
            width = param.integer("bitwidth", 1, MAX_PARAM_BITS)
            params.append(ActionParam(param.text("name"), width))
        expressions = ExpressionReader(self.names, tuple(params))
        primitives = tuple(
            self.primitive(p, expressions, f"action {name!r}") for p in reader.objects("primitives")
        )
        for primitive in primitives:
            for kind, arg in zip(SIGNATURES[primitive.op], primitive.args, strict=True):
                if kind == "j" and isinstance(arg, Const) and arg.value > len(primitives):
                    raise BadProgram(f"{reader.path}: jump to {arg.value} leaves the action")
        return Action(name, index, tuple(params), primitives)

    def primitive(self, reader: Reader, expressions: ExpressionReader, where: str) -> Primitive:
        """Read a primitive call."""
        op = reader.text("op")
        if op not in SIGNATURES:
            raise UnsupportedConstruct(f"primitive {op!r}", where)
        raw = reader.array("parameters")
        kinds = SIGNATURES[op]
        if len(raw) != len(kinds):
            raise BadProgram(f"{reader.path}: {op} takes {len(kinds)} parameters, not {len(raw)}")
        args = tuple(
            self._arg(kind, value, f"{reader.path}.parameters[{i}]", expressions)
            for i, (kind, value) in enumerate(zip(kinds, raw, strict=True))
        )
        return Primitive(*self._assignment(op, args), where)

    def _assignment(self, op: str, args: tuple[Arg, ...]) -> tuple[str, tuple[Arg, ...]]:
        """Return a primitive that assigns a value as `assign`; others as they are."""
        target, *values = args if op in ("assign", "modify_field", *_OPERATORS) else (None,)
        if not isinstance(target, Field):
            return op, args
        operands = [value for value in values if isinstance(value, Expr)]
        if op not in _OPERATORS:
            value = operands[0]
        elif len(operands) == 1:
            value = Op(_OPERATORS[op], (target, operands[0]))
        else:
            value = Op(_OPERATORS[op], tuple(operands))
        return "assign", (target, saturated(self.names, target, value))

    def _arg(  # noqa: PLR0911, PLR0912 - one case per kind of argument
        self, kind: str, value: Any, path: str, expressions: ExpressionReader
    ) -> Arg:
        match kind:
            case "r":
                return self._array("register_array", value, path, set(self.names.registers))
            case "c":
                return self._array("counter_array", value, path, self.names.counters)
            case "m":
                return self._array("meter_array", value, path, self.names.meters)
            case "l":
                return self._learn_list(value, path)
            case "k":
                return self._array("calculation", value, path, self.names.calculations)
            case "t":
                return Text(Reader(value, path).text("value"))
            case "p":
                reader = Reader(value, path)
                # p4c writes an object when there are no values.
                items = [] if reader.data.get("value") == {} else reader.array("value")
                return Vector(
                    tuple(expressions.read(v, f"{path}.value[{i}]") for i, v in enumerate(items))
                )
        expr = expressions.read(value, path)
        if kind == "v" and is_bool(expr):
            # p4c stores booleans in 1-bit fields and may leave the conversion out.
            expr = Op("b2d", (expr,))
        allowed: type | tuple[type, ...]
        match kind:
            case "f":
                allowed = Field
            case "h":
                allowed = (HeaderRef, HeaderAt, LastHeader)
            case "s":
                allowed = StackRef
            case "u":
                allowed = UnionRef
            case "j":
                allowed = Const
            case _:
                if isinstance(expr, HeaderRef | HeaderAt | LastHeader | StackRef | UnionRef):
                    raise BadProgram(f"{path} must be a value")
                return expr
        if not isinstance(expr, allowed):
            raise BadProgram(f"{path} is a {type(expr).__name__}, which cannot be used here")
        if kind == "j" and isinstance(expr, Const) and expr.value < 0:
            raise BadProgram(f"{path}: negative jump target")
        return expr

    def _learn_list(self, value: Any, path: str) -> DigestRef:
        list_id = hex_value(Reader(value, path).data.get("value"), path)
        if list_id not in self.names.learn_lists:
            raise BadProgram(f"{path}: there is no learn list {list_id}")
        return self.names.learn_lists[list_id]

    @staticmethod
    def _array(kind: str, value: Any, path: str, known: set[str]) -> ArrayRef:
        reader = Reader(value, path)
        name = reader.text("value")
        if reader.text("type") != kind or name not in known:
            raise BadProgram(f"{path}: there is no {kind} {name!r}")
        return ArrayRef(kind, name)


def saturated(names: Names, target: Field, value: Expr) -> Expr:
    """Return what a field holds when `value` is assigned to it, before it is truncated."""
    header = target.header
    kind = (
        names.headers[header.header].type
        if isinstance(header, HeaderRef)
        else names.stacks[header.stack].type
    ).fields[target.field]
    if not kind.saturating:
        return value
    return Op("sat_cast" if kind.signed else "usat_cast", (value, Const(kind.width)))
