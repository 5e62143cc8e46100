"""Executable parts of a program: expressions, primitives, parser states, control-flow nodes.

Objects are referred to by index into the tuples of `softswitch.program.Program`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Const:
    """An integer of any size."""

    value: int


@dataclass(frozen=True)
class BoolConst:
    """A truth value."""

    value: bool


@dataclass(frozen=True)
class HeaderRef:
    """A header instance."""

    header: int


@dataclass(frozen=True)
class HeaderAt:
    """A header of a stack at an index known at run time."""

    stack: int
    index: Expr


@dataclass(frozen=True)
class LastHeader:
    """The header of a stack that was filled last (stack.last)."""

    stack: int


HeaderExpr = HeaderRef | HeaderAt | LastHeader


@dataclass(frozen=True)
class Field:
    """A field of a header expression."""

    header: HeaderExpr
    field: int


@dataclass(frozen=True)
class Valid:
    """True when the header is valid."""

    header: HeaderExpr


@dataclass(frozen=True)
class StackRef:
    """A header stack as a whole."""

    stack: int


@dataclass(frozen=True)
class UnionRef:
    """A header union as a whole: its headers."""

    headers: tuple[HeaderExpr, ...]


@dataclass(frozen=True)
class LastIndex:
    """Index of the last filled header of a stack."""

    stack: int


@dataclass(frozen=True)
class Param:
    """A parameter of the enclosing action; `width` in bits."""

    index: int
    width: int


@dataclass(frozen=True)
class LookAhead:
    """Bits of the packet ahead of the parser: `offset` and `width` in bits."""

    offset: int
    width: int


@dataclass(frozen=True)
class Op:
    """An operation of the JSON format: `op` is its name there, `?` has (cond, then, else)."""

    op: str
    args: tuple[Expr, ...]


Expr = (
    Const
    | BoolConst
    | HeaderRef
    | HeaderAt
    | LastHeader
    | Field
    | Valid
    | StackRef
    | UnionRef
    | LastIndex
    | Param
    | LookAhead
    | Op
)

BOOL_OPS = frozenset({"==", "!=", ">", ">=", "<", "<=", "and", "or", "not", "d2b"})


def is_bool(expr: Expr) -> bool:
    """Return True when `expr` has a truth value."""
    if isinstance(expr, BoolConst | Valid):
        return True
    if isinstance(expr, Op):
        return is_bool(expr.args[1]) if expr.op == "?" else expr.op in BOOL_OPS
    return False


@dataclass(frozen=True)
class ArrayRef:
    """A register array, counter array, meter array or calculation, by name."""

    kind: str
    name: str


@dataclass(frozen=True)
class DigestRef:
    """A digest by name, and the values that one call sends."""

    name: str
    items: tuple[Expr, ...]


@dataclass(frozen=True)
class Text:
    """A string argument."""

    text: str


@dataclass(frozen=True)
class Vector:
    """The values of a log message."""

    items: tuple[Expr, ...]


Arg = Expr | ArrayRef | DigestRef | Text | Vector


@dataclass(frozen=True)
class Primitive:
    """One primitive of an action; `where` is for messages."""

    op: str
    args: tuple[Arg, ...]
    where: str


@dataclass(frozen=True)
class ExtractOp:
    """Extract a header, or the next one of a stack.

    Of a stack of unions it is `member` of the next union. `varbit_bits` is the length of the
    header's varbit field.
    """

    header: int | None
    stack: int | None
    member: int = 0
    varbit_bits: Expr | None = None


@dataclass(frozen=True)
class SetOp:
    """Assign an expression to a field."""

    target: Field
    value: Expr


@dataclass(frozen=True)
class VerifyOp:
    """Reject the packet with an error unless the condition holds."""

    condition: Expr
    error: Expr


@dataclass(frozen=True)
class AdvanceOp:
    """Skip a number of bits."""

    bits: Expr


@dataclass(frozen=True)
class PrimitiveOp:
    """A primitive called from the parser."""

    primitive: Primitive


ParserOp = ExtractOp | SetOp | VerifyOp | AdvanceOp | PrimitiveOp


@dataclass(frozen=True)
class KeyPart:
    """One field of a transition key."""

    expr: Expr
    width: int


@dataclass(frozen=True)
class Transition:
    """A transition: value and mask per key part, or a value set; `next_state` None accepts."""

    values: tuple[int, ...]
    masks: tuple[int, ...]
    next_state: int | None
    value_set: str | None = None


@dataclass(frozen=True)
class ParseState:
    """A parser state; `default` is the next state when nothing matches (None accepts)."""

    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[KeyPart, ...]
    transitions: tuple[Transition, ...]
    default: int | None


@dataclass(frozen=True)
class TableNode:
    """Apply a table; next node by hit or miss, or by the action that ran."""

    name: str
    table: str
    by_action: dict[int, int]
    hit: int | None
    miss: int | None
    after_default: int


@dataclass(frozen=True)
class ConditionNode:
    """Branch on a condition."""

    name: str
    condition: Expr
    if_true: int
    if_false: int


@dataclass(frozen=True)
class ActionNode:
    """Call an action that has no parameters."""

    name: str
    action: int
    after: int


Node = TableNode | ConditionNode | ActionNode


@dataclass(frozen=True)
class CalculationInput:
    """A field, header, constant (`value`, `width`) or the payload as input of a hash."""

    kind: str
    header: int = 0
    field: int = 0
    value: int = 0
    width: int = 0


@dataclass(frozen=True)
class Calculation:
    """A hash or checksum over a list of inputs."""

    name: str
    algorithm: str
    inputs: tuple[CalculationInput, ...]


@dataclass(frozen=True)
class Checksum:
    """A checksum field that is verified after parsing and updated before deparsing."""

    name: str
    header: int
    field: int
    calculation: str
    condition: Expr
    verify: bool
    update: bool
