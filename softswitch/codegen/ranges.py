"""Ranges of values that expressions can take, as exact integers.

The format computes with unbounded integers. A range says which native type holds an expression
exactly; where only the low bits of a result are used, `expressions` needs no range at all.
"""

from __future__ import annotations

from softswitch.codegen.layout import Layout
from softswitch.ir import Const, Expr, Field, LastIndex, LookAhead, Op, Param, is_bool

Range = tuple[int, int]
MAX_SHIFT = 8192


def native_type(bounds: Range) -> str | None:
    """Return the C type that holds every value of the range, or None."""
    low, high = bounds
    for bits, unsigned, signed in ((64, "uint64_t", "int64_t"), (128, "u128", "i128")):
        if low >= 0 and high < 1 << bits:
            return unsigned
        if low >= -(1 << (bits - 1)) and high < 1 << (bits - 1):
            return signed
    return None


def join(a: Range, b: Range) -> Range:
    """Return the smallest range that covers both."""
    return min(a[0], b[0]), max(a[1], b[1])


def unsigned(width: int) -> Range:
    """Return the range of a bit<width>."""
    return 0, (1 << width) - 1


def signed(width: int) -> Range:
    """Return the range of an int<width>."""
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


class Ranges:
    """Ranges of the expressions of one program."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        # Keyed by identity: the program keeps its expressions alive.
        self._known: dict[int, tuple[Expr, Range]] = {}

    def of(self, expr: Expr) -> Range:
        """Return the range of a numeric expression."""
        known = self._known.get(id(expr))
        if known is not None and known[0] is expr:
            return known[1]
        bounds = self._compute(expr)
        self._known[id(expr)] = (expr, bounds)
        return bounds

    def _compute(self, expr: Expr) -> Range:
        match expr:
            case Const(value=value):
                return value, value
            case Field():
                field = self.layout.field_type(expr)
                return signed(field.width) if field.signed else unsigned(field.width)
            case Param(width=width) | LookAhead(width=width):
                return unsigned(width)
            case LastIndex(stack=stack):
                return -1, self.layout.depth(stack) - 1
            case Op():
                return self._operation(expr)
        return 0, 1

    def _operation(  # noqa: PLR0911, PLR0912 - one case per operation
        self, expr: Op
    ) -> Range:
        if expr.op == "b2d" or is_bool(expr):
            return 0, 1
        if expr.op == "?":
            return join(self.of(expr.args[1]), self.of(expr.args[2]))
        a = self.of(expr.args[0])
        if expr.op == "~":
            return -a[1] - 1, -a[0] - 1
        if len(expr.args) == 1:
            return -a[1], -a[0]
        b = self.of(expr.args[1])
        match expr.op:
            case "+":
                return a[0] + b[0], a[1] + b[1]
            case "-":
                return a[0] - b[1], a[1] - b[0]
            case "*":
                corners = [x * y for x in a for y in b]
                return min(corners), max(corners)
            case "<<":
                amounts = [min(max(n, 0), MAX_SHIFT) for n in b]
                corners = [x << n for x in a for n in amounts]
                return min(corners), max(corners)
            case ">>":
                amounts = [min(max(n, 0), MAX_SHIFT) for n in b]
                corners = [x >> n for x in a for n in amounts]
                return min(corners), max(corners)
            case "/" | "%":
                return _quotient(expr.op, a, b)
            case "&" | "|" | "^":
                return _bitwise(expr.op, a, b)
            case "two_comp_mod":
                width = signed(b[0])
                return a if width[0] <= a[0] and a[1] <= width[1] else width
            case "usat_cast":
                return _clamp(a, unsigned(b[0]))
        return _clamp(a, signed(b[0]))


def _clamp(a: Range, limits: Range) -> Range:
    return tuple(min(max(n, limits[0]), limits[1]) for n in a)  # type: ignore[return-value]


def _quotient(op: str, a: Range, b: Range) -> Range:
    largest = max(abs(a[0]), abs(a[1]))
    if op == "%":
        largest = min(largest, max(abs(b[0]), abs(b[1])))
    return (0 if a[0] >= 0 and b[0] >= 0 else -largest), largest


def _bitwise(op: str, a: Range, b: Range) -> Range:
    if op == "&" and (a[0] >= 0 or b[0] >= 0):
        return 0, min(r[1] for r in (a, b) if r[0] >= 0)
    bits = max(abs(n) for n in (*a, *b)).bit_length()
    if a[0] >= 0 and b[0] >= 0:
        return unsigned(bits)
    return signed(bits + 1)
