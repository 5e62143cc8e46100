"""Atomicity of batches: what is rolled back, and what packets see meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4d, p4r, rpc_code

from softswitch.batch import HeldWrites
from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_programs import Served, served
from tests.p4rt_support import (
    IDS,
    TIMEOUT_S,
    Client,
    action,
    batch_errors,
    delete,
    exact,
    insert,
    l2_entry,
    modify,
)

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

ROLLBACK = p4r.WriteRequest.ROLLBACK_ON_ERROR
ATOMIC = p4r.WriteRequest.DATAPLANE_ATOMIC
MODES = pytest.mark.parametrize("mode", [ROLLBACK, ATOMIC])

FRAME = bytes.fromhex("000000000001 000000000000 9999")

BAD = insert(table_entry=l2_entry(b"\xee", action=action("route", b"\x01", b"\x01")))


def route_entry(prefix: bytes, length: int, port: bytes = b"\x03") -> p4r.TableEntry:
    """Return an entry of the lpm table."""
    lpm = p4r.FieldMatch.LPM(value=prefix, prefix_len=length)
    match = [p4r.FieldMatch(field_id=1, lpm=lpm)] if length else []
    return p4r.TableEntry(
        table_id=IDS["routes"], match=match, action=action("route", b"\x0a", port)
    )


def acl_entry(source: bytes, priority: int) -> p4r.TableEntry:
    """Return an entry of the table with ternary, range and optional fields."""
    ternary = p4r.FieldMatch.Ternary(value=source, mask=b"\xff")
    ends = p4r.FieldMatch.Range(low=b"\x08\x00", high=b"\x08\xff")
    return p4r.TableEntry(
        table_id=IDS["acl"],
        match=[
            exact(1, b"\x01"),
            p4r.FieldMatch(field_id=2, ternary=ternary),
            p4r.FieldMatch(field_id=3, range=ends),
        ],
        priority=priority,
        action=action("set_class", b"\x07"),
    )


def default_entry(class_: bytes | None) -> p4r.TableEntry:
    """Return the default entry of the keyless table; None resets it."""
    entry = p4r.TableEntry(table_id=IDS["stamp"], is_default_action=True)
    if class_ is not None:
        entry.action.CopyFrom(action("set_class", class_))
    return entry


def group(group_id: int, *ports: int) -> p4r.PacketReplicationEngineEntry:
    """Return a multicast group."""
    replicas = [p4r.Replica(port=bytes([port]), instance=0) for port in ports]
    return p4r.PacketReplicationEngineEntry(
        multicast_group_entry=p4r.MulticastGroupEntry(
            multicast_group_id=group_id, replicas=replicas
        )
    )


def session(session_id: int, port: int) -> p4r.PacketReplicationEngineEntry:
    """Return a clone session."""
    return p4r.PacketReplicationEngineEntry(
        clone_session_entry=p4r.CloneSessionEntry(
            session_id=session_id, replicas=[p4r.Replica(port=bytes([port]), instance=1)]
        )
    )


def register(index: int | None, value: bytes) -> p4r.RegisterEntry:
    """Return a cell of the register, or all of them."""
    entry = p4r.RegisterEntry(register_id=IDS["last_source"], data=p4d.P4Data(bitstring=value))
    if index is not None:
        entry.index.index = index
    return entry


def counter(index: int, packets: int) -> p4r.CounterEntry:
    """Return a cell of the counter."""
    return p4r.CounterEntry(
        counter_id=IDS["port_counter"],
        index=p4r.Index(index=index),
        data=p4r.CounterData(packet_count=packets, byte_count=1),
    )


def direct_counter(mac: bytes, packets: int) -> p4r.DirectCounterEntry:
    """Return the direct counter of an entry."""
    key = p4r.TableEntry(table_id=IDS["l2"], match=[exact(1, mac)])
    return p4r.DirectCounterEntry(
        table_entry=key, data=p4r.CounterData(packet_count=packets, byte_count=2)
    )


def everything(client: Client) -> list[bytes]:
    """Read all that this program's state consists of, in an order of its own."""
    pre = p4r.PacketReplicationEngineEntry
    counted = p4r.TableEntry(table_id=IDS["l2"], counter_data=p4r.CounterData())
    queries: list[dict[str, Any]] = [
        {"table_entry": p4r.TableEntry()},
        {"table_entry": counted},
        {"table_entry": default_entry(None)},
        {"counter_entry": p4r.CounterEntry()},
        {"register_entry": p4r.RegisterEntry()},
        {"packet_replication_engine_entry": pre(multicast_group_entry=p4r.MulticastGroupEntry())},
        {"packet_replication_engine_entry": pre(clone_session_entry=p4r.CloneSessionEntry())},
    ]
    found = client.read(*(p4r.Entity(**query) for query in queries))
    return sorted(entity.SerializeToString(deterministic=True) for entity in found)


