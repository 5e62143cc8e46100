"""Numbers of more than 128 bits, as pointers to limbs (see runtime/wide.h).

`number` has the right low limbs, as `Expressions.modular` has the right low bits; operations that
look at all of their operands (shifts to the right, divisions, comparisons, saturation) compute
them with as many limbs as their ranges and a sign need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from softswitch.codegen.layout import is_wide
from softswitch.codegen.ranges import Range, join, native_type
from softswitch.errors import UnsupportedConstruct
from softswitch.ir import Const, Expr, Field, LookAhead, Op, Param

if TYPE_CHECKING:
    from softswitch.codegen.expressions import Expressions

_RING = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_UNARY = {"-": "neg", "~": "not"}


def limbs_of(bounds: Range) -> int:
    """Return the number of limbs that hold every value of a range, and its sign."""
    bits = max(n.bit_length() if n >= 0 else (-n - 1).bit_length() for n in bounds) + 1
    return (bits + 63) // 64


def literal(value: int) -> str:
    """Return a C constant for an integer of up to 128 bits."""
    if 0 <= value < 1 << 64:
        return f"UINT64_C({value})" if value >= 1 << 31 else str(value)
    if -(1 << 63) < value < 0:
        return f"(-INT64_C({-value}))"
    unsigned = value & ((1 << 128) - 1)
    text = f"SS_U128(UINT64_C({unsigned >> 64}), UINT64_C({unsigned & (1 << 64) - 1}))"
    return f"((i128){text})" if value < 0 else text


def limbs(value: int, count: int) -> str:
    """Return a constant as limbs."""
    unsigned = value & (1 << 64 * count) - 1
    words = (f"UINT64_C({unsigned >> 64 * i & (1 << 64) - 1})" for i in range(count))
    return f"(const uint64_t[{count}]){{{', '.join(words)}}}"


def constant(value: int, width: int) -> str:
    """Return a constant of `width` bits in the form of an action's parameter."""
    return limbs(value, (width + 63) // 64) if is_wide(width) else literal(value)


class Wide:
    """Translates expressions to limbs."""

    def __init__(self, expressions: Expressions) -> None:
        self.e = expressions

    def exact(self, expr: Expr) -> tuple[str, int]:
        """Return limbs with the value of `expr`, and their number."""
        count = limbs_of(self.e.ranges.of(expr))
        return self.number(expr, count), count

    def native(self, expr: Expr, own: str) -> str:
        """Return C text of a native type with the low bits of `expr`, which is computed wide."""
        count = max(limbs_of(self.e.ranges.of(expr)), 2)
        return f"({own})ss_w_low({self.number(expr, count)}, {count})"

    def number(  # noqa: PLR0911 - one case per kind of expression
        self, expr: Expr, count: int
    ) -> str:
        """Return a pointer to at least `count` limbs, the lowest `count` of which are right."""
        room = f"SS_LIMBS({count}), {count}"
        match expr:
            case Const(value=value):
                return limbs(value, count)
            case Field() if self.e.is_wide_number(expr):
                return self._field(expr, count)
            case Param(index=index, width=width) if is_wide(width):
                return f"ss_w_copy({room}, a{index}, {(width + 63) // 64})"
            case LookAhead(offset=offset, width=width) if is_wide(width):
                return f"ss_w_bits({room}, d, {offset}, {width})"
            case Op(op="?", args=(cond, yes, no)):
                chosen = f"{self.number(yes, count)} : {self.number(no, count)}"
                return f"({self.e.boolean(cond)} ? {chosen})"
            case Op() if self._is_native(expr):
                return self._from_native(expr, count)
            case Op():
                return self._operation(expr, count)
        return self._from_native(expr, count)

    def _is_native(self, expr: Op) -> bool:
        """Return True when an operation and its operands need no limbs."""
        return native_type(self.e.ranges.of(expr)) is not None and not self.e.has_wide_operand(expr)

    def _from_native(self, expr: Expr, count: int) -> str:
        own = self.e.type_of(self.e.ranges.of(expr))
        kind = "i128" if own in ("int64_t", "i128") else "u128"
        return f"ss_w_{kind}(SS_LIMBS({count}), {count}, {self.e.exact(expr)})"

    def _field(self, expr: Field, count: int) -> str:
        info, text = self.e.layout.field_type(expr), self.e.field(expr)
        size = f"{text}_len" if info.varbit else str((info.width + 7) // 8)
        if not info.signed or info.varbit:
            return f"ss_w_load(SS_LIMBS({count}), {count}, {text}, {size})"
        whole = max(count, (info.width + 63) // 64)
        loaded = f"ss_w_load(SS_LIMBS({whole}), {whole}, {text}, {size})"
        return f"ss_w_sext(SS_LIMBS({whole}), {loaded}, {whole}, {info.width})"

    def _operation(self, expr: Op, count: int) -> str:
        a, op, ranges = expr.args[0], expr.op, self.e.ranges
        if len(expr.args) == 1:
            name, n, args = _UNARY[op], count, [self.number(a, count)]
            return f"ss_w_{name}(SS_LIMBS({n}), {args[0]}, {n})"
        b = expr.args[1]
        match op, b:
            case _ if op in _RING:
                name, n, args = _RING[op], count, [self.number(a, count), self.number(b, count)]
            case "<<", _:
                amount = self.e.length(b)
                return f"ss_w_shl(SS_LIMBS({count}), {self.number(a, count)}, {count}, {amount})"
            case ">>", _:
                n = max(count, limbs_of(ranges.of(a)))
                return f"ss_w_shr(SS_LIMBS({n}), {self.number(a, n)}, {n}, {self.e.length(b)})"
            case (("/" | "%"), _):
                n = max(count, limbs_of(join(ranges.of(a), ranges.of(b))))
                name = "quotient" if op == "/" else "remainder"
                args = [self.number(a, n), self.number(b, n)]
            case "two_comp_mod", Const(value=width):
                n = max(count, (width + 63) // 64)
                return f"ss_w_sext(SS_LIMBS({n}), {self.number(a, n)}, {n}, {width})"
            case (("usat_cast" | "sat_cast"), _):
                low, high = ranges.of(expr)
                n = max(count, limbs_of(join(ranges.of(a), (low, high))))
                name, args = "clamp", [self.number(a, n), limbs(low, n), limbs(high, n)]
            case _:
                raise UnsupportedConstruct(f"operation {op!r} on wide numbers", self.e.where)
        return f"ss_w_{name}(SS_LIMBS({n}), {', '.join(args)}, {n})"

    def compare(self, op: str, a: Expr, b: Expr) -> str:
        """Return a C condition that compares two numbers."""
        n = limbs_of(join(self.e.ranges.of(a), self.e.ranges.of(b)))
        return f"(ss_w_cmp({self.number(a, n)}, {self.number(b, n)}, {n}) {op} 0)"

    def store(self, target: Field, text: str, count: int) -> str:
        """Return the statement that truncates limbs into a field of any width."""
        info, field = self.e.layout.field_type(target), self.e.field(target)
        if info.varbit:
            return f"ss_w_store({field}, {field}_len, {field}_len * 8u, {text}, {count});"
        return f"ss_w_store({field}, {(info.width + 7) // 8}, {info.width}, {text}, {count});"
