"""RECONCILE_AND_COMMIT: a new pipeline with the state of the old one, or a reason why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4d, p4i, p4r

from softswitch.p4runtime.reconcile import Renaming
from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_programs import served
from tests.p4rt_support import (
    IDS,
    JSON_PATH,
    P4INFO,
    Client,
    action,
    config,
    exact,
    insert,
    l2_entry,
    modify,
    read_p4info,
)

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

Action = p4r.SetForwardingPipelineConfigRequest
FRAME = bytes.fromhex("000000000001 000000000077 9999")
NEW_COOKIE = p4r.ForwardingPipelineConfig.Cookie(cookie=2)

Change = Callable[[p4i.P4Info, dict[str, Any]], None]


def changed(*changes: Change) -> p4r.ForwardingPipelineConfig:
    """Return the config after changes to P4Info and program."""
    info, program = read_p4info(), json.loads(JSON_PATH.read_bytes())
    for change in changes:
        change(info, program)
    return config(p4info=info, p4_device_config=json.dumps(program).encode(), cookie=NEW_COOKIE)


def acl_entry(priority: int) -> p4r.TableEntry:
    """Return an entry of the table with ternary, range and optional fields."""
    ternary = p4r.FieldMatch.Ternary(value=b"\x01", mask=b"\xff")
    return p4r.TableEntry(
        table_id=IDS["acl"],
        match=[exact(1, b"\x01"), p4r.FieldMatch(field_id=2, ternary=ternary)],
        priority=priority,
        action=action("set_class", b"\x07"),
        metadata=b"acl",
    )


@pytest.fixture
def filled(primary: Client, switch: P4RuntimeServer) -> Client:
    """Return the primary of a switch with state of all kinds, some of it made by packets."""
    replicas = [p4r.Replica(port=b"\x01", instance=0)]
    pre = p4r.PacketReplicationEngineEntry
    default = p4r.TableEntry(
        table_id=IDS["stamp"], is_default_action=True, action=action("set_class", b"\x01")
    )
    primary.write(
        insert(table_entry=l2_entry(b"\x01", metadata=b"first")),
        insert(table_entry=l2_entry(b"\x02", b"\x05")),
        insert(table_entry=acl_entry(3)),
        modify(table_entry=default),
        insert(
            packet_replication_engine_entry=pre(
                multicast_group_entry=p4r.MulticastGroupEntry(
                    multicast_group_id=1, replicas=replicas
                )
            )
        ),
        insert(
            packet_replication_engine_entry=pre(
                clone_session_entry=p4r.CloneSessionEntry(session_id=7, replicas=replicas)
            )
        ),
        modify(
            register_entry=p4r.RegisterEntry(
                register_id=IDS["last_source"],
                index=p4r.Index(index=7),
                data=p4d.P4Data(bitstring=b"\x55"),
            )
        ),
    )
    assert switch.dataplane is not None
    for _ in range(3):
        assert switch.dataplane.inject(1, FRAME) == [(2, FRAME)]
    return primary


def state(client: Client) -> list[bytes]:
    """Read everything, counts included, in an order of its own."""
    pre = p4r.PacketReplicationEngineEntry
    counted = p4r.TableEntry(table_id=IDS["l2"], counter_data=p4r.CounterData())
    default = p4r.TableEntry(table_id=IDS["stamp"], is_default_action=True)
    queries: list[dict[str, Any]] = [
        {"table_entry": p4r.TableEntry()},
        {"table_entry": counted},
        {"table_entry": default},
        {"counter_entry": p4r.CounterEntry()},
        {"register_entry": p4r.RegisterEntry()},
        {"packet_replication_engine_entry": pre(multicast_group_entry=p4r.MulticastGroupEntry())},
        {"packet_replication_engine_entry": pre(clone_session_entry=p4r.CloneSessionEntry())},
    ]
    found = client.read(*(p4r.Entity(**query) for query in queries))
    return sorted(entity.SerializeToString(deterministic=True) for entity in found)


def reconcile(client: Client, what: p4r.ForwardingPipelineConfig) -> None:
    """Replace the pipeline and keep the state."""
    client.set_config(Action.RECONCILE_AND_COMMIT, what)


def test_same_program_keeps_everything(filled: Client, switch: P4RuntimeServer) -> None:
    """Entries, metadata, defaults, groups, sessions, registers and counts outlive the change."""
    before, old = state(filled), switch.dataplane
    reconcile(filled, config(cookie=NEW_COOKIE))
    assert state(filled) == before
    assert filled.get_config().config.cookie == NEW_COOKIE
    assert switch.dataplane is not old
    assert switch.dataplane is not None
    assert switch.dataplane.inject(1, FRAME) == [(2, FRAME)]
    query = p4r.Entity(
        table_entry=p4r.TableEntry(
            table_id=IDS["l2"], match=[exact(1, b"\x01")], counter_data=p4r.CounterData()
        )
    )
    assert filled.read(query)[0].table_entry.counter_data.packet_count == 4


def test_first_pipeline(empty_switch: P4RuntimeServer) -> None:
    """Where nothing runs there is nothing to keep."""
    with Client(empty_switch.address) as client:
        client.arbitrate()
        reconcile(client, config(cookie=NEW_COOKIE))
        assert client.get_config().config.cookie == NEW_COOKIE


def test_no_config(filled: Client) -> None:
    """Without a config the request is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        filled.set_config(Action.RECONCILE_AND_COMMIT, None)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def _other_ids(info: p4i.P4Info, _: dict[str, Any]) -> None:
    """Give l2 and forward other ids, and acl's fields other numbers."""
    for table in info.tables:
        for ref in table.action_refs:
            if ref.id == IDS["forward"]:
                ref.id = 0x01000001
        if table.preamble.id == IDS["l2"]:
            table.preamble.id = 0x02000001
        if table.preamble.id == IDS["acl"]:
            for field in table.match_fields:
                field.id += 10
    for item in info.actions:
        if item.preamble.id == IDS["forward"]:
            item.preamble.id = 0x01000001
            item.params[0].id = 9
    for counter in info.direct_counters:
        counter.direct_table_id = 0x02000001


