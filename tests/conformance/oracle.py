"""The same test on bmv2: tables as entries of the program, replication over P4Runtime.

What bmv2 can only be told while packets pass (entries that change, members of action profiles and
value sets, rates, registers) ends the comparison of a test.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from finsy.proto import p4i, p4r

from softswitch.dataplane import DataPlane
from softswitch.program import KeyField, MatchKey, MatchType, Table
from softswitch.stf.grammar import Command, Packet, Statement
from softswitch.stf.session import Session
from tests.bmv2_switch import Bmv2Ports
from tests.p4rt_support import Client

_REPLICATION = ("mc_", "mirroring_")
_HARMLESS = ("counter_", "register_read", "meter_get_rates")


def compare(
    program: bytes,
    info: p4i.P4Info,
    statements: Sequence[Statement],
    here: DataPlane,
    ports: Bmv2Ports,
    there: Client,
) -> tuple[int, dict[int, str]]:
    """Run a test on both switches.

    Returns how many packets were compared, and the differences by line.
    """
    session, todo = Session(here), list(statements)
    while todo and not isinstance(todo[0], Packet):
        if not _can_be_told(todo[0]):
            return 0, {}
        session.execute(todo.pop(0))
    there.set_config(
        p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=bake(program, here)),
    )
    replicas = _replicate(there, here, {})
    count, differences = 0, dict[int, str]()
    for statement in todo:
        if isinstance(statement, Packet):
            count += 1
            mine = sorted(session.execute(statement))
            theirs = sorted(ports.inject(statement.port, statement.data))
            if mine != theirs:
                differences[statement.line] = f"{_show(mine)} here, {_show(theirs)} there"
        elif isinstance(statement, Command) and statement.name.startswith(_REPLICATION):
            session.execute(statement)
            replicas = _replicate(there, here, replicas)
        elif not _is_harmless(statement):
            break
    return count, differences


def _can_be_told(statement: Statement) -> bool:
    names = (*_REPLICATION, *_HARMLESS)
    return not isinstance(statement, Command) or statement.name.startswith(names)


def _is_harmless(statement: Statement) -> bool:
    if isinstance(statement, Command):
        return statement.name.startswith(_HARMLESS)
    return type(statement).__name__ in ("Expect", "NoPacket", "CheckCounter", "Wait")


def _show(packets: list[tuple[int, bytes]]) -> str:
    return ", ".join(f"{port}:{packet.hex()}" for port, packet in packets) or "nothing"


def bake(program: bytes, switch: DataPlane) -> bytes:
    """Return the program with the entries and default actions of a switch as its own."""
    data = json.loads(program)
    for pipeline in data["pipelines"]:
        for raw in pipeline["tables"]:
            table = switch.program.tables[raw["name"]]
            if raw["type"] != "simple":
                continue
            # Several actions may have the same name, each for a table of its own.
            ids = dict(zip(raw["actions"], raw["action_ids"], strict=True))
            entries = [_entry(table, e, ids) for e in switch.table_entries(table.name)]
            if entries:
                raw["entries"] = entries
            action, params = switch.table_get_default(table.name)
            if action:
                default = raw.setdefault("default_entry", {"action_const": False})
                default |= {
                    "action_id": ids[action],
                    "action_entry_const": False,
                    "action_data": [hex(v) for v in params],
                }
    return json.dumps(data).encode()


def _entry(table: Table, entry: Any, ids: dict[str, int]) -> dict[str, Any]:
    return {
        "match_key": [_match(k, m) for k, m in zip(table.keys, entry.key, strict=True)],
        # In the file the lower number wins.
        "priority": (1 << 30) - entry.priority,
        "action_entry": {
            "action_id": ids[entry.action],
            "action_data": [hex(value) for value in entry.params],
        },
    }


def _match(key: KeyField, match: MatchKey) -> dict[str, Any]:
    digits = (key.width + 7) // 8 * 2

    def text(value: int) -> str:
        return f"0x{value:0{digits}x}"

    match key.match_type:
        case MatchType.EXACT:
            return {"match_type": "exact", "key": text(match.value)}
        case MatchType.LPM:
            length = match.prefix_len
            return {"match_type": "lpm", "key": text(match.value), "prefix_length": length}
        case MatchType.RANGE:
            ends = {"start": text(match.value), "end": text(match.high)}
            return {"match_type": "range", **ends}
    return {"match_type": "ternary", "key": text(match.value), "mask": text(match.mask)}


def _replicate(
    client: Client,
    switch: DataPlane,
    known: dict[tuple[str, int], p4r.PacketReplicationEngineEntry],
) -> dict[tuple[str, int], p4r.PacketReplicationEngineEntry]:
    """Give bmv2 the groups and clone sessions that have changed; return all of them."""
    wanted: dict[tuple[str, int], p4r.PacketReplicationEngineEntry] = {}
    for group, replicas in switch.mcast_groups().items():
        entry = p4r.MulticastGroupEntry(multicast_group_id=group, replicas=_replicas(replicas))
        wanted["group", group] = p4r.PacketReplicationEngineEntry(multicast_group_entry=entry)
    for number, session in switch.clone_sessions().items():
        clone = p4r.CloneSessionEntry(session_id=number, replicas=_replicas(session.replicas))
        wanted["session", number] = p4r.PacketReplicationEngineEntry(clone_session_entry=clone)
    updates = [
        p4r.Update(
            type=p4r.Update.DELETE,
            entity=p4r.Entity(packet_replication_engine_entry=entry),
        )
        for key, entry in known.items()
        if wanted.get(key) != entry
    ]
    updates += [
        p4r.Update(
            type=p4r.Update.INSERT,
            entity=p4r.Entity(packet_replication_engine_entry=entry),
        )
        for key, entry in wanted.items()
        if known.get(key) != entry
    ]
    if updates:
        client.write(*updates)
    return wanted


def _replicas(pairs: Sequence[tuple[int, int]]) -> list[p4r.Replica]:
    return [p4r.Replica(egress_port=port, instance=instance) for port, instance in pairs]
