"""A program with the objects of a P4Info and nothing behind them, for a server without a chip.

Tables have their keys, sizes and actions, counters and registers their cells; no packet meets
them.
"""

from __future__ import annotations

from finsy.proto import p4i

from tests.softswitch_json import Json, ProgramBuilder, field

_MATCH = {
    p4i.MatchField.EXACT: "exact",
    p4i.MatchField.LPM: "lpm",
    p4i.MatchField.TERNARY: "ternary",
}
PAIR_BITS = 64
"""Of a register of the chip that holds a struct of two words."""


def stand_in(p4info: p4i.P4Info) -> bytes:
    """The program, as a bmv2 JSON file."""
    program = ProgramBuilder()
    program.state("start", [])
    widths = sorted({key.bitwidth for table in p4info.tables for key in table.match_fields})
    program.header("keys", [[f"w{width}", width, False] for width in widths], metadata=True)
    actions = {
        action.preamble.id: program.action(
            action.preamble.name, [], [param.bitwidth for param in action.params]
        )
        for action in p4info.actions
    }
    for table in p4info.tables:
        _add_table(program, table, actions)
    for counter in p4info.counters:
        program.counters.append(
            {
                "name": counter.preamble.name,
                "id": len(program.counters),
                "size": counter.size,
                "is_direct": False,
            }
        )
    for register in p4info.registers:
        program.registers.append(
            {
                "name": register.preamble.name,
                "id": len(program.registers),
                "size": register.size,
                "bitwidth": PAIR_BITS,
            }
        )
    return program.json()


def _add_table(program: ProgramBuilder, table: p4i.Table, actions: dict[int, int]) -> None:
    default = table.initial_default_action
    more: Json = {}
    if table.has_initial_entries:
        more["entries"] = [_entry(table, program.actions[actions[table.action_refs[0].id]])]
    program.table(
        table.preamble.name,
        [(_MATCH[key.match_type], field("keys", f"w{key.bitwidth}")) for key in table.match_fields],
        [actions[ref.id] for ref in table.action_refs],
        (actions[default.action_id], [int.from_bytes(a.value, "big") for a in default.arguments]),
        pipeline="egress" if table.preamble.name.startswith("LibraEgress.") else "ingress",
        const_default=bool(table.const_default_action_id),
        size=table.size,
        **more,
    )


def _entry(table: p4i.Table, action: Json) -> Json:
    """P4Info says that a table has entries of the program's, not which: one stands for them."""
    kinds = [_MATCH[key.match_type] for key in table.match_fields]
    return {
        "match_key": [
            {"match_type": kind, "key": "0x0", **({"mask": "0x1"} if kind == "ternary" else {})}
            for kind in kinds
        ],
        "action_entry": {
            "action_id": action["id"],
            "action_data": ["0x0"] * len(action["runtime_data"]),
        },
        "priority": 1,
    }
