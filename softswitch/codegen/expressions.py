"""Expressions to C.

Three views of an expression: `exact` has the mathematical value in the native type of its range;
`modular` has the right low bits, with anything above them; `boolean` is a C truth value. Sums,
products, left shifts and bit operations are computed modulo 2^64 or 2^128 wherever only low bits
are needed, so 64-bit fields need no wider arithmetic. What needs more than 128 bits is computed
with limbs (see `wide`).
"""

from __future__ import annotations

from softswitch.codegen.halves import Halves
from softswitch.codegen.layout import Layout, c_type, is_wide
from softswitch.codegen.ranges import Range, Ranges, join, native_type
from softswitch.codegen.wide import Wide, literal
from softswitch.errors import UnsupportedConstruct
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
    Valid,
    is_bool,
)

_RING = frozenset(["+", "-", "*", "&", "|", "^"])
_SIGNED = frozenset(["int64_t", "i128"])


class Expressions:
    """Translates the expressions of one program; `where` is named in errors."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.ranges = Ranges(layout)
        self.wide = Wide(self)
        self.halves = Halves(self)
        self.where = "program"

    # Headers

    def header(self, expr: HeaderExpr) -> str:
        """Return the lvalue of a header that is no metadata."""
        if isinstance(expr, HeaderRef):
            return self.layout.header(expr.header)
        return f"p->h.s{expr.stack}[{self.slot(expr)}]"

    def slot(self, expr: HeaderAt | LastHeader) -> str:
        """Return the index within a stack; out of range it is the spare header."""
        depth = self.layout.depth(expr.stack)
        if isinstance(expr, LastHeader):
            return f"SS_SLOT((uint64_t)p->next[{expr.stack}] - 1, {depth})"
        return f"SS_SLOT({self.modular(expr.index, 64)}, {depth})"

    def valid(self, expr: HeaderExpr) -> str:
        """Return the lvalue of a header's validity (1 for metadata)."""
        if isinstance(expr, HeaderRef):
            return self.layout.static_valid(expr.header)
        return f"p->valid[{self.layout.first_valid(expr.stack)} + {self.slot(expr)}]"

    def field(self, expr: Field) -> str:
        """Return the lvalue of a field."""
        if isinstance(expr.header, HeaderRef):
            return self.layout.static_field(expr.header.header, expr.field)
        return f"{self.header(expr.header)}.f{expr.field}"

    # Numbers

    def type_of(self, bounds: Range) -> str:
        """Return the native type of a range; more than 128 bits are a mistake of the caller."""
        native = native_type(bounds)
        if native is None:
            raise UnsupportedConstruct("number of more than 128 bits", self.where)
        return native

    def is_native(self, *exprs: Expr) -> bool:
        """Return True when one native type holds all values of all of these expressions."""
        bounds = self.ranges.of(exprs[0])
        for expr in exprs[1:]:
            bounds = join(bounds, self.ranges.of(expr))
        return native_type(bounds) is not None

    def exact(self, expr: Expr, as_type: str | None = None) -> str:
        """Return C text with the value of `expr`, in the type of its range or in `as_type`.

        Without a native type for its range it has the low bits of the value, in `as_type` or u128.
        """
        if not self.is_native(expr):
            return self.wide.native(expr, as_type or "u128")
        own = self.type_of(self.ranges.of(expr))
        text = self._exact(expr, own)
        return text if as_type in (None, own) else f"({as_type})({text})"

    def length(self, expr: Expr) -> str:
        """Return a number of bits or bytes, or an amount to shift by, as uint64_t."""
        native = native_type(self.ranges.of(expr))
        if native is None:
            text, count = self.wide.exact(expr)
            return f"ss_w_amount({text}, {count})"
        if native == "u128":
            return f"SS_AMOUNT({self.exact(expr)})"
        return self.exact(expr, "uint64_t")

    def _exact(  # noqa: PLR0911, PLR0912 - one case per kind of expression
        self, expr: Expr, own: str
    ) -> str:
        match expr:
            case Const(value=value):
                return literal(value)
            case Field():
                return self._load(expr, own)
            case Param(index=index):
                return f"({own})a{index}"
            case LookAhead():
                return f"({own})ss_peek_bits(d, {expr.offset}, {expr.width})"
            case LastIndex(stack=stack):
                return f"((int64_t)p->next[{stack}] - 1)"
            case Op(op="?", args=(cond, yes, no)):
                return f"({self.boolean(cond)} ? {self.exact(yes, own)} : {self.exact(no, own)})"
            case Op() if self.has_wide_operand(expr):
                return self.wide.native(expr, own)
            case Op(op=">>"):
                return self._shift_right(expr, own)
            case Op(op="/" | "%", args=(a, b)):
                return self._divide(expr, a, b, own)
            case Op(op="two_comp_mod", args=(a, Const(value=width))):
                return self._two_comp_mod(a, width, own)
            case Op(op="usat_cast" | "sat_cast", args=(a, _)):
                return self._saturate(expr, a, own)
            case Op(op="b2d", args=(a,)):
                return f"({own})({self.boolean(a)})"
            case Op() if is_bool(expr):
                return f"({own})({self.boolean(expr)})"
            case Op():
                return (
                    f"({own})({self.modular(expr, 64 if own in ('uint64_t', 'int64_t') else 128)})"
                )
        raise UnsupportedConstruct(f"{type(expr).__name__} as a number", self.where)

    def _load(self, expr: Field, own: str) -> str:
        field = self.layout.field_type(expr)
        text = self.field(expr)
        if field.signed:
            size = 64 if field.width <= 64 else 128
            return f"({own})ss_sext{size}({text}, {field.width})"
        return f"({own}){text}"

    def has_wide_operand(self, expr: Op) -> bool:
        """Return True when an operation has to look at a number of more than 128 bits."""
        if is_bool(expr) or expr.op in ("b2d", "?"):
            return False
        if expr.op == ">>" and self._cut_wide(expr, 128) is not None:
            return False
        operands = expr.args[:1] if expr.op in ("<<", ">>") else expr.args
        if expr.op in ("/", "%"):
            return not self.is_native(*operands)
        if expr.op in ("usat_cast", "sat_cast"):
            return not self.is_native(operands[0], expr)
        if expr.op == ">>":
            return not self.is_native(*operands)
        return False  # low bits of the operands are all that the others need

    def _shift_right(self, expr: Op, own: str) -> str:
        value, amount = expr.args
        cut = self._cut_wide(expr, 128)
        if cut is not None:
            return f"({own}){cut}"
        native = self.type_of(self.ranges.of(value))
        size = 64 if native in ("uint64_t", "int64_t") else 128
        if isinstance(amount, Const) and 0 <= amount.value < size:
            # The cast is for constants, whose text is an int.
            return f"({own})(({native}){self.exact(value)} >> {amount.value})"
        kind = "sar" if native in _SIGNED else "shr"
        return f"({own})ss_{kind}{size}({self.exact(value)}, {self.length(amount)})"

    def is_wide_number(self, expr: Field) -> bool:
        """Return True when a field is an array of bytes."""
        field = self.layout.field_type(expr)
        return is_wide(field.width) or field.varbit

    def _cut_wide(self, expr: Op, bits: int) -> str | None:
        """Return bits of a field wider than 128 bits, shifted right by a constant."""
        value, amount = expr.args
        if not isinstance(value, Field) or not isinstance(amount, Const):
            return None
        width = self.layout.field_type(value).width
        if not self.is_wide_number(value) or self.layout.field_type(value).varbit:
            return None
        if self.layout.field_type(value).signed or amount.value < 0:
            return None
        left = width - amount.value
        if left <= 0:
            return "0"
        take = min(left, bits)
        padding = -width % 8
        return f"ss_peek_bits({self.field(value)}, {padding + left - take}, {take})"

    def _divide(self, expr: Op, a: Expr, b: Expr, own: str) -> str:
        common = self.type_of(join(self.ranges.of(a), self.ranges.of(b)))
        divisor = self.exact(b, common)
        quotient = f"{self.exact(a, common)} {expr.op} {divisor}"
        if isinstance(b, Const) and b.value != 0:
            return f"({own})({quotient})"
        # A division by zero stops bmv2; here it yields zero.
        return f"({own})({divisor} ? {quotient} : 0)"

    def _two_comp_mod(self, a: Expr, width: int, own: str) -> str:
        bounds = self.ranges.of(a)
        if -(1 << (width - 1)) <= bounds[0] and bounds[1] < 1 << (width - 1):
            return self.exact(a, own)
        size = 64 if width <= 64 else 128
        return f"({own})ss_sext{size}({self.modular(a, width)}, {width})"

    def _saturate(self, expr: Op, a: Expr, own: str) -> str:
        low, high = self.ranges.of(expr)
        bounds = self.ranges.of(a)
        native = self.type_of(join(bounds, (low, high)))
        value = self.exact(a, native)
        return f"({own})SS_CLAMP({native}, {value}, {literal(low)}, {literal(high)})"

    # Low bits

    def modular(  # noqa: PLR0911, PLR0912 - one case per kind of expression
        self, expr: Expr, bits: int
    ) -> str:
        """Return C text (uint64_t up to 64 bits, else u128) whose low `bits` bits are right."""
        own = "uint64_t" if bits <= 64 else "u128"
        size = 64 if bits <= 64 else 128
        if bits > 64 and isinstance(expr, Op):
            pair = self.halves.of(expr)
            if pair is not None:
                return f"SS_U128({pair[0]}, {pair[1]})"
        match expr:
            case Const(value=value):
                return f"({own}){literal(value & (1 << bits) - 1)}"
            case Field() if self.is_wide_number(expr) and self.layout.field_type(expr).varbit:
                return self.wide.native(expr, own)
            case Field() if self.is_wide_number(expr):
                width = self.layout.field_type(expr).width
                total = (width + 7) // 8 * 8
                return f"({own})ss_peek_bits({self.field(expr)}, {total - bits}, {bits})"
            case Op(op="&", args=(a, Const(value=mask)) | (Const(value=mask), a)) if mask >= 0:
                need = min(bits, max(mask.bit_length(), 1))
                masked = f"({self.modular(a, need)} & {literal(mask & (1 << bits) - 1)})"
                return masked if (need <= 64) == (bits <= 64) else f"({own}){masked}"
            case Op(op=op, args=(a, b)) if op in _RING:
                return f"({self.modular(a, bits)} {op} {self.modular(b, bits)})"
            case Op(op="-", args=(a,)):
                return f"(0 - {self.modular(a, bits)})"
            case Op(op="~", args=(a,)):
                return f"(~{self.modular(a, bits)})"
            case Op(op="<<", args=(a, Const(value=amount))) if amount >= 0:
                if amount >= bits:
                    return f"({own})0"
                inner = self.modular(a, bits - amount)
                return f"(({own}){inner} << {amount})"
            case Op(op="<<", args=(a, amount)):
                return f"ss_shl{size}({self.modular(a, bits)}, {self.length(amount)})"
            case Op(op=">>", args=(a, amount)):
                cut = self._cut_wide(expr, bits)
                if cut is not None:
                    return f"({own}){cut}"
                # What is needed of a 128-bit number often lies in its low half.
                if isinstance(amount, Const) and 0 <= amount.value <= 64 - bits:
                    return f"({self.modular(a, bits + amount.value)} >> {amount.value})"
            case Op(op="?", args=(cond, yes, no)):
                yes_text, no_text = self.modular(yes, bits), self.modular(no, bits)
                return f"({self.boolean(cond)} ? {yes_text} : {no_text})"
            case Op(op="two_comp_mod", args=(a, Const(value=width))) if bits <= width:
                return self.modular(a, bits)
        return self.exact(expr, own)

    def store(self, expr: Expr, width: int) -> str:
        """Return C text of `expr` truncated to a native field of `width` bits."""
        text = self.modular(expr, width)
        low, high = self.ranges.of(expr)
        if width in (8, 16, 32, 64, 128) or (low >= 0 and high < 1 << width):
            return f"({c_type(width)})({text})"
        return f"({c_type(width)})({text} & {literal((1 << width) - 1)})"

    def put(self, target: Field, text: str, width: int) -> str:
        """Return the statement that stores an unsigned C value of `width` bits in a field."""
        room = self.layout.field_type(target).width
        if self.is_wide_number(target):
            return self.wide.store(target, f"ss_w_u128(SS_LIMBS(2), 2, {text})", 2)
        if room < width and room not in (8, 16, 32, 64, 128):
            text = f"{text} & {literal((1 << room) - 1)}"
        return f"{self.field(target)} = ({c_type(room)})({text});"

    # Truth values

    def boolean(self, expr: Expr) -> str:  # noqa: PLR0911 - one case per kind of expression
        """Return a C condition."""
        match expr:
            case BoolConst(value=value):
                return "1" if value else "0"
            case Valid(header=header):
                return self.valid(header)
            case Op(op="not", args=(a,)):
                return f"(!{self.boolean(a)})"
            case Op(op="and", args=(a, b)):
                return f"({self.boolean(a)} && {self.boolean(b)})"
            case Op(op="or", args=(a, b)):
                return f"({self.boolean(a)} || {self.boolean(b)})"
            case Op(op="d2b", args=(a,)):
                return self._nonzero(a)
            case Op(op="?", args=(cond, yes, no)):
                return f"({self.boolean(cond)} ? {self.boolean(yes)} : {self.boolean(no)})"
            case Op(op=op, args=(a, b)) if op in ("==", "!=", "<", "<=", ">", ">="):
                return self._compare(op, a, b)
        return self._nonzero(expr)

    def _nonzero(self, expr: Expr) -> str:
        if self.is_native(expr):
            return f"({self.exact(expr)} != 0)"
        text, count = self.wide.exact(expr)
        return f"ss_w_nonzero({text}, {count})"

    def _compare(self, op: str, a: Expr, b: Expr) -> str:
        if is_bool(a):
            return f"(!!{self.boolean(a)} {op} !!{self.boolean(b)})"
        if isinstance(a, HeaderRef | HeaderAt) and isinstance(b, HeaderRef | HeaderAt):
            equal = self._headers_equal(a, b)
            return equal if op == "==" else f"(!{equal})"
        same = self._compare_bytes(op, a, b)
        if same is not None:
            return same
        if not self.is_native(a, b):
            return self.wide.compare(op, a, b)
        common = self.type_of(join(self.ranges.of(a), self.ranges.of(b)))
        return f"({self.exact(a, common)} {op} {self.exact(b, common)})"

    def _compare_bytes(self, op: str, a: Expr, b: Expr) -> str | None:
        """Compare two wide or varbit fields of the same kind byte by byte."""
        if not isinstance(a, Field) or not isinstance(b, Field):
            return None
        x, y = self.field(a), self.field(b)
        info, other = self.layout.field_type(a), self.layout.field_type(b)
        if info.varbit and other.varbit:
            equal = f"({x}_len == {y}_len && !memcmp({x}, {y}, {x}_len))"
            return {"==": equal, "!=": f"(!{equal})"}.get(op)
        alike = (info.width, info.signed, info.varbit) == (other.width, other.signed, other.varbit)
        if not is_wide(info.width) or not alike or (info.signed and op not in ("==", "!=")):
            return None
        return f"(memcmp({x}, {y}, {(info.width + 7) // 8}) {op} 0)"

    def _headers_equal(self, a: HeaderRef | HeaderAt, b: HeaderRef | HeaderAt) -> str:
        header_type = self.layout.header_type(a)
        if self.layout.header_type(b) is not header_type:
            return "0"
        terms = [self.valid(a), self.valid(b)]
        for i, field in enumerate(header_type.fields):
            x, y = self.field(Field(a, i)), self.field(Field(b, i))
            if field.varbit:
                terms.append(f"{x}_len == {y}_len && !memcmp({x}, {y}, {x}_len)")
            elif is_wide(field.width):
                terms.append(f"!memcmp({x}, {y}, {(field.width + 7) // 8})")
            else:
                terms.append(f"{x} == {y}")
        return "(" + " && ".join(terms) + ")"
