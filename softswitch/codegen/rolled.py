"""The code of a roll: a loop over all copies of a part of a pipeline, SS_WIDTH of them a step.

Every node of a copy runs under a mask, the copies that come through it. What all copies decide
alike is a branch; where no copy of a step comes through, a longer part is jumped over.
"""

from __future__ import annotations

from collections.abc import Iterable

from softswitch.codegen.columns import NotAlike
from softswitch.codegen.copies import CopyCode, Mask, both, text_of
from softswitch.codegen.expressions import Expressions
from softswitch.codegen.flow import Flow
from softswitch.codegen.locality import (
    FieldKey,
    fields_of,
    fixed_call,
    headers_of,
    node_actions,
)
from softswitch.codegen.lookups import LookupCode
from softswitch.codegen.plan import Roll
from softswitch.codegen.storage import CopyStorage, Usage
from softswitch.codegen.vector import Vectors
from softswitch.ir import ConditionNode, Const, Node, TableNode
from softswitch.program import Action, Pipeline, Program

_HEAVY = frozenset(["register_read", "register_write", "add_header", "remove_header"])


class RolledCode:
    """Translates one roll; `private` are fields that every copy assigns before it reads them."""

    def __init__(
        self, expressions: Expressions, pipeline: Pipeline, roll: Roll, usage: Usage
    ) -> None:
        self.e = expressions
        self.program = expressions.layout.program
        self.roll = roll
        self.copies: list[tuple[Node, ...]] = [
            pipeline.nodes[start : start + roll.length] for start in roll.starts
        ]
        self.flow = Flow(tuple(self._successors(j) for j in range(roll.length)))
        written, headers = writes(self.program, self.copies)
        private = self._private(written, usage)
        self.storage = CopyStorage(expressions.layout, usage, written, headers, private)
        self.storage.assigned_first = self._assigned_first
        self.vectors = Vectors(expressions, self.storage)
        self.code = CopyCode(self.vectors, self.storage)
        self.lookups = LookupCode(self.vectors, self.storage)
        self.conditions: dict[int, str] = {}
        self.body: list[str] = []
        self.masks: set[int] = set()

    def _successors(self, j: int) -> tuple[int, ...]:
        """Return where node j of each copy leads to, numbered within the copy."""
        found = set()
        for k, copy in enumerate(self.copies):
            start = self.roll.starts[k]
            targets = []
            for target in edges_of(self.program, copy[j]):
                if target == self.roll.exit_of(k):
                    targets.append(self.roll.length)
                elif start < target < start + self.roll.length:
                    targets.append(target - start)
                else:
                    raise NotAlike
            found.add(tuple(targets))
        if len(found) != 1:
            raise NotAlike
        return found.pop()

    def _private(self, written: set[FieldKey], usage: Usage) -> set[FieldKey]:
        """Return shared fields that copies assign before they read them, and nobody else uses."""
        result = set()
        for key in written:
            if len(usage.copies.get(key, ())) != self.roll.count or key in usage.foreign:
                continue
            if key not in usage.elsewhere and self._assigned_first(key):
                result.add(key)
        return result

    def _assigned_first(self, key: FieldKey) -> bool:
        """Whether node by node a field is only read after an assignment."""
        assigned = [False] * (self.roll.length + 1)
        reached: list[list[bool]] = [[] for _ in range(self.roll.length + 1)]
        for j, node in enumerate(self.copies[0]):
            assigned[j] = bool(reached[j]) and all(reached[j])
            reads, assigns = use_of(self.program, node, key)
            if reads and not assigned[j]:
                return False
            for target in self.flow.successors[j]:
                reached[target].append(assigned[j] or assigns)
        return True

    # Code

    def lines(self) -> list[str]:
        """Return the statements of the loop; NotAlike if the copies are too different for one."""
        self.body = []
        self._part(range(self.roll.length), opened=-1)
        loop = [*self.storage.variables(), *(f"ss_m m{j} = {{0}};" for j in sorted(self.masks))]
        return [
            "{",
            *(f"    {line}" for line in self.storage.constants()),
            "    uint64_t spare_[2] = {0}; (void)spare_;",
            *(f"    {line}" for line in self.code.before()),
            f"    for (unsigned k = 0; k < {self.roll.count}; k += SS_WIDTH) {{",
            *(f"        {line}" for line in (*loop, *self.body)),
            "    }",
            *(f"    {line}" for line in self.code.after()),
            "}",
        ]

    def _part(self, part: range, opened: int) -> None:
        j = part.start
        while j < part.stop:
            guard = self._guard(j) if j != opened else None
            if guard is None:
                self._node(j)
                j += 1
                continue
            region = self.flow.region(j) or range(j, j + 1)
            self.body.append(f"if ({guard}) {{")
            self._part(region, opened=j)
            self.body.append("}")
            j = region.stop

    def _guard(self, j: int) -> str | None:
        """Return the condition under which the nodes from j on are worth running."""
        if j == 0 or self.flow.same_as(j) != j:
            return None
        shared = self._shared_edge(j)
        if shared is not None:
            return shared
        region = self.flow.region(j)
        if region is None or not any(self._is_heavy(n) for n in region):
            return None
        return f"ss_m_any({self._mask(j)})"

    def _is_heavy(self, j: int) -> bool:
        node = self.copies[0][j]
        if isinstance(node, ConditionNode):
            return False
        call = fixed_call(self.program, node)
        if call is None:
            return True
        return any(p.op in _HEAVY for p in self.program.actions[call[0]].primitives)

    def _shared_edge(self, j: int) -> str | None:
        """Return the condition of a branch that all copies take alike, if j is a side of it."""
        if self.flow.edges_into[j] != 1 or self.flow.region(j) is None:
            return None
        source = next(n for n, targets in enumerate(self.flow.successors) if j in targets)
        name = self.conditions.get(source)
        if name is None:
            return None
        return name if self.flow.successors[source][0] == j else f"!{name}"

    def _mask(self, j: int) -> Mask:
        """Return the mask of the copies that come through node j."""
        first = self.flow.same_as(j)
        if first == 0:
            return None
        if self._shared_edge(first) is not None:
            source = next(n for n, targets in enumerate(self.flow.successors) if first in targets)
            return self._mask(source)
        self.masks.add(first)
        return f"m{first}"

    def _go(self, target: int, mask: Mask) -> None:
        """Let copies go on with a node."""
        if target == self.roll.length or self.flow.same_as(target) != target:
            return
        if self._shared_edge(target) is not None:
            return
        self.body.append(f"{self._mask(target)} |= {text_of(mask)};")

    def _node(self, j: int) -> None:
        nodes = [copy[j] for copy in self.copies]
        first = nodes[0]
        mask = self._mask(j)
        if isinstance(first, ConditionNode):
            self._condition(j, [n for n in nodes if isinstance(n, ConditionNode)], mask)
            return
        calls = [fixed_call(self.program, node) for node in nodes]
        if all(call is not None for call in calls):
            found = [call for call in calls if call is not None]
            actions = [self.program.actions[call[0]] for call in found]
            width = len(actions[0].params)
            if any(len(action.params) != width for action in actions):
                raise NotAlike
            params = [
                self.vectors.number(tuple(Const(call[1][i]) for call in found))
                for i in range(width)
            ]
            if any(p.width > 64 for action in actions for p in action.params):
                raise NotAlike
            self._call(actions, params, mask)
            self._go(self.flow.successors[j][0], mask)
            return
        self._table(j, [n for n in nodes if isinstance(n, TableNode)], mask)

    def _call(self, actions: list[Action], params: list[str], mask: Mask) -> None:
        self.body += self.code.call(actions, params, mask)

    def _condition(self, j: int, nodes: list[ConditionNode], mask: Mask) -> None:
        if len(nodes) != self.roll.count:
            raise NotAlike
        row = self.vectors.simple(tuple(node.condition for node in nodes))
        yes, no = self.flow.successors[j]
        if self.vectors.is_shared(row):
            name = self.conditions[j] = self.vectors.condition(row[0])
            condition: str = f"ss_m_if({name})"
        else:
            condition = f"q{j}"
            self.body.append(f"const ss_m {condition} = {self.vectors.mask(row)};")
        self._go(yes, both(mask, condition))
        self._go(no, both(mask, f"~{condition}"))

    def _table(self, j: int, nodes: list[TableNode], mask: Mask) -> None:
        if len(nodes) != self.roll.count:
            raise NotAlike
        tables = [self.program.tables[node.table] for node in nodes]
        if not tables[0].keys:
            raise NotAlike
        self.body.append("{")
        self.body += self.lookups.lookup(tables, mask)
        first, ran = nodes[0], []
        columns = zip(*(table.actions.values() for table in tables), strict=True)
        for position, numbers in enumerate(columns):
            actions = [self.program.actions[n] for n in numbers]
            widths = {tuple(p.width for p in action.params) for action in actions}
            if len(widths) != 1 or any(width > 64 for width in next(iter(widths))):
                raise NotAlike
            ran.append(f"r{position}_")
            chosen = both(mask, f"ss_m_eq(action_, {self.storage.constant(position + 1)})")
            self.body.append(f"const ss_m r{position}_ = {chosen};")
            params = [
                self.lookups.member(tables[0], f"d{position}.a{i}")
                for i in range(len(actions[0].params))
            ]
            self._call(actions, params, f"r{position}_")
            self._leave(j, first, first.by_action[numbers[0]], f"r{position}_")
        rest = both(mask, f"~({' | '.join(ran)})" if ran else None)
        none = first.miss if first.miss is not None else first.after_default
        self._go(self._relative(none), rest)
        self.body.append("}")

    def _leave(self, j: int, node: TableNode, after: int, mask: str) -> None:
        """Let the copies that ran an action go on: by hit, by miss, or by the action."""
        del j
        hit = self._relative(node.hit if node.hit is not None else after)
        miss = self._relative(node.miss if node.miss is not None else after)
        if hit == miss:
            self._go(hit, mask)
            return
        self._go(hit, both(mask, "hit_"))
        self._go(miss, both(mask, "~hit_"))

    def _relative(self, target: int) -> int:
        start = self.roll.start
        return self.roll.length if target == self.roll.exit_of(0) else target - start


