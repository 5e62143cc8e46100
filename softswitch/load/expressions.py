"""Type-value objects of the JSON format to expressions."""

from __future__ import annotations

from typing import Any

from softswitch.errors import BadProgram, UnsupportedConstruct
from softswitch.ir import (
    BoolConst,
    Const,
    Expr,
    Field,
    HeaderAt,
    HeaderExpr,
    HeaderRef,
    LastHeader,
    LastIndex,
    LookAhead,
    Op,
    Param,
    StackRef,
    UnionRef,
    Valid,
    is_bool,
)
from softswitch.load.names import Names
from softswitch.load.reader import Reader, hex_value, text_pair
from softswitch.program import ActionParam

MAX_DEPTH = 200
_BINARY = frozenset(
    "+ - * / % << >> & | ^ == != > >= < <= and or two_comp_mod usat_cast sat_cast".split()  # noqa: SIM905
)
_UNARY = frozenset(["~", "not", "d2b", "b2d", "-"])
_BOOL_ARGS = frozenset(["and", "or", "not", "b2d"])


class ExpressionReader:
    """Reads expressions; `params` are the parameters of the enclosing action."""

    def __init__(self, names: Names, params: tuple[ActionParam, ...] = ()) -> None:
        self.names = names
        self.params = params

    def read(  # noqa: PLR0911, PLR0912 - one case per type
        self, value: Any, path: str, depth: int = 0
    ) -> Expr:
        """Read a type-value object."""
        if depth > MAX_DEPTH:
            raise BadProgram(f"{path}: expression is nested more than {MAX_DEPTH} deep")
        reader = Reader(value, path)
        kind = reader.text("type")
        inner = reader.data.get("value")
        where = f"{path}.value"
        match kind:
            case "field":
                return self._field(inner, where)
            case "hexstr":
                return Const(hex_value(inner, where))
            case "bool":
                return BoolConst(reader.flag("value"))
            case "header":
                return HeaderRef(self.names.header(inner, where))
            case "header_stack":
                return StackRef(self.names.stack(inner, where))
            case "header_union":
                headers = self.names.union(inner, where)
                return UnionRef(tuple(HeaderRef(header) for header in headers))
            case "header_union_stack":
                return StackRef(self.names.union_stack(inner, where).index)
            case "union_stack_field":
                return self._union_stack_field(inner, where)
            case "stack_field":
                stack_name, field_name = text_pair(inner, where)
                stack = self.names.stack(stack_name, where)
                first = self.names.stacks[stack].members[0]
                names = {f.name for f in self.names.stacks[stack].type.fields}
                if field_name == "last" and field_name not in names:
                    return LastHeader(stack)  # the header itself, as p4c writes it
                return Field(LastHeader(stack), self.names.field(first, field_name, where))
            case "local" | "runtime_data":
                return self._param(inner, where)
            case "lookahead":
                return _lookahead(inner, where)
            case "expression":
                return self._expression(inner, where, depth)
        raise UnsupportedConstruct(f"value of type {kind!r}", path)

    def boolean(self, value: Any, path: str) -> Expr:
        """Read an expression that must have a truth value."""
        expr = self.read(value, path)
        if not is_bool(expr):
            raise BadProgram(f"{path} must be a boolean expression")
        return expr

    def _field(self, value: Any, path: str) -> Expr:
        header_name, field_name = text_pair(value, path)
        header = self.names.header(header_name, path)
        if field_name == "$valid$":
            return Op("b2d", (Valid(HeaderRef(header)),))
        return Field(HeaderRef(header), self.names.field(header, field_name, path))

    def _union_stack_field(self, value: Any, path: str) -> Expr:
        """A field of a member of the last union of a stack."""
        if not isinstance(value, list) or len(value) != 3:
            raise BadProgram(f"{path} must be [stack, member, field]")
        stack = self.names.union_stack(value[0], path)
        member = self.names.union_member(stack.name, value[1], path)
        column = stack.members[member]
        field = self.names.field(stack.unions[0][member], value[2], path)
        return Field(HeaderAt(column, LastIndex(stack.index)), field)

    def _union(self, expr: Expr, path: str) -> UnionRef:
        if not isinstance(expr, UnionRef):
            raise BadProgram(f"{path}: a header union is needed here")
        return expr

    def _union_at(self, stack: Expr, index: Expr, path: str) -> UnionRef:
        """A union of a stack."""
        if not isinstance(stack, StackRef):
            raise BadProgram(f"{path}.left must be a stack of header unions")
        found = next((s for s in self.names.union_stacks.values() if s.index == stack.stack), None)
        if found is None:
            raise BadProgram(f"{path}.left must be a stack of header unions")
        if not isinstance(index, Const):
            return UnionRef(tuple(HeaderAt(column, index) for column in found.members))
        if not 0 <= index.value < len(found.unions):
            raise BadProgram(f"{path}: {found.name!r} has no element {index.value}")
        return UnionRef(tuple(HeaderRef(header) for header in found.unions[index.value]))

    def _union_header(self, expr: Expr, member: Any, path: str) -> Expr:
        union = self._union(expr, path)
        if type(member) is not int or not 0 <= member < len(union.headers):
            raise BadProgram(f"{path}.right: the union has no member {member!r}")
        return union.headers[member]

    @staticmethod
    def _unions_equal(op: str, a: UnionRef, b: UnionRef) -> Expr:
        """Two unions are equal when the same member is valid and equal in both."""
        equal: Expr = BoolConst(False)
        for x, y in zip(a.headers, b.headers, strict=False):
            equal = Op("or", (equal, Op("==", (x, y))))
        return equal if op == "==" else Op("not", (equal,))

    def _param(self, value: Any, path: str) -> Expr:
        if type(value) is not int or not 0 <= value < len(self.params):
            raise BadProgram(f"{path}: parameter {value!r}, the action has {len(self.params)}")
        return Param(value, self.params[value].width)

    def _expression(  # noqa: PLR0911, PLR0912 - one case per operation
        self, value: Any, path: str, depth: int
    ) -> Expr:
        reader = Reader(value, path)
        if "op" not in reader.data:
            return self.read(value, path, depth + 1)
        op = reader.text("op")

        def arg(name: str) -> Expr:
            return self.read(reader.data.get(name), f"{path}.{name}", depth + 1)

        if op in _BINARY and reader.has("left"):
            left, right = arg("left"), arg("right")
            if isinstance(left, UnionRef) and isinstance(right, UnionRef) and op in ("==", "!="):
                return self._unions_equal(op, left, right)
            return self._checked(Op(op, (left, right)), path)
        if op == "+":
            return arg("right")
        if op in _UNARY:
            return self._checked(Op(op, (arg("right"),)), path)
        if op == "?":
            return self._checked(Op(op, (arg("cond"), arg("left"), arg("right"))), path)
        if op == "valid":
            return Valid(self._header(arg("right"), path))
        if op == "valid_union":
            any_valid: Expr = BoolConst(False)
            for header in self._union(arg("right"), path).headers:
                any_valid = Op("or", (any_valid, Valid(header)))
            return any_valid
        if op == "access_union_header":
            return self._union_header(arg("left"), reader.data.get("right"), path)
        if op == "dereference_union_stack":
            return self._union_at(arg("left"), arg("right"), path)
        if op == "access_field":
            return self._access(arg("left"), reader.data.get("right"), path)
        if op in ("dereference_header_stack", "dereference_stack"):
            stack = arg("left")
            if not isinstance(stack, StackRef):
                raise BadProgram(f"{path}.left must be a header stack")
            return HeaderAt(stack.stack, arg("right"))
        if op in ("last_stack_index", "size_stack"):
            stack = arg("right")
            if not isinstance(stack, StackRef):
                raise BadProgram(f"{path}.right must be a header stack")
            last = LastIndex(stack.stack)
            return last if op == "last_stack_index" else Op("+", (last, Const(1)))
        raise UnsupportedConstruct(f"operation {op!r}", path)

    def _access(self, header: Expr, field: Any, path: str) -> Expr:
        header = self._header(header, path)
        if isinstance(header, HeaderRef):
            header_type = self.names.headers[header.header].type
        else:
            header_type = self.names.stacks[header.stack].type
        if type(field) is not int or not 0 <= field < len(header_type.fields):
            raise BadProgram(f"{path}.right: {field!r} is no field of {header_type.name!r}")
        return Field(header, field)

    @staticmethod
    def _header(expr: Expr, path: str) -> HeaderExpr:
        if not isinstance(expr, HeaderRef | HeaderAt | LastHeader):
            raise BadProgram(f"{path}: a header is needed here")
        return expr

    @staticmethod
    def _checked(expr: Op, path: str) -> Op:
        """Check that truth values and numbers are not mixed up."""
        args = expr.args
        if expr.op == "?":
            good = is_bool(args[0]) and is_bool(args[1]) == is_bool(args[2])
        elif expr.op in _BOOL_ARGS:
            good = all(is_bool(a) for a in args)
        elif expr.op in ("==", "!="):
            headers = [isinstance(a, HeaderRef | HeaderAt) for a in args]
            good = is_bool(args[0]) == is_bool(args[1]) and headers[0] == headers[1]
        else:
            good = not any(
                is_bool(a) or isinstance(a, HeaderRef | StackRef | UnionRef) for a in args
            )
        if expr.op in ("two_comp_mod", "usat_cast", "sat_cast"):
            width = args[1]
            if not isinstance(width, Const) or not 1 <= width.value <= 2048:
                raise BadProgram(f"{path}: the width of {expr.op} must be a constant from 1")
        if not good:
            raise BadProgram(f"{path}: operands of {expr.op!r} have the wrong kind")
        return expr


def _lookahead(value: Any, path: str) -> LookAhead:
    if not isinstance(value, list) or len(value) != 2 or not all(type(v) is int for v in value):
        raise BadProgram(f"{path} must be [offset, width] in bits")
    if not 0 <= value[0] <= 65536 or not 1 <= value[1] <= 2048:
        raise BadProgram(f"{path}: lookahead of {value[1]} bits at {value[0]} is out of range")
    return LookAhead(value[0], value[1])