def test_ids_follow_the_names(filled: Client) -> None:
    """State is found again under the ids that the new P4Info gives to the same names."""
    reconcile(filled, changed(_other_ids))
    (entry,) = (
        entity.table_entry
        for entity in filled.read(
            p4r.Entity(
                table_entry=p4r.TableEntry(
                    table_id=0x02000001, metadata=b"first", counter_data=p4r.CounterData()
                )
            )
        )
    )
    assert entry.action.action.action_id == 0x01000001
    assert entry.action.action.params[0].param_id == 9
    assert entry.counter_data.packet_count == 3
    (acl,) = filled.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["acl"])))
    assert [match.field_id for match in acl.table_entry.match] == [11, 12]
    assert acl.table_entry.metadata == b"acl"


def _longer_register(info: p4i.P4Info, program: dict[str, Any]) -> None:
    for register in info.registers:
        if register.preamble.alias == "last_source":
            register.size = 64
    for array in program["register_arrays"]:
        if array["name"].endswith("last_source"):
            array["size"] = 64


def _shorter_register(info: p4i.P4Info, program: dict[str, Any]) -> None:
    for register in info.registers:
        if register.preamble.alias == "last_source":
            register.size = 4
    for array in program["register_arrays"]:
        if array["name"].endswith("last_source"):
            array["size"] = 4


def _small_l2(info: p4i.P4Info, program: dict[str, Any]) -> None:
    for pipeline in program["pipelines"]:
        for table in pipeline["tables"]:
            if table["name"].endswith(".l2"):
                table["max_size"] = 1


def _no_flood(info: p4i.P4Info, _: dict[str, Any]) -> None:
    """Take an action away that no entry uses."""
    for table in info.tables:
        if table.preamble.id == IDS["l2"]:
            kept = [ref for ref in table.action_refs if ref.id != IDS["flood"]]
            del table.action_refs[:]
            table.action_refs.extend(kept)


def _no_forward(info: p4i.P4Info, _: dict[str, Any]) -> None:
    """Take the action away that entries use."""
    for table in info.tables:
        if table.preamble.id == IDS["l2"]:
            kept = [ref for ref in table.action_refs if ref.id != IDS["forward"]]
            del table.action_refs[:]
            table.action_refs.extend(kept)


def _renamed_l2(info: p4i.P4Info, program: dict[str, Any]) -> None:
    for table in info.tables:
        if table.preamble.id == IDS["l2"]:
            table.preamble.name = "SwitchIngress.bridge"
    for pipeline in program["pipelines"]:
        for table in pipeline["tables"]:
            if table["name"].endswith(".l2"):
                table["name"] = "SwitchIngress.bridge"
        for conditional in pipeline["conditionals"]:
            for branch in ("true_next", "false_next"):
                if conditional[branch] == "SwitchIngress.l2":
                    conditional[branch] = "SwitchIngress.bridge"
        for table in pipeline["tables"]:
            if table.get("base_default_next") == "SwitchIngress.l2":
                table["base_default_next"] = "SwitchIngress.bridge"
            for name, target in table["next_tables"].items():
                if target == "SwitchIngress.l2":
                    table["next_tables"][name] = "SwitchIngress.bridge"


