"""Small bmv2 JSON programs, built in Python: for what P4 sources in tests/p4 would say clumsily."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

STANDARD_METADATA = [
    ["ingress_port", 9, False],
    ["egress_spec", 9, False],
    ["egress_port", 9, False],
    ["instance_type", 32, False],
    ["packet_length", 32, False],
    ["enq_timestamp", 32, False],
    ["enq_qdepth", 19, False],
    ["deq_timedelta", 32, False],
    ["deq_qdepth", 19, False],
    ["ingress_global_timestamp", 48, False],
    ["egress_global_timestamp", 48, False],
    ["mcast_grp", 16, False],
    ["egress_rid", 16, False],
    ["checksum_error", 1, False],
    ["parser_error", 32, False],
    ["priority", 3, False],
    ["_padding", 3, False],
]
ALIASES = [
    [f"intrinsic_metadata.{name}", ["standard_metadata", name]]
    for name in (
        "ingress_global_timestamp",
        "egress_global_timestamp",
        "mcast_grp",
        "egress_rid",
        "priority",
    )
] + [
    [f"queueing_metadata.{name}", ["standard_metadata", name]]
    for name in ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth")
]
ERRORS = [
    ["NoError", 0],
    ["PacketTooShort", 1],
    ["NoMatch", 2],
    ["StackOutOfBounds", 3],
    ["HeaderTooShort", 4],
    ["ParserTimeout", 5],
    ["ParserInvalidArgument", 6],
]


def field(header: str, name: str) -> Json:
    """A field reference."""
    return {"type": "field", "value": [header, name]}


def const(value: int) -> Json:
    """A constant."""
    return {"type": "hexstr", "value": hex(value)}


def param(index: int) -> Json:
    """A parameter of the enclosing action, as a primitive's argument."""
    return {"type": "runtime_data", "value": index}


def op(name: str, left: Json | None, right: Json | None, cond: Json | None = None) -> Json:
    """An operation."""
    inner: Json = {"op": name, "left": left, "right": right}
    if cond is not None:
        inner["cond"] = cond
    return {"type": "expression", "value": inner}


def call(name: str, *args: Json) -> Json:
    """A primitive call."""
    return {"op": name, "parameters": list(args)}


def assign(target: Json, value: Json) -> Json:
    """An assignment."""
    return call("assign", target, value)


