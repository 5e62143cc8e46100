"""Numbers of 65 to 128 bits that are put together from smaller ones, as two halves of 64 bits.

Compilers shift 128-bit numbers bit by bit through pairs of registers. Where fields are laid side by
side, each half is known to consist of a few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from softswitch.codegen.layout import is_wide
from softswitch.ir import Const, Expr, Field, Op

if TYPE_CHECKING:
    from softswitch.codegen.expressions import Expressions

_LOW = (1 << 64) - 1
Pair = tuple[str, str]
"""C text of the high and the low 64 bits."""


class Halves:
    """Translates expressions to pairs."""

    def __init__(self, expressions: Expressions) -> None:
        self.e = expressions

    def of(self, expr: Expr) -> Pair | None:  # noqa: PLR0911 - one case per kind of expression
        """Return the halves of a number in [0, 2^128); None if it is not made of parts."""
        low, high = self.e.ranges.of(expr)
        if low < 0 or high >= 1 << 128:
            return None
        if high <= _LOW:
            return "0", self.e.modular(expr, 64)
        match expr:
            case Field() if not is_wide(self.e.layout.field_type(expr).width):
                text = self.e.field(expr)
                return f"(uint64_t)({text} >> 64)", f"(uint64_t){text}"
            case Op(op="&", args=(a, Const(value=mask))) if mask >= 0:
                pair = self.of(a)
                return pair and (_mask(pair[0], mask >> 64), _mask(pair[1], mask & _LOW))
            case Op(op="|" | "^" as op, args=(a, b)):
                first, second = self.of(a), self.of(b)
                if first is None or second is None:
                    return None
                return _join(op, first[0], second[0]), _join(op, first[1], second[1])
            case Op(op="<<", args=(a, Const(value=amount))) if 0 < amount < 64:
                return self._shifted(a, amount)
        return None

    def _shifted(self, a: Expr, amount: int) -> Pair | None:
        """Return the halves of a number below 2^64 that is shifted to the left."""
        low, high = self.e.ranges.of(a)
        if low < 0 or high > _LOW:
            return None
        return self.above(a, 64 - amount), f"({self.e.modular(a, 64)} << {amount})"

    def above(self, expr: Expr, amount: int) -> str:
        """Return a number below 2^64 that is shifted to the right by a constant."""
        if self.e.ranges.of(expr)[1] < 1 << amount:
            return "0"
        match expr:
            case Op(op="&", args=(a, Const(value=mask))) if self._fits(a):
                return _mask(self.above(a, amount), mask >> amount)
            case Op(op="|" | "^" as op, args=(a, b)) if self._fits(a) and self._fits(b):
                return _join(op, self.above(a, amount), self.above(b, amount))
            case Op(op="<<", args=(a, Const(value=left))) if left == amount and self._fits(expr):
                return self.e.modular(a, 64)
        return f"({self.e.modular(expr, 64)} >> {amount})"

    def _fits(self, expr: Expr) -> bool:
        low, high = self.e.ranges.of(expr)
        return low >= 0 and high <= _LOW


def _mask(text: str, mask: int) -> str:
    if text == "0" or mask == 0:
        return "0"
    return text if mask == _LOW else f"({text} & UINT64_C({mask}))"


def _join(op: str, a: str, b: str) -> str:
    if a == "0":
        return b
    return a if b == "0" else f"({a} {op} {b})"
