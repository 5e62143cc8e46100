"""Finds the rolls of a program: runs of nodes that say the same about other fields and tables.

Programs for many registers or header fields are written with a macro or a control per instance,
and compilers put every instance into the pipeline. Nodes whose shapes repeat are candidates; one
becomes a roll if its code can be made, which is where every difference is looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from softswitch.codegen import locality
from softswitch.codegen.alike import Simplifier, shape
from softswitch.codegen.columns import NotAlike
from softswitch.codegen.copies import ROLLED
from softswitch.codegen.expressions import Expressions
from softswitch.codegen.hints import HintCode
from softswitch.codegen.layout import Layout
from softswitch.codegen.locality import (
    FieldKey,
    fields_of,
    fixed_call,
    headers_of,
    node_actions,
    node_fields,
)
from softswitch.codegen.lookups import has_plain_entries
from softswitch.codegen.plan import Hint, Plan, Roll
from softswitch.codegen.ranges import Ranges
from softswitch.codegen.rolled import RolledCode, edges_of, writes
from softswitch.codegen.storage import LONGEST, Usage
from softswitch.errors import UnsupportedConstruct
from softswitch.ir import ConditionNode, Node, TableNode
from softswitch.program import Pipeline, Program

MAX_LENGTH = 256
"""Nodes of a copy."""

MAX_FAILURES = 50
"""Candidates of a pipeline that cannot be made before no more are tried: that takes time."""


@dataclass(frozen=True)
class _Candidate:
    """A roll, and how many copies there are with those that are left over."""

    roll: Roll
    copies: int


def plan(program: Program) -> Plan:
    """Return the plan of a program: all rolls that can be made."""
    layout = Layout(program)
    expressions = Expressions(layout)
    made = Plan()
    for pipeline in (program.ingress, program.egress):
        finder, start, failures = _Finder(program, pipeline), 0, 0
        while start < len(pipeline.nodes) and failures < MAX_FAILURES:
            candidate = finder.longest(start)
            extended = None
            if candidate is not None:
                extended = _with(expressions, finder, candidate, made)
                failures += extended is None
            if candidate is None or extended is None:
                start += 1
                continue
            made, start = extended, candidate.roll.stop
    return _in_one_piece(program, made)


def _with(
    expressions: Expressions, finder: _Finder, candidate: _Candidate, made: Plan
) -> Plan | None:
    """Return the plan with one more roll, None if that cannot be made."""
    roll = candidate.roll
    arrays, registers, tables = (t.copy() for t in (made.arrays, made.registers, made.tables))
    usage = finder.usage(candidate)
    try:
        code = RolledCode(expressions, finder.pipeline, roll, usage)
        code.lines()
        arrays.merge(code.storage.arrays)
        registers.merge(code.code.registers)
        tables.merge(code.lookups.tables)
    except (NotAlike, UnsupportedConstruct):
        return None
    hints = [*made.hints, *_places(expressions, finder, made, code)]
    private = made.private | code.storage.held
    usages = {**made.usages, roll: usage}
    return Plan((*made.rolls, roll), arrays, registers, tables, private, tuple(hints), usages)


def _places(
    expressions: Expressions, finder: _Finder, made: Plan, code: RolledCode
) -> Iterator[tuple[Roll, Hint]]:
    """Yield what says where cells are: in the roll before, if all of it is known there."""
    before = [r for r in made.rolls if r.pipeline == finder.pipeline.name]
    if not before or before[-1].count != code.roll.count:
        return
    place = before[-1]
    nodes = finder.pipeline.nodes[place.start : code.roll.stop]
    written, headers = writes(finder.program, [nodes])
    for hint in code.code.hints:
        if written.intersection(fields_of(hint.index)) or headers.intersection(
            headers_of(hint.index)
        ):
            continue
        with suppress(NotAlike, UnsupportedConstruct):
            HintCode(expressions, finder.pipeline, place, finder.usage(_Candidate(place, 0)), hint)
            yield place, hint


def _in_one_piece(program: Program, made: Plan) -> Plan:
    """Return the plan without rolls whose arrays would have to outlive a piece of a pipeline."""
    pieces = {p.name: locality.cut(program, p, made) for p in (program.ingress, program.egress)}
    if made.hints and any(len(chunks) > 1 for chunks in pieces.values()):
        made = replace(made, hints=())  # what an index is made of may be another piece's own
    places = locality.local_fields(program, made)
    for array in made.arrays.all:
        owners = {places.get(key) for key in array if isinstance(key, tuple)}
        if len(owners) != 1 or None in owners:
            return Plan()
    return made


class _Finder:
    """Finds the candidates of one pipeline."""

    def __init__(self, program: Program, pipeline: Pipeline) -> None:
        self.program = program
        self.pipeline = pipeline
        simplify = Simplifier(Ranges(Layout(program)))
        numbers: dict[Hashable, int] = {}
        self.shapes = [
            numbers.setdefault(
                _shape(program, node, simplify) if _can_roll(program, node) else ("single", i),
                len(numbers),
            )
            for i, node in enumerate(pipeline.nodes)
        ]
        self.fields = [set(node_fields(program, node)) for node in pipeline.nodes]
        self.headers = [_node_headers(program, node) for node in pipeline.nodes]
        self.others = set(locality.shared_fields(program))
        for other in (program.ingress, program.egress):
            if other.name != pipeline.name:
                for node in other.nodes:
                    self.others.update(node_fields(program, node))

    def longest(self, start: int) -> _Candidate | None:
        """Return the longest repetition that begins with a node."""
        best: _Candidate | None = None
        for length in range(1, min(MAX_LENGTH, (len(self.shapes) - start) // LONGEST) + 1):
            if self.shapes[start] != self.shapes[start + length]:
                continue
            copies = self.copies(start, length)
            count = copies // LONGEST * LONGEST
            if count and (best is None or count * length > best.roll.count * best.roll.length):
                after = self._after(start, length, count)
                if after is not None:
                    roll = Roll(self.pipeline.name, start, length, count, after)
                    best = _Candidate(roll, copies)
        return best

    def copies(self, start: int, length: int) -> int:
        """Return how many times the nodes from `start` on repeat, as far as shapes tell."""
        wanted = self.shapes[start : start + length]
        copies = 1
        while self.shapes[start + copies * length :][:length] == wanted:
            copies += 1
        return copies

    def _after(self, start: int, length: int, count: int) -> int | None:
        """Return the only node that the last copy leads to; None if the copies are no chain."""
        nodes = self.pipeline.nodes
        for copy in range(start, start + length * count, length):
            inside = range(copy, copy + length)
            exits = {
                target
                for j in inside
                for target in edges_of(self.program, nodes[j])
                if target not in inside
            }
            if len(exits) != 1 or copy in exits:
                return None
            [after] = exits
            if copy + length < start + length * count and after != copy + length:
                return None
        rolled = range(start + 1, start + length * count)
        before = (t for node in nodes[:start] for t in edges_of(self.program, node))
        return None if any(target in rolled for target in before) else after

    def usage(self, candidate: _Candidate) -> Usage:
        """Return who mentions the fields of a candidate."""
        roll = candidate.roll
        copies: dict[FieldKey, set[int]] = {}
        header_copies: dict[int, set[int]] = {}
        for k, start in enumerate(roll.starts):
            for j in range(start, start + roll.length):
                for key in self.fields[j]:
                    copies.setdefault(key, set()).add(k)
                for header in self.headers[j]:
                    header_copies.setdefault(header, set()).add(k)
        mentioned = set(copies)
        full = range(roll.start, roll.start + candidate.copies * roll.length)
        outside: set[FieldKey] = set()
        elsewhere: set[FieldKey] = set()
        for j, fields in enumerate(self.fields):
            if not roll.start <= j < roll.stop:
                outside |= fields
            if j not in full:
                elsewhere |= fields
        foreign = {
            key
            for key in mentioned
            if key in self.others or not locality.is_temporary(self.program, key)
        }
        return Usage(copies, header_copies, outside & mentioned, foreign, elsewhere & mentioned)


def _node_headers(program: Program, node: Node) -> set[int]:
    if isinstance(node, ConditionNode):
        return set(headers_of(node.condition))
    found = {h for a in node_actions(program, node) for h in headers_of(program.actions[a])}
    if isinstance(node, TableNode):
        found.update(key.header for key in program.tables[node.table].keys)
    return found


def _can_roll(program: Program, node: Node) -> bool:
    """Return False for a node that does what no roll can."""
    actions = [program.actions[a] for a in node_actions(program, node)]
    if any(p.op not in ROLLED for action in actions for p in action.primitives):
        return False
    if isinstance(node, ConditionNode) or fixed_call(program, node) is not None:
        return True
    return isinstance(node, TableNode) and has_plain_entries(program.tables[node.table])


def _shape(program: Program, node: Node, simplify: Simplifier) -> Hashable:
    """Return what nodes that may be alike have in common."""
    if isinstance(node, ConditionNode):
        return "if", shape(simplify.of(node.condition))
    call = fixed_call(program, node)
    if call is not None:
        return "call", _action_shape(program, call[0])
    if isinstance(node, TableNode):
        table = program.tables[node.table]
        keys = tuple((key.match_type, key.width) for key in table.keys)
        return "table", keys, *(_action_shape(program, a) for a in table.actions.values())
    return "other"


def _action_shape(program: Program, action: int) -> Hashable:
    return tuple(p.op for p in program.actions[action].primitives)