START = (
    insert(table_entry=l2_entry(b"\x01", metadata=b"first")),
    insert(table_entry=l2_entry(b"\x02")),
    insert(table_entry=route_entry(b"\x0a\x00\x00\x00", 8)),
    insert(table_entry=route_entry(b"", 0)),
    insert(table_entry=acl_entry(b"\x01", 5)),
    insert(packet_replication_engine_entry=group(1, 1, 2)),
    insert(packet_replication_engine_entry=session(7, 3)),
    modify(register_entry=register(1, b"\x11")),
    modify(counter_entry=counter(3, 9)),
    modify(direct_counter_entry=direct_counter(b"\x01", 4)),
)

CHANGES = (
    insert(table_entry=l2_entry(b"\x03")),
    modify(table_entry=l2_entry(b"\x03", b"\x04")),
    modify(table_entry=l2_entry(b"\x01", b"\x05", metadata=b"second")),
    modify(table_entry=l2_entry(b"\x01", b"\x06", counter_data=p4r.CounterData(packet_count=77))),
    modify(direct_counter_entry=direct_counter(b"\x02", 6)),
    delete(table_entry=l2_entry(b"\x02")),
    insert(table_entry=l2_entry(b"\x02", b"\x01")),
    delete(table_entry=l2_entry(b"\x01")),
    delete(table_entry=route_entry(b"", 0)),
    insert(table_entry=route_entry(b"\x0a\x01\x00\x00", 16)),
    modify(table_entry=route_entry(b"\x0a\x00\x00\x00", 8, b"\x09")),
    delete(table_entry=acl_entry(b"\x01", 5)),
    insert(table_entry=acl_entry(b"\x01", 6)),
    modify(table_entry=default_entry(b"\x0c")),
    modify(packet_replication_engine_entry=group(1, 3)),
    delete(packet_replication_engine_entry=session(7, 3)),
    insert(packet_replication_engine_entry=group(2, 1)),
    insert(packet_replication_engine_entry=session(8, 1)),
    modify(register_entry=register(None, b"\x22")),
    modify(counter_entry=counter(3, 1)),
)


@MODES
def test_whole_batch_is_applied(primary: Client, mode: int) -> None:
    """Without an error every mode leaves what CONTINUE_ON_ERROR leaves."""
    primary.write(*START)
    primary.write(*CHANGES)
    expected = everything(primary)
    undo = [
        p4r.Update(type=p4r.Update.DELETE, entity=entity)
        for entity in primary.read(p4r.Entity(table_entry=p4r.TableEntry()))
        if not entity.table_entry.is_const
    ]
    groups = [delete(packet_replication_engine_entry=group(number)) for number in (1, 2)]
    primary.write(
        *undo,
        *groups,
        delete(packet_replication_engine_entry=session(8, 1)),
        modify(table_entry=default_entry(None)),
        modify(register_entry=register(None, b"\x00")),
        modify(counter_entry=counter(3, 0)),
    )
    primary.write(*START, atomicity=mode)
    primary.write(*CHANGES, atomicity=mode)
    assert everything(primary) == expected


@MODES
@pytest.mark.parametrize("place", [0, 1, 7, len(CHANGES)])
def test_error_leaves_nothing(primary: Client, mode: int, place: int) -> None:
    """Wherever the error is, tables, counters, registers, groups and sessions are as before."""
    primary.write(*START)
    before = everything(primary)
    with pytest.raises(grpc.RpcError) as caught:
        primary.write(*CHANGES[:place], BAD, *CHANGES[place:], atomicity=mode)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert f"the first is number {place}" in caught.value.details()
    errors = batch_errors(caught.value)
    assert errors[place].canonical_code == rpc_code.INVALID_ARGUMENT
    others = errors[:place] + errors[place + 1 :]
    assert {error.canonical_code for error in others} == {rpc_code.ABORTED}
    assert everything(primary) == before
    primary.write(*CHANGES, atomicity=mode)


def test_continue_on_error_keeps_the_rest(primary: Client) -> None:
    """The default mode applies every update that can be applied."""
    primary.write(*START)
    with pytest.raises(grpc.RpcError):
        primary.write(BAD, *CHANGES)
    partly = everything(primary)
    with pytest.raises(grpc.RpcError):
        primary.write(BAD, atomicity=ATOMIC)
    assert everything(primary) == partly


def test_unknown_atomicity(primary: Client) -> None:
    """A mode that does not exist is refused as a whole."""
    with pytest.raises(grpc.RpcError) as caught:
        primary.write(START[0], atomicity=9)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "atomicity 9" in caught.value.details()


