"""Which metadata fields are temporaries of one piece of a pipeline.

p4c keeps every temporary of a program in metadata. A field that only one piece of one pipeline
mentions needs no place in the packet's state: it becomes a local variable of that piece's function,
which starts at zero like all metadata, and the compiler keeps it in a register or removes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from softswitch.ir import ActionNode, ConditionNode, Field, HeaderRef, Node, TableNode
from softswitch.program import Pipeline, Program

if TYPE_CHECKING:
    from softswitch.codegen.plan import Plan

CHUNK_COST = 4000
"""Primitives per function: keeps the compiler's time proportional to the size of the program."""

FieldKey = tuple[int, int]


def cut(program: Program, pipeline: Pipeline, plan: Plan) -> list[tuple[int, int]]:
    """Cut the nodes of a pipeline into pieces [start, stop) of about CHUNK_COST primitives.

    A roll is in one piece, and costs as much as one of its copies.
    """
    chunks: list[tuple[int, int]] = []
    start = cost = 0
    for i, node in enumerate(pipeline.nodes):
        roll = plan.roll_at(pipeline, i)
        if roll is not None and i >= roll.start + roll.length:
            continue
        cost += 1 + sum(len(program.actions[a].primitives) for a in node_actions(program, node))
        if cost >= CHUNK_COST and roll is None:
            chunks.append((start, i + 1))
            start, cost = i + 1, 0
    if start < len(pipeline.nodes):
        chunks.append((start, len(pipeline.nodes)))
    return chunks


def node_actions(program: Program, node: Node) -> list[int]:
    """Return the actions that a node can run."""
    if isinstance(node, TableNode):
        return list(program.tables[node.table].actions.values())
    return [node.action] if isinstance(node, ActionNode) else []


def fixed_call(program: Program, node: Node) -> tuple[int, tuple[int, ...], int] | None:
    """Return (action, parameters, next node) when a node always runs the same action."""
    if isinstance(node, ActionNode):
        return node.action, (), node.after
    if not isinstance(node, TableNode):
        return None
    table = program.tables[node.table]
    fixed = table.default_is_const and table.default_params_are_const
    if table.keys or not fixed or table.default_action is None or table.with_counters:
        return None
    action = table.actions[table.default_action]
    after = node.miss if node.miss is not None else node.by_action[action]
    return action, table.default_params, after


def fields_of(part: object) -> Iterator[FieldKey]:
    """Yield the fields of fixed headers that a part of a program mentions."""
    if isinstance(part, Field) and isinstance(part.header, HeaderRef):
        yield part.header.header, part.field
    elif isinstance(part, tuple):
        for item in part:
            yield from fields_of(item)
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        for attribute in dataclasses.fields(part):
            yield from fields_of(getattr(part, attribute.name))


def headers_of(part: object) -> Iterator[int]:
    """Yield the headers, metadata too, that a part of a program refers to directly."""
    if isinstance(part, HeaderRef):
        yield part.header
    elif isinstance(part, tuple):
        for item in part:
            yield from headers_of(item)
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        for attribute in dataclasses.fields(part):
            yield from headers_of(getattr(part, attribute.name))


def node_fields(program: Program, node: Node) -> Iterator[FieldKey]:
    """Yield the fields of fixed headers that a node mentions."""
    if isinstance(node, ConditionNode):
        yield from fields_of(node.condition)
    elif isinstance(node, TableNode):
        table = program.tables[node.table]
        yield from ((k.header, k.field) for k in table.keys)
        if table.meter is not None:
            target = program.meter_arrays[table.meter].target
            yield from () if target is None else (target,)
    for action in node_actions(program, node):
        yield from fields_of(program.actions[action].primitives)


def shared_fields(program: Program) -> Iterator[FieldKey]:
    """Yield the fields that something outside the pipelines mentions."""
    yield from fields_of(program.parse_states)
    yield from fields_of(program.deparser_primitives)
    for checksum in program.checksums:
        yield from fields_of(checksum.condition)
        yield checksum.header, checksum.field
    for calculation in program.calculations:
        for item in calculation.inputs:
            if item.kind not in ("field", "header"):
                continue
            fields = program.headers[item.header].type.fields
            chosen = [item.field] if item.kind == "field" else range(len(fields))
            yield from ((item.header, f) for f in chosen)
    for field_list in program.field_lists.values():
        yield from field_list.fields


def local_fields(program: Program, plan: Plan) -> dict[FieldKey, str]:
    """Map each metadata field that one piece alone mentions to the name of that piece."""
    users: dict[FieldKey, set[str]] = {}
    for key in shared_fields(program):
        users.setdefault(key, set()).add("")
    for pipeline in (program.ingress, program.egress):
        for number, (start, stop) in enumerate(cut(program, pipeline, plan)):
            for node in pipeline.nodes[start:stop]:
                for key in node_fields(program, node):
                    users.setdefault(key, set()).add(f"{pipeline.name}{number}")
    result: dict[FieldKey, str] = {}
    for key, places in users.items():
        place = next(iter(places))
        if len(places) == 1 and place and is_temporary(program, key):
            result[key] = place
    return result


def is_temporary(program: Program, key: FieldKey) -> bool:
    """Return True for a field of the program's own metadata."""
    header = program.headers[key[0]]
    standard = {"standard_metadata", "intrinsic_metadata", "queueing_metadata"}
    aliased = key in program.aliases.values()
    return header.metadata and key[1] >= 0 and not aliased and header.name not in standard
