"""Control flow: nodes of a pipeline in topological order."""

from __future__ import annotations

from collections.abc import Callable

from softswitch.errors import BadProgram
from softswitch.ir import ActionNode, ConditionNode, Node, TableNode
from softswitch.load.expressions import ExpressionReader
from softswitch.load.reader import Reader
from softswitch.program import Action, Pipeline, Table

NodeNumber = Callable[[str | None], int]


class PipelineReader:
    """Reads pipelines whose tables have already been read."""

    def __init__(
        self, expressions: ExpressionReader, actions: dict[int, Action], tables: dict[str, Table]
    ) -> None:
        self.expressions = expressions
        self.actions = actions
        self.tables = tables

    def read(self, reader: Reader) -> Pipeline:
        """Read one pipeline."""
        kinds = ("tables", "conditionals", "action_calls")
        readers = {
            r.text("name"): (kind, r) for kind in kinds for r in reader.objects(kind, optional=True)
        }
        init = reader.text_or_none("init_table")
        order = _topological(init, {n: self._successors(k, r) for n, (k, r) in readers.items()})
        numbers = {name: i for i, name in enumerate(order)}

        def number(name: str | None) -> int:
            return len(order) if name is None else numbers[name]

        nodes = tuple(self._node(*readers[name], number) for name in order)
        return Pipeline(reader.text("name"), nodes, number(init))

    @staticmethod
    def _successors(kind: str, reader: Reader) -> list[str]:
        if kind == "tables":
            targets = list(reader.child("next_tables").data.values())
            targets.append(reader.data.get("base_default_next"))
        elif kind == "conditionals":
            targets = [reader.data.get("true_next"), reader.data.get("false_next")]
        else:
            targets = [reader.data.get("next_node")]
        for target in targets:
            if target is not None and not isinstance(target, str):
                raise BadProgram(f"{reader.path}: a next node must be a name or null")
        return [t for t in targets if t is not None]

    def _node(self, kind: str, reader: Reader, number: NodeNumber) -> Node:
        name = reader.text("name")
        if kind == "conditionals":
            condition = self.expressions.boolean(
                reader.data.get("expression"), f"{reader.path}.expression"
            )
            if_true = number(reader.text_or_none("true_next"))
            return ConditionNode(
                name, condition, if_true, number(reader.text_or_none("false_next"))
            )
        if kind == "action_calls":
            action_id = reader.integer("action_id")
            if action_id not in self.actions or self.actions[action_id].params:
                raise BadProgram(f"{reader.path}: action {action_id} cannot be called directly")
            after = number(reader.text_or_none("next_node"))
            return ActionNode(name, self.actions[action_id].index, after)
        return self._table_node(name, reader, number)

    def _table_node(self, name: str, reader: Reader, number: NodeNumber) -> TableNode:
        next_tables = reader.child("next_tables").data
        fallback = number(reader.text_or_none("base_default_next"))
        hit = number(next_tables["__HIT__"]) if "__HIT__" in next_tables else None
        miss = number(next_tables["__MISS__"]) if "__MISS__" in next_tables else None
        by_action = {
            action: number(next_tables[action_name]) if action_name in next_tables else fallback
            for action_name, action in self.tables[name].actions.items()
        }
        return TableNode(name, name, by_action, hit, miss, fallback)


def _topological(init: str | None, successors: dict[str, list[str]]) -> list[str]:
    """Return the nodes reachable from `init`, each before its successors."""
    if init is None:
        return []
    order: list[str] = []
    state: dict[str, int] = {}
    stack: list[tuple[str, int]] = [(init, 0)]
    while stack:
        name, position = stack.pop()
        if name not in successors:
            raise BadProgram(f"control flow goes to {name!r}, which does not exist")
        state[name] = 1
        if position == len(successors[name]):
            state[name] = 2
            order.append(name)
            continue
        stack.append((name, position + 1))
        target = successors[name][position]
        if state.get(target) == 1:
            raise BadProgram(f"control flow has a cycle through {target!r}")
        if target not in state:
            stack.append((target, 0))
    order.reverse()
    return order