def test_register_may_grow(filled: Client) -> None:
    """Cells keep their values, new ones are zero."""
    reconcile(filled, changed(_longer_register))
    cells = filled.read(
        p4r.Entity(register_entry=p4r.RegisterEntry(register_id=IDS["last_source"]))
    )
    values = [cell.register_entry.data.bitstring for cell in cells]
    assert values == [b"\x00", b"\x77", *[b"\x00"] * 5, b"\x55", *[b"\x00"] * 56]


def test_unused_things_may_go(filled: Client) -> None:
    """What no state refers to may be different in the new program."""
    before = state(filled)
    reconcile(filled, changed(_no_flood))
    assert state(filled) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_shorter_register, "register 'SwitchIngress.last_source': 8 cells of 48 bits"),
        (_small_l2, "table 'SwitchIngress.l2'"),
        (_no_forward, "table 'SwitchIngress.l2': table SwitchIngress.l2: no action has id"),
        (_renamed_l2, "table 'SwitchIngress.l2': 'SwitchIngress.l2' is not in the new P4Info"),
    ],
)
def test_state_that_cannot_be_kept(
    filled: Client, switch: P4RuntimeServer, change: Change, words: str
) -> None:
    """The reason is given, and the old pipeline goes on with all of its state."""
    before, old = state(filled), switch.dataplane
    with pytest.raises(grpc.RpcError) as caught:
        reconcile(filled, changed(change))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "cannot be preserved" in caught.value.details()
    assert words in caught.value.details()
    assert switch.dataplane is old
    assert state(filled) == before
    assert not filled.get_config().config.HasField("cookie")


def test_saved_pipeline_is_dropped(filled: Client) -> None:
    """State is that of the running pipeline, not of one that waits for its commit."""
    before = state(filled)
    filled.set_config(Action.VERIFY_AND_SAVE, config())
    filled.write(insert(table_entry=l2_entry(b"\x09")))
    reconcile(filled, config(cookie=NEW_COOKIE))
    assert state(filled) == before


def test_renaming_every_kind() -> None:
    """Ids of members, groups, one-shot sets and value sets are all renamed."""
    names = {"action_profiles": 0x11000000, "value_sets": 0x03000000, "digests": 0x17000000}
    old, new = read_p4info(), read_p4info()
    for info, number in ((old, 1), (new, 2)):
        for collection, prefix in names.items():
            item = getattr(info, collection).add()
            item.preamble.id, item.preamble.name = prefix + number, collection
            if collection == "value_sets":
                item.match.add(id=number, name="field")
    renaming = Renaming(old, new)

    def renamed(**entity: Any) -> p4r.Entity:
        return renaming.update(insert(**entity)).entity

    member = renamed(
        action_profile_member=p4r.ActionProfileMember(
            action_profile_id=0x11000001, member_id=5, action=action("drop").action
        )
    ).action_profile_member
    assert (member.action_profile_id, member.member_id) == (0x11000002, 5)
    assert member.action.action_id == IDS["drop"]
    value = p4r.ValueSetMember(match=[exact(1, b"\x07")])
    values = renamed(
        value_set_entry=p4r.ValueSetEntry(value_set_id=0x03000001, members=[value])
    ).value_set_entry
    assert values.value_set_id == 0x03000002
    assert values.members[0].match[0].field_id == 2
    digest = renamed(digest_entry=p4r.DigestEntry(digest_id=0x17000001)).digest_entry
    assert digest.digest_id == 0x17000002
    assert Renaming(P4INFO, P4INFO).update(insert(table_entry=l2_entry(b"\x01"))) == insert(
        table_entry=l2_entry(b"\x01")
    )


def test_names_keep_their_numbers(p4rt_cache: Path) -> None:
    """A name of a translated type stands for the same number afterwards, used or not."""
    with served("softswitch_entries", p4rt_cache) as switch:

        def entry(tenant: bytes) -> p4r.TableEntry:
            what = switch.action("assign", b"\x01", b"green")
            return p4r.TableEntry(
                table_id=switch.ids["translated"],
                match=[exact(2, tenant)],
                priority=1,
                action=p4r.TableAction(action=what),
            )

        def numbers() -> dict[str, int]:
            found = switch.dataplane.table_entries("EntriesIngress.translated")
            read = switch.read(table_entry=p4r.TableEntry(table_id=switch.ids["translated"]))
            names = [item.match[0].exact.value.decode() for item in read]
            return dict(zip(names, (item.key[1].value for item in found), strict=True))

        switch.client.write(insert(table_entry=entry(b"red")), insert(table_entry=entry(b"blue")))
        before = numbers()
        switch.client.write(
            p4r.Update(type=p4r.Update.DELETE, entity=p4r.Entity(table_entry=entry(b"red")))
        )
        reconcile(switch.client, switch.client.get_config().config)
        assert numbers() == {"blue": before["blue"]}
        switch.client.write(insert(table_entry=entry(b"red")))
        assert numbers() == before
