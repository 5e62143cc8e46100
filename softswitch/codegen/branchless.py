"""Branches on packet bytes without a jump.

A processor guesses branches, and it guesses well where packets are alike: validity, roles, metadata
that a table set. What a field of a packet says it cannot guess, and a wrong guess costs as much as
thirty instructions. So where such a condition only chooses between a few assignments to local
variables, both sides are computed and the results blended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from softswitch.codegen.expressions import Expressions
from softswitch.codegen.layout import c_type, is_wide
from softswitch.codegen.locality import FieldKey, fields_of, fixed_call
from softswitch.ir import (
    ArrayRef,
    ConditionNode,
    Const,
    DigestRef,
    Expr,
    Field,
    HeaderRef,
    Node,
    Op,
    Text,
    Vector,
)

MAX_ASSIGNMENTS = 4
"""Per side: more is cheaper to jump over."""

MAX_TERMS = 24
"""Of one assigned expression."""

WIDTHS = {"uint8_t": 8, "uint16_t": 16, "uint32_t": 32, "uint64_t": 64, "u128": 128}

_CHEAP = frozenset(["+", "-", "&", "|", "^", "~", "<<", ">>"])


@dataclass(frozen=True)
class Choice:
    """A condition, what each side assigns (target, value), and the node where they meet."""

    condition: Expr
    yes: tuple[tuple[Field, Expr], ...]
    no: tuple[tuple[Field, Expr], ...]
    join: int


def find_choice(
    expressions: Expressions, nodes: tuple[Node, ...], node: ConditionNode, bounds: tuple[int, int]
) -> Choice | None:
    """Return the choice that a condition makes, None if it has to be a branch.

    `bounds` are the nodes [start, stop) of the piece of the pipeline: local variables are its own.
    """
    program = expressions.layout.program
    keys = set(fields_of(node.condition))
    if not keys or any(program.headers[header].metadata for header, _ in keys):
        return None

    def side(target: int) -> tuple[tuple[tuple[Field, Expr], ...] | None, int]:
        call = fixed_call(program, nodes[target]) if bounds[0] <= target < bounds[1] else None
        if call is None or call[1]:
            return None, target
        return _assignments(expressions, call[0]), call[2]

    yes, after_yes = side(node.if_true)
    no, after_no = side(node.if_false)
    if yes is not None and no is not None and after_yes == after_no:
        return Choice(node.condition, yes, no, after_yes)
    if yes is not None and after_yes == node.if_false:
        return Choice(node.condition, yes, (), after_yes)
    if no is not None and after_no == node.if_true:
        return Choice(node.condition, (), no, after_no)
    return None


def _assignments(expressions: Expressions, action: int) -> tuple[tuple[Field, Expr], ...] | None:
    """Return what an action assigns, None if it does anything else or too much."""
    layout = expressions.layout
    result: list[tuple[Field, Expr]] = []
    written: set[FieldKey] = set()
    for primitive in layout.program.actions[action].primitives:
        match primitive.op, primitive.args:
            case "assign", (Field(header=HeaderRef(header=header)) as target, value):
                key = (header, target.field)
                kind = layout.field_type(target)
                if isinstance(value, ArrayRef | DigestRef | Text | Vector):
                    return None
                if key not in layout.locals or is_wide(kind.width) or kind.varbit:
                    return None
                # Both sides see the values from before the choice.
                if written & set(fields_of(value)) or not _is_cheap(value):
                    return None
                written.add(key)
                result.append((target, value))
            case _:
                return None
    return tuple(result) if len(result) <= MAX_ASSIGNMENTS else None


def _is_cheap(value: object) -> bool:
    """Whether an expression is short, and can be computed whatever the condition says."""
    terms = 0
    todo = [value]
    while todo:
        item = todo.pop()
        terms += 1
        if isinstance(item, Op) and item.op in _CHEAP:
            todo += item.args
        elif not isinstance(item, Const) and not (
            isinstance(item, Field) and isinstance(item.header, HeaderRef)
        ):
            return False
    return terms <= MAX_TERMS


def statements(expressions: Expressions, choice: Choice) -> Iterator[str]:
    """Yield the statements that make a choice."""
    layout = expressions.layout
    yield f"const bool q = {expressions.boolean(choice.condition)};"
    targets = list(dict.fromkeys(target for target, _ in (*choice.yes, *choice.no)))
    blends = []
    for i, target in enumerate(targets):
        width = layout.field_type(target).width
        kind, place = c_type(width), expressions.field(target)
        yes, no = (
            next((value for t, value in side if t == target), target)
            for side in (choice.yes, choice.no)
        )
        yield f"const {kind} n{i} = ({kind})({expressions.store(no, width)});"
        if width == WIDTHS.get(kind) and _is_negative(expressions, yes, no, width):
            blends.append(f"{place} = ({kind})((n{i} ^ -({kind})q) + q);")
            continue
        yield f"const {kind} y{i} = ({kind})({expressions.store(yes, width)});"
        blends.append(f"{place} = ({kind})(n{i} ^ ((n{i} ^ y{i}) & -({kind})q));")
    yield from blends


def _is_negative(expressions: Expressions, a: Expr, b: Expr, width: int) -> bool:
    """Whether a is -b modulo 2^width, as far as can be seen."""
    a, b = _bare(expressions, a, width), _bare(expressions, b, width)
    if not isinstance(a, Op) or a.op != "-" or len(a.args) != 2 or a.args[0] != Const(0):
        return False
    return _bare(expressions, a.args[1], width) == b


def _bare(expressions: Expressions, expr: Expr, width: int) -> Expr:
    """Return an expression without masks that change nothing below bit `width`."""
    while isinstance(expr, Op) and expr.op == "&" and isinstance(expr.args[1], Const):
        inner, mask = expr.args[0], expr.args[1].value
        low, high = expressions.ranges.of(inner)
        keeps_low = mask >= 0 and mask + 1 & mask == 0 and mask.bit_length() >= width
        if not keeps_low and not (
            low >= 0 and mask >= 0 and high & ~mask == 0 and mask + 1 & mask == 0
        ):
            break
        expr = inner
    return expr
