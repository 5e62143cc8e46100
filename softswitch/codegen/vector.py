"""Expressions of many copies at once, as vectors of 64-bit numbers (runtime/vectors.h).

A *row* has one expression per copy. The functions go down all of them together, and raise
`NotAlike` where they differ in more than fields and constants. A vector has the right low 64 bits;
where the range of a row fits 64 bits, with or without a sign, that is its value. Numbers of 65 to
128 bits are pairs of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from softswitch.codegen.alike import Row, Simplifier, all_ones, row_of
from softswitch.codegen.columns import NotAlike
from softswitch.codegen.expressions import Expressions
from softswitch.codegen.locality import FieldKey, fields_of, headers_of
from softswitch.codegen.ranges import Range, join, native_type
from softswitch.ir import Const, Expr, Field, HeaderRef, Op, Param, Valid, is_bool

_LOW = (1 << 64) - 1
_RING = frozenset(["+", "-", "*", "&", "|", "^"])
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
Fits = Callable[[Expr, int], bool]
"""Whether a value is in [0, largest]."""
Pair = tuple[str, str]
"""C text of the high and the low 64 bits."""
NOTHING = "ss_v_all(0)"


class Storage(Protocol):
    """Where the fields of copies are."""

    params: list[str]
    ranges: dict[tuple[FieldKey, ...], Range]
    written: set[FieldKey]
    written_headers: set[int]

    def load(self, keys: tuple[FieldKey, ...]) -> str:
        """Return the vector of a column, or of a field that all copies share."""

    def load_pair(self, keys: tuple[FieldKey, ...]) -> Pair:
        """Return the same for fields of 65 to 128 bits."""

    def load_bit(self, keys: tuple[FieldKey, ...]) -> str | None:
        """Return the mask of copies whose field of one bit is set, None if there is no fast way."""

    def load_valid(self, headers: tuple[int, ...]) -> str:
        """Return the mask of copies whose header is valid."""

    def hoist(self, kind: str, text: str) -> str:
        """Return the name of a number (or bool) that is computed once, before the first copy."""

    def constant(self, value: int) -> str:
        """Return the vector of a constant that all copies share."""

    def table(self, values: tuple[int, ...]) -> str:
        """Return the vector of constants."""


class Vectors:
    """Translates rows of expressions."""

    def __init__(self, expressions: Expressions, storage: Storage) -> None:
        self.e = expressions
        self.storage = storage
        self.simplify = Simplifier(expressions.ranges)

    def simple(self, row: Row) -> Row:
        """Return a row without what changes no value."""
        return tuple(self.simplify.of(expr) for expr in row)

    def range(self, row: Row) -> Range:
        """Return the smallest range that covers all copies."""
        known = self.storage.ranges.get(tuple(field_keys(row)))
        if known is not None and not self._kind(row[0])[1]:  # it is one of bits, without a sign
            return known
        bounds = self.e.ranges.of(row[0])
        for expr in row[1:]:
            bounds = join(bounds, self.e.ranges.of(expr))
        return bounds

    def is_shared(self, row: Row) -> bool:
        """Return True when all copies compute the same, from what no copy writes."""
        first = row[0]
        if any(expr != first for expr in row[1:]) or has_param(first):
            return False
        if self.storage.written_headers.intersection(headers_of(first)):
            return False
        return not self.storage.written.intersection(fields_of(first))

    # Numbers

    def number(self, row: Row) -> str:
        """Return the low 64 bits."""
        first = row[0]
        if isinstance(first, Const) and self.is_shared(row):
            return self.storage.constant(first.value & _LOW)
        if self.is_shared(row):
            return self.storage.hoist("ss_v", f"ss_v_all({self.e.modular(first, 64)})")
        if all(isinstance(expr, Const) for expr in row):
            return self.storage.table(tuple(e.value & _LOW for e in row if isinstance(e, Const)))
        if all(isinstance(expr, Field) for expr in row):
            return self._field(row)
        if isinstance(first, Param) and all(expr == first for expr in row):
            return self.storage.params[first.index]
        return self._operation(operations(row, self.simplify.fits))

    def _field(self, row: Row) -> str:
        kinds = {self._kind(expr) for expr in row}
        if len(kinds) != 1:
            raise NotAlike
        width, signed = kinds.pop()
        if width > 64:
            return self.pair(row)[1]
        text = self.storage.load(keys_of(row))
        return f"ss_v_sext({text}, {width})" if signed and width < 64 else text

    def _kind(self, expr: Expr) -> tuple[int, bool]:
        if not isinstance(expr, Field):
            raise NotAlike
        kind = self.e.layout.field_type(expr)
        if kind.varbit or kind.width > 128 or (kind.signed and kind.width > 64):
            raise NotAlike
        return kind.width, kind.signed

    def _operation(  # noqa: PLR0911 - one case per operation
        self, row: tuple[Op, ...]
    ) -> str:
        op, arity = row[0].op, len(row[0].args)
        args = [row_of(row, i) for i in range(arity)]
        if op in ("b2d", "d2b") or all(is_bool(expr) for expr in row):
            return f"ss_m_number({self.mask(args[0] if op == 'b2d' else row)})"
        if op in _RING and arity == 2:
            return f"({self.number(args[0])} {op} {self.number(args[1])})"
        if op in ("-", "~") and arity == 1:
            return f"({'-' if op == '-' else '~'}{self.number(args[0])})"
        if op == "<<":
            return self._shift_left(args[0], args[1])
        if op == ">>":
            return self._shift_right(args[0], args[1])
        if op == "?":
            yes, no = self.number(args[1]), self.number(args[2])
            return f"ss_v_pick({self.mask(args[0])}, {yes}, {no})"
        if op == "two_comp_mod":
            width = same_constant(args[1])
            if not 0 < width <= 64:
                raise NotAlike
            inner = self.number(args[0])
            return inner if width == 64 else f"ss_v_sext({inner}, {width})"
        raise NotAlike

    def _shift_left(self, value: Row, amount: Row) -> str:
        if all(isinstance(expr, Const) for expr in amount) and len(set(amount)) == 1:
            n = same_constant(amount)
            if n < 0:
                raise NotAlike
            return f"({self.number(value)} << {n})" if n < 64 else "ss_v_all(0)"
        return f"ss_v_shl({self.number(value)}, {self.amount(amount)})"

    def _shift_right(self, value: Row, amount: Row) -> str:
        native = native_type(self.range(value))
        constant = all(isinstance(expr, Const) for expr in amount) and len(set(amount)) == 1
        if native not in ("uint64_t", "int64_t"):
            return _shift_pair(">>", self.pair(value), same_constant(amount))[1]
        kind = "sar" if native == "int64_t" else "shr"
        if constant and 0 <= same_constant(amount) < 64 and kind == "shr":
            return f"({self.number(value)} >> {same_constant(amount)})"
        return f"ss_v_{kind}({self.number(value)}, {self.amount(amount)})"

    def amount(self, row: Row) -> str:
        """Return numbers to shift by."""
        if native_type(self.range(row)) != "uint64_t":
            raise NotAlike
        return self.number(row)

    # Numbers of up to 128 bits

    def pair(self, row: Row) -> Pair:
        """Return both halves of numbers in [0, 2^128)."""
        low, high = self.range(row)
        if low < 0 or high >= 1 << 128:
            raise NotAlike
        if high <= _LOW:
            return NOTHING, self.number(row)
        if self.is_shared(row):
            text = self.e.modular(row[0], 128)
            parts = [f"(uint64_t)({text} >> 64)", f"(uint64_t)({text})"]
            high_text, low_text = (self.storage.hoist("ss_v", f"ss_v_all({p})") for p in parts)
            return high_text, low_text
        if all(isinstance(expr, Field) for expr in row):
            if {self._kind(expr) for expr in row} != {self._kind(row[0])}:
                raise NotAlike
            return self.storage.load_pair(keys_of(row))
        ops = operations(row, self.simplify.fits)
        args = [row_of(ops, i) for i in range(len(ops[0].args))]
        match ops[0].op:
            case "&":
                mask = same_constant(args[1])
                first, second = self.pair(args[0])
                return f"({first} & {mask >> 64 & _LOW}u)", f"({second} & {mask & _LOW}u)"
            case "|" | "^" as op:
                (a, b), (c, d) = self.pair(args[0]), self.pair(args[1])
                return _either(op, a, c), _either(op, b, d)
            case "<<" | ">>" as op:
                return _shift_pair(op, self.pair(args[0]), same_constant(args[1]))
        raise NotAlike

    # Truth values

    def mask(self, row: Row) -> str:
        """Return the mask of copies for which a condition holds."""
        if self.is_shared(row):
            return f"ss_m_if({self.condition(row[0])})"
        if all(isinstance(expr, Valid) for expr in row):
            return self._valid(row)
        ops = operations(row, self.simplify.fits)
        args = [row_of(ops, i) for i in range(len(ops[0].args))]
        match ops[0].op:
            case "not":
                return f"(~{self.mask(args[0])})"
            case "and" | "or" as op:
                return f"({self.mask(args[0])} {'&' if op == 'and' else '|'} {self.mask(args[1])})"
            case "d2b":
                if native_type(self.range(args[0])) not in ("uint64_t", "int64_t"):
                    raise NotAlike
                return f"ss_m_ne({self.number(args[0])}, ss_v_all(0))"
            case op if op in _COMPARE:
                return self._compare(op, args[0], args[1])
        raise NotAlike

    def condition(self, expr: Expr) -> str:
        """Return the name of a condition that is the same for all copies."""
        return self.storage.hoist("bool", self.e.boolean(expr))

    def _compare(self, op: str, a: Row, b: Row) -> str:
        if not all(_is_number(expr) for expr in (*a, *b)):
            raise NotAlike
        bits = self._bits(a) if op in ("==", "!=") and set(b) <= {Const(0), Const(1)} else None
        if bits is not None and len(set(b)) == 1:
            return bits if (b[0] == Const(1)) == (op == "==") else f"(~{bits})"
        native = native_type(join(self.range(a), self.range(b)))
        if native not in ("uint64_t", "int64_t"):
            raise NotAlike
        kind = "s" if native == "int64_t" else ""
        return f"ss_m_{kind}{_COMPARE[op]}({self.number(a)}, {self.number(b)})"

    def _bits(self, row: Row) -> str | None:
        """Return the mask of copies whose number of one bit is 1, None if there is no fast way.

        Copy k may have the k-th bit of a number that all share: those of a step are a mask already.
        """
        if all(isinstance(expr, Field) for expr in row):
            return self.storage.load_bit(keys_of(row))
        found = [bit_of(expr, self.simplify.fits) for expr in row]
        places = [bit for _, bit in found]
        values = tuple(value for value, _ in found)
        if places != list(range(places[0], places[0] + len(row))) or not self.is_shared(values):
            return None
        if places[0] < 0 or native_type(self.range(values)) != "uint64_t" or places[-1] > 63:
            return None
        number = self.storage.hoist("uint64_t", self.e.modular(values[0], 64))
        return f"ss_m_of((unsigned)({number} >> ({places[0]} + k)))"

    def _valid(self, row: Row) -> str:
        headers = tuple(
            expr.header.header
            for expr in row
            if isinstance(expr, Valid) and isinstance(expr.header, HeaderRef)
        )
        if len(headers) != len(row):
            raise NotAlike
        return self.storage.load_valid(headers)


def bit_of(expr: Expr, fits: Fits) -> tuple[Expr, int]:
    """Return the number and the place of a bit that an expression is, -1 if it is none."""
    if isinstance(expr, Op) and expr.op == "&" and expr.args[1] == Const(1):
        expr = expr.args[0]
    elif not fits(expr, 1):
        return expr, -1
    if isinstance(expr, Op) and expr.op == ">>" and isinstance(expr.args[1], Const):
        return expr.args[0], expr.args[1].value
    return expr, 0


def operations(row: Row, fits: Fits) -> tuple[Op, ...]:
    """Return a row as operations of the same kind.

    A value among others that are masked, or shifted to the right, is masked or shifted too, by what
    changes nothing: the first copy needs no shift, the last one no mask.
    """
    for op in ("&", ">>"):
        done = [is_operation(expr, op) for expr in row]
        if any(done) and not all(done):
            row = tuple(
                expr if is_done else _idle(op, expr, row, fits)
                for expr, is_done in zip(row, done, strict=True)
            )
            break
    found = tuple(expr for expr in row if isinstance(expr, Op))
    first = found[0] if found else None
    if first is None or len(found) != len(row):
        raise NotAlike
    if any(expr.op != first.op or len(expr.args) != len(first.args) for expr in found):
        raise NotAlike
    return found


def is_operation(expr: Expr, op: str) -> bool:
    """Return True for an operation with a constant as its second operand."""
    return isinstance(expr, Op) and expr.op == op and isinstance(expr.args[-1], Const)


def _idle(op: str, expr: Expr, row: Row, fits: Fits) -> Op:
    if op == ">>":
        return Op(">>", (expr, Const(0)))
    masks = {other.args[1] for other in row if isinstance(other, Op) and is_operation(other, "&")}
    [mask] = masks if len(masks) == 1 else [None]
    if not isinstance(mask, Const) or not all_ones(mask.value) or not fits(expr, mask.value):
        raise NotAlike
    return Op("&", (expr, mask))


def keys_of(row: Row) -> tuple[FieldKey, ...]:
    """Return the fields of a row."""
    keys = tuple(field_keys(row))
    if len(keys) != len(row):
        raise NotAlike
    return keys


def field_keys(row: Row) -> Iterator[FieldKey]:
    """Yield the fields of fixed headers in a row."""
    for expr in row:
        if isinstance(expr, Field) and isinstance(expr.header, HeaderRef):
            yield expr.header.header, expr.field


def same_constant(row: Row) -> int:
    """Return the constant that all copies have."""
    first = row[0]
    if not isinstance(first, Const) or any(expr != first for expr in row):
        raise NotAlike
    return first.value


def has_param(expr: Expr) -> bool:
    """Return True when an expression depends on a parameter of its action."""
    if isinstance(expr, Op):
        return any(has_param(arg) for arg in expr.args)
    return isinstance(expr, Param)


def _is_number(expr: Expr) -> bool:
    return isinstance(expr, Const | Field | Param | Op) and not is_bool(expr)


def _shift_pair(op: str, pair: Pair, n: int) -> Pair:
    high, low = pair
    if n < 0:
        raise NotAlike
    if n == 0:
        return pair
    if n >= 128:
        return NOTHING, NOTHING
    if op == "<<":
        if n >= 64:
            return _shift(low, "<<", n - 64), NOTHING
        carried = _either("|", _shift(high, "<<", n), _shift(low, ">>", 64 - n))
        return carried, _shift(low, "<<", n)
    if n >= 64:
        return NOTHING, _shift(high, ">>", n - 64)
    carried = _either("|", _shift(low, ">>", n), _shift(high, "<<", 64 - n))
    return _shift(high, ">>", n), carried


def _shift(text: str, op: str, n: int) -> str:
    return text if n == 0 or text == NOTHING else f"({text} {op} {n})"


def _either(op: str, a: str, b: str) -> str:
    """Return a | b or a ^ b."""
    if NOTHING in (a, b):
        return b if a == NOTHING else a
    return f"({a} {op} {b})"