class ProgramBuilder:
    """Collects the parts of a program; `json()` returns the file."""

    def __init__(self) -> None:
        self.header_types: list[Json] = []
        self.headers: list[Json] = []
        self.stacks: list[Json] = []
        self.actions: list[Json] = []
        self.registers: list[Json] = []
        self.counters: list[Json] = []
        self.calculations: list[Json] = []
        self.checksums: list[Json] = []
        self.field_lists: list[Json] = []
        self.profiles: list[Json] = []
        self.meters: list[Json] = []
        self.value_sets: list[Json] = []
        self.learn_lists: list[Json] = []
        self.states: list[Json] = []
        self.deparser: list[str] = []
        self.pipelines = {
            name: {"tables": [], "conditionals": [], "init": None} for name in ("ingress", "egress")
        }
        self._last: dict[str, list[Json]] = {"ingress": [], "egress": []}
        self.header("standard_metadata", STANDARD_METADATA, metadata=True)

    def header(self, name: str, fields: list[list[Any]], *, metadata: bool = False) -> None:
        """Declare a header type and one instance of it."""
        self.header_types.append(
            {"name": f"{name}_t", "id": len(self.header_types), "fields": fields}
        )
        self.instance(name, f"{name}_t", metadata=metadata)

    def instance(self, name: str, type_name: str, *, metadata: bool = False) -> int:
        """Declare an instance of a header type; return its id."""
        self.headers.append(
            {
                "name": name,
                "id": len(self.headers),
                "header_type": type_name,
                "metadata": metadata,
            }
        )
        return len(self.headers) - 1

    def stack(self, name: str, fields: list[list[Any]], depth: int) -> None:
        """Declare a header stack."""
        self.header_types.append(
            {"name": f"{name}_t", "id": len(self.header_types), "fields": fields}
        )
        ids = [self.instance(f"{name}[{i}]", f"{name}_t") for i in range(depth)]
        self.stacks.append(
            {"name": name, "id": len(self.stacks), "header_type": f"{name}_t", "header_ids": ids}
        )

    def action(self, name: str, primitives: list[Json], params: list[int] | None = None) -> int:
        """Declare an action with parameters of the given widths; return its id."""
        self.actions.append(
            {
                "name": name,
                "id": len(self.actions),
                "runtime_data": [
                    {"name": f"p{i}", "bitwidth": width} for i, width in enumerate(params or [])
                ],
                "primitives": primitives,
            }
        )
        return len(self.actions) - 1

    def table(
        self,
        name: str,
        keys: list[tuple[str, Json]],
        actions: list[int],
        default: tuple[int, list[int]] | None = None,
        *,
        pipeline: str = "ingress",
        const_default: bool = False,
        size: int = 1024,
        **more: Any,
    ) -> None:
        """Append a table to a pipeline; it runs after what was appended before."""
        kinds = [kind for kind, _ in keys]
        order = ("range", "ternary", "lpm")
        match_type = next(
            (k for k in order if k in kinds or (k == "ternary" and "optional" in kinds)), "exact"
        )
        table: Json = {
            "name": name,
            "id": sum(len(p["tables"]) for p in self.pipelines.values()),  # type: ignore[arg-type]
            "key": [
                {"match_type": k, "name": name, "target": target["value"], "mask": None}
                for k, target in keys
            ],
            "match_type": match_type,
            "type": "simple",
            "max_size": size,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": actions,
            "actions": [self.actions[a]["name"] for a in actions],
            "base_default_next": None,
            "next_tables": {self.actions[a]["name"]: None for a in actions},
            **more,
        }
        if default is not None:
            table["default_entry"] = {
                "action_id": default[0],
                "action_const": const_default,
                "action_data": [hex(v) for v in default[1]],
                "action_entry_const": const_default,
            }
        self._append(pipeline, "tables", table)

    def run(self, name: str, primitives: list[Json], pipeline: str = "ingress") -> None:
        """Append an action that always runs, the way p4c does it: as a table without a key."""
        action = self.action(name, primitives)
        self.table(f"tbl_{name}", [], [action], (action, []), pipeline=pipeline, const_default=True)

    def when(self, name: str, condition: Json, pipeline: str = "ingress") -> None:
        """Append a condition: what is appended next runs only if it holds."""
        node = {
            "name": name,
            "id": len(self.pipelines[pipeline]["conditionals"]),  # type: ignore[arg-type]
            "expression": condition,
            "true_next": None,
            "false_next": None,
        }
        self._append(pipeline, "conditionals", node)

    def _append(self, pipeline: str, kind: str, node: Json) -> None:
        parts = self.pipelines[pipeline]
        if parts["init"] is None:
            parts["init"] = node["name"]
        for before in self._last[pipeline]:
            if "true_next" in before:
                before["true_next"] = node["name"]
            else:
                before["base_default_next"] = node["name"]
                before["next_tables"] = dict.fromkeys(before["next_tables"], node["name"])
        # The node after a conditional's branch is reached from both of its sides.
        for before in getattr(self, "_pending", []):
            before["false_next"] = node["name"]
        self._pending = [b for b in self._last[pipeline] if "true_next" in b]
        self._last[pipeline] = [node]
        parts[kind].append(node)  # type: ignore[union-attr]

    def state(
        self,
        name: str,
        ops: list[Json],
        key: list[Json] | None = None,
        transitions: list[tuple[str, str | None, str | None]] | None = None,
        default: str | None = None,
    ) -> None:
        """Append a parser state; transitions are (value, mask, next state)."""
        cases = [
            {"type": "hexstr", "value": v, "mask": m, "next_state": n}
            for v, m, n in transitions or []
        ]
        cases.append({"type": "default", "value": None, "mask": None, "next_state": default})  # type: ignore[dict-item]
        self.states.append(
            {
                "name": name,
                "id": len(self.states),
                "parser_ops": ops,
                "transitions": cases,
                "transition_key": key or [],
            }
        )

    def extract(self, name: str, kind: str = "regular") -> Json:
        """An extract operation."""
        return {"op": "extract", "parameters": [{"type": kind, "value": name}]}

    def json(self) -> bytes:
        """Return the program as a bmv2 JSON file."""
        return json.dumps(
            {
                "__meta__": {"version": [2, 24], "compiler": "tests"},
                "program": "built",
                "header_types": self.header_types,
                "headers": self.headers,
                "header_stacks": self.stacks,
                "header_union_types": [],
                "header_unions": [],
                "header_union_stacks": [],
                "field_lists": self.field_lists,
                "errors": ERRORS,
                "enums": [],
                "parsers": [
                    {
                        "name": "parser",
                        "id": 0,
                        "init_state": self.states[0]["name"] if self.states else None,
                        "parse_states": self.states,
                    }
                ],
                "parse_vsets": self.value_sets,
                "deparsers": [{"name": "deparser", "id": 0, "order": self.deparser}],
                "meter_arrays": self.meters,
                "counter_arrays": self.counters,
                "register_arrays": self.registers,
                "calculations": self.calculations,
                "learn_lists": self.learn_lists,
                "actions": self.actions,
                "pipelines": [
                    {
                        "name": name,
                        "id": i,
                        "init_table": parts["init"],
                        "tables": parts["tables"],
                        "conditionals": parts["conditionals"],
                        "action_profiles": self.profiles if name == "ingress" else [],
                    }
                    for i, (name, parts) in enumerate(self.pipelines.items())
                ],
                "checksums": self.checksums,
                "extern_instances": [],
                "field_aliases": ALIASES,
            }
        ).encode()