def test_packets_see_all_of_a_batch_or_nothing(primary: Client, switch: P4RuntimeServer) -> None:
    """A packet passes an entry that names a group, and the group; batches change both together.

    The entry points at the group with the right port, the other group has a wrong one. Entries in
    between make a batch that is seen half-way likely to be caught.
    """
    dataplane = switch.dataplane
    assert dataplane is not None
    right, wrong = 2, 9

    def state(good: int, bad: int) -> tuple[p4r.Update, ...]:
        flood = action("flood", bytes([good]))
        return (
            modify(table_entry=l2_entry(b"\x01", action=flood)),
            *(modify(table_entry=l2_entry(bytes([2, n]), bytes([good]))) for n in range(64)),
            modify(packet_replication_engine_entry=group(good, right)),
            modify(packet_replication_engine_entry=group(bad, wrong)),
        )

    primary.write(
        insert(packet_replication_engine_entry=group(1, right)),
        insert(packet_replication_engine_entry=group(2, wrong)),
        insert(table_entry=l2_entry(b"\x01", action=action("flood", b"\x01"))),
        *(insert(table_entry=l2_entry(bytes([2, n]))) for n in range(64)),
    )
    stop = threading.Event()
    seen: set[int] = set()

    def look() -> None:
        while not stop.is_set():
            seen.update(port for port, _ in dataplane.inject(1, FRAME))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for number in range(100):
            primary.write(*(state(2, 1) if number % 2 else state(1, 2)), atomicity=ATOMIC)
    finally:
        stop.set()
        reader.join(TIMEOUT_S)
    assert seen == {right}


def test_batch_that_the_data_plane_refuses(
    primary: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the data plane itself fails in the middle, what it had taken is undone there too."""
    primary.write(*START)
    before = everything(primary)
    add = HeldWrites.add
    countdown = 9

    def failing_add(self: HeldWrites, function: int, arguments: tuple[Any, ...]) -> None:
        nonlocal countdown
        countdown -= 1
        if countdown == 0:
            function = 999  # no such function: EINVAL when the batch is applied
        add(self, function, arguments)

    monkeypatch.setattr(HeldWrites, "add", failing_add)
    with pytest.raises(grpc.RpcError) as caught:
        primary.write(*CHANGES, atomicity=ATOMIC)
    codes = [error.canonical_code for error in batch_errors(caught.value)]
    assert codes.count(rpc_code.RESOURCE_EXHAUSTED) == 1
    assert codes.count(rpc_code.ABORTED) == len(CHANGES) - 1
    countdown = 0
    assert everything(primary) == before
    primary.write(*CHANGES, atomicity=ATOMIC)


def profile_updates(switch: Served) -> tuple[list[p4r.Update], list[p4r.Update], p4r.Update]:
    """Return updates that fill action profiles, others that change them, and one that is bad."""
    profile = switch.ids["paths"]

    def member(number: int, port: int) -> dict[str, Any]:
        what = switch.action("routed", bytes([port]), bytes([number]))
        return {
            "action_profile_member": p4r.ActionProfileMember(
                action_profile_id=profile, member_id=number, action=what
            )
        }

    def group(number: int, *members: int) -> dict[str, Any]:
        parts = [p4r.ActionProfileGroup.Member(member_id=item, weight=1) for item in members]
        return {
            "action_profile_group": p4r.ActionProfileGroup(
                action_profile_id=profile, group_id=number, members=parts, max_size=8
            )
        }

    def entry(mac: bytes, **target: int) -> dict[str, Any]:
        return {
            "table_entry": p4r.TableEntry(
                table_id=switch.ids["destinations"],
                match=[exact(1, mac)],
                action=p4r.TableAction(**target),
            )
        }

    start = [
        insert(**member(1, 1)),
        insert(**member(2, 2)),
        insert(**group(1, 1, 2)),
        insert(**entry(b"\x01", action_profile_group_id=1)),
        insert(**entry(b"\x02", action_profile_member_id=2)),
    ]
    changes = [
        insert(**member(3, 3)),
        modify(**member(1, 4)),
        modify(**group(1, 1, 2, 3)),
        insert(**group(2, 3)),
        modify(**entry(b"\x01", action_profile_group_id=2)),
        delete(**entry(b"\x02")),
        modify(**group(1, 1, 3)),
        delete(**member(2, 2)),
        insert(**entry(b"\x03", action_profile_member_id=3)),
    ]
    return start, changes, insert(**entry(b"\x04", action_profile_member_id=9))


@MODES
@pytest.mark.parametrize("place", [3, 9])
def test_action_profiles_take_part(p4rt_cache: Path, mode: int, place: int) -> None:
    """Members, groups and the entries that refer to them are rolled back in order."""
    with served("softswitch_profiles", p4rt_cache) as switch:
        start, changes, bad = profile_updates(switch)
        switch.client.write(*start)

        def state() -> list[bytes]:
            found = switch.client.read(
                p4r.Entity(table_entry=p4r.TableEntry()),
                p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
                p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
            )
            return sorted(entity.SerializeToString(deterministic=True) for entity in found)

        before = state()
        with pytest.raises(grpc.RpcError) as caught:
            switch.client.write(*changes[:place], bad, *changes[place:], atomicity=mode)
        assert batch_errors(caught.value)[place].canonical_code == rpc_code.NOT_FOUND
        assert state() == before
        switch.client.write(*changes, atomicity=mode)
        after = state()
        assert after != before
        reconcile = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT
        switch.client.set_config(reconcile, switch.client.get_config().config)
        assert state() == after
