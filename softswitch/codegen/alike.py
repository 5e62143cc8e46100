"""Expressions that are alike: the same operations on other fields and constants.

p4c writes what a program says many times in slightly different forms, with masks that keep
everything. `Simplifier` takes such differences away; `shape` tells expressions that may be alike.
"""

from __future__ import annotations

from collections.abc import Hashable

from softswitch.codegen.ranges import Ranges
from softswitch.ir import BoolConst, Const, Expr, Field, HeaderRef, Op, Param, Valid

Row = tuple[Expr, ...]
"""The expressions that stand at the same place of all copies."""


def all_ones(value: int) -> bool:
    """Return True for 2^n - 1."""
    return value >= 0 and value & (value + 1) == 0


class Simplifier:
    """Takes away what changes no value."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._known: dict[int, tuple[Expr, Expr]] = {}

    def of(self, expr: Expr) -> Expr:
        """Return an expression of the same value."""
        known = self._known.get(id(expr))
        if known is None:
            # The key is an identity: the expression has to stay alive.
            known = self._known[id(expr)] = (expr, self._compute(expr))
        return known[1]

    def _compute(  # noqa: PLR0911 - one case per operation
        self, expr: Expr
    ) -> Expr:
        if not isinstance(expr, Op):
            return expr
        args = tuple(self.of(arg) for arg in expr.args)
        match expr.op, args:
            case "d2b", (Op(op="b2d", args=(inner,)),):
                return inner
            case "&", (Const() as mask, value) if not isinstance(value, Const):
                return self._mask(value, mask)
            case "&", (value, Const() as mask):
                return self._mask(value, mask)
            case "&", (a, b):
                bare = self._unmasked(a, b)
                return Op("&", (bare, self._unmasked(b, bare)))  # one mask has to stay
            case "|", (Op(op="&", args=(value, Const(value=keep))), Const(value=bits)):
                # Setting bits that were cleared before needs no clearing.
                if all_ones(keep | bits) and self.fits(value, keep | bits):
                    return Op("|", (value, args[1]))
            case "two_comp_mod", (value, Const(value=width)):
                low, high = self.ranges.of(value)
                if -(1 << (width - 1)) <= low and high < 1 << (width - 1):
                    return value
        return Op(expr.op, args)

    def _unmasked(self, value: Expr, other: Expr) -> Expr:
        """Return a value without a mask that keeps all bits which the other one may have."""
        if isinstance(value, Op) and value.op == "&" and isinstance(value.args[1], Const):
            keep = value.args[1].value
            if all_ones(keep) and self.fits(other, keep):
                return value.args[0]
        return value

    def _mask(self, value: Expr, mask: Const) -> Expr:
        if all_ones(mask.value) and self.fits(value, mask.value):
            return value
        if isinstance(value, Op) and value.op == "&" and isinstance(value.args[1], Const):
            return self._mask(value.args[0], Const(value.args[1].value & mask.value))
        return Op("&", (value, mask))

    def fits(self, value: Expr, largest: int) -> bool:
        """Return True when a value is in [0, largest]."""
        low, high = self.ranges.of(value)
        return low >= 0 and high <= largest


def shape(expr: Expr) -> Hashable:  # noqa: PLR0911 - one case per kind of expression
    """Return what expressions that are alike have in common."""
    match expr:
        case Op(op=">>" | "&", args=(value, Const())):
            return shape(value)  # one copy may shift by nothing, or need no mask after it
        case Op(op=op, args=args):
            return op, *(shape(arg) for arg in args)
        case Field(header=HeaderRef()):
            return "field"
        case Valid(header=HeaderRef()):
            return "valid"
        case Param(index=index):
            return "param", index
        case Const():
            return "const"
        case BoolConst(value=value):
            return value
    return type(expr).__name__


def row_of(row: Row, position: int) -> Row:
    """Return the arguments at a position of operations."""
    return tuple(expr.args[position] for expr in row if isinstance(expr, Op))