def edges_of(program: Program, node: Node) -> list[int]:
    """Return the nodes that a node can lead to, in an order that alike nodes share."""
    if isinstance(node, ConditionNode):
        return [node.if_true, node.if_false]
    call = fixed_call(program, node)
    if call is not None:
        return [call[2]]
    if not isinstance(node, TableNode):
        raise NotAlike
    hits = [node.hit if node.hit is not None else after for after in node.by_action.values()]
    misses = [node.miss if node.miss is not None else after for after in node.by_action.values()]
    return [*hits, *misses, node.miss if node.miss is not None else node.after_default]


def writes(program: Program, copies: Iterable[tuple[Node, ...]]) -> tuple[set[FieldKey], set[int]]:
    """Return the fields that copies assign, and the headers whose validity they change."""
    fields: set[FieldKey] = set()
    headers: set[int] = set()
    for node in (node for copy in copies for node in copy):
        for action in node_actions(program, node):
            for primitive in program.actions[action].primitives:
                if primitive.op in ("assign", "register_read"):
                    fields.update(fields_of(primitive.args[:1]))
                elif primitive.op in ("add_header", "remove_header"):
                    headers.update(headers_of(primitive.args))
    return fields, headers


def use_of(program: Program, node: Node, key: FieldKey) -> tuple[bool, bool]:
    """Whether a node may read a field before it assigns it, and whether it always assigns it."""
    if isinstance(node, ConditionNode):
        return key in fields_of(node.condition), False
    actions = [_use_in(program.actions[a], key) for a in node_actions(program, node)]
    reads = any(read for read, _ in actions)
    if fixed_call(program, node) is not None:
        return actions[0]
    if isinstance(node, TableNode):
        reads |= any((k.header, k.field) == key for k in program.tables[node.table].keys)
    return reads, False


def _use_in(action: Action, key: FieldKey) -> tuple[bool, bool]:
    for primitive in action.primitives:
        assigned = primitive.op == "assign" and key in fields_of(primitive.args[:1])
        if key in fields_of(primitive.args[1:] if assigned else primitive.args):
            return True, False
        if assigned:
            return False, True
    return False, False
