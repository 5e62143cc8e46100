"""Members and groups of action profiles and one-shots over gRPC, and packets that follow them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r

from tests.p4rt_programs import Served, served
from tests.p4rt_support import batch_errors, delete, exact, insert, modify, refused

pytest_plugins = ("tests.p4rt_fixtures",)

pytestmark = pytest.mark.compiler

DST = b"\x02\x00\x00\x00\x00\x01"
Code = grpc.StatusCode


@pytest.fixture
def switch(p4rt_cache: Path) -> Iterator[Served]:
    """A served switch with action profiles."""
    with served("softswitch_profiles", p4rt_cache) as each:
        yield each


def send(switch: Served, flow: int = 0, dst: bytes = DST, src: bytes = bytes(6)) -> list[int]:
    """Port, route and class of the packet that leaves, [] if it is dropped."""
    packet = dst + src + b"\x08\x00" + flow.to_bytes(4, "big") + bytes(4)
    out = switch.dataplane.inject(1, packet)
    return [
        word
        for port, data in out
        for word in (port, int.from_bytes(data[18:20], "big"), int.from_bytes(data[20:22], "big"))
    ]


def member(switch: Served, number: int, port: int, profile: str = "paths") -> dict[str, object]:
    """A member that sends to a port."""
    action = switch.action("routed", bytes([port]), bytes([number]))
    return {
        "action_profile_member": p4r.ActionProfileMember(
            action_profile_id=switch.ids[profile], member_id=number, action=action
        )
    }


def group(
    switch: Served, number: int, *members: p4r.ActionProfileGroup.Member, size: int = 8
) -> dict[str, object]:
    """A group of the selector."""
    return {
        "action_profile_group": p4r.ActionProfileGroup(
            action_profile_id=switch.ids["paths"],
            group_id=number,
            members=members,
            max_size=size,
        )
    }


def part(number: int, weight: int = 1, watch_port: bytes = b"") -> p4r.ActionProfileGroup.Member:
    """A member of a group."""
    if not watch_port:
        return p4r.ActionProfileGroup.Member(member_id=number, weight=weight)
    return p4r.ActionProfileGroup.Member(member_id=number, weight=weight, watch_port=watch_port)


def entry(switch: Served, action: p4r.TableAction, dst: bytes = DST) -> p4r.TableEntry:
    """An entry of table destinations."""
    return p4r.TableEntry(table_id=switch.ids["destinations"], match=[exact(1, dst)], action=action)


def code(error: p4r.Error) -> int:
    """The canonical code of an error."""
    return error.canonical_code


def number(status: grpc.StatusCode) -> int:
    """The number of a canonical code."""
    return int(status.value[0])


def test_members_are_written_and_read(switch: Served) -> None:
    """What was written is read back, by id and by wildcard, and packets run it."""
    write = switch.client.write
    write(insert(**member(switch, 1, 3)), insert(**member(switch, 2, 4)))
    to_first = p4r.TableAction(action_profile_member_id=1)
    write(insert(table_entry=entry(switch, to_first)))
    assert send(switch) == [3, 1, 0]
    write(modify(**member(switch, 1, 5)))
    assert send(switch) == [5, 1, 0]

    def read(**query: int) -> list[int]:
        found = switch.read(action_profile_member=p4r.ActionProfileMember(**query))
        return sorted(m.member_id for m in found)

    paths = switch.ids["paths"]
    assert read() == [1, 2]
    assert read(action_profile_id=paths) == [1, 2]
    assert read(action_profile_id=paths, member_id=2) == [2]
    assert read(action_profile_id=switch.ids["classes"]) == []
    [found] = switch.read(
        action_profile_member=p4r.ActionProfileMember(action_profile_id=paths, member_id=1)
    )
    assert found == member(switch, 1, 5)["action_profile_member"]
    [stored] = switch.read(table_entry=p4r.TableEntry(table_id=switch.ids["destinations"]))
    assert stored.action == to_first


def test_a_group_spreads_flows_by_weight(switch: Served) -> None:
    """The selector's two fields choose the member: CRC-32 over 32 + 16 bits."""
    write = switch.client.write
    write(*(insert(**member(switch, n, n)) for n in (1, 2)))
    balanced = group(switch, 9, part(1), part(2, 3, b"\x00\x02"))
    write(insert(**balanced))
    write(insert(table_entry=entry(switch, p4r.TableAction(action_profile_group_id=9))))
    places = [1, 2, 2, 2]
    for flow in range(64):
        expected = places[zlib.crc32(flow.to_bytes(4, "big") + bytes(2)) % 4]
        assert send(switch, flow) == [expected, expected, 0]
    [found] = switch.read(action_profile_group=p4r.ActionProfileGroup())
    assert found.members[1].watch_port == b"\x02"
    write(modify(**group(switch, 9)))
    assert send(switch) == [0, 0, 0]


def test_two_tables_share_a_selector(switch: Served) -> None:
    """A group serves the entries of both of its tables."""
    write = switch.client.write
    write(insert(**member(switch, 1, 7)))
    write(insert(**group(switch, 1, part(1))))
    action = p4r.TableAction(action_profile_group_id=1)
    fallback = p4r.TableEntry(
        table_id=switch.ids["fallback"], match=[exact(1, b"\x08\x00")], action=action
    )
    write(insert(table_entry=fallback))
    assert send(switch, dst=bytes(6)) == [7, 1, 0]
    write(insert(table_entry=entry(switch, action)))
    assert send(switch) == [7, 1, 0]


def test_one_shots_are_read_back_as_written(switch: Served) -> None:
    """An action set makes a group without ids; deleting the entry frees its weights."""
    items = [
        p4r.ActionProfileAction(
            action=switch.action("routed", bytes([n]), bytes([n])), weight=4, watch_port=b"\x01"
        )
        for n in (1, 2)
    ]
    action = p4r.TableAction(
        action_profile_action_set=p4r.ActionProfileActionSet(action_profile_actions=items)
    )
    for turn in range(6):  # more than the size of 32 if weights were not freed
        wanted = entry(switch, action)
        switch.client.write(insert(table_entry=wanted))
        for flow in range(20):
            expected = 1 + zlib.crc32(flow.to_bytes(4, "big") + bytes(2)) % 8 // 4
            assert send(switch, flow) == [expected, expected, 0], turn
        [found] = switch.read(table_entry=p4r.TableEntry(table_id=switch.ids["destinations"]))
        assert found == wanted
        assert switch.read(action_profile_member=p4r.ActionProfileMember()) == []
        assert switch.read(action_profile_group=p4r.ActionProfileGroup()) == []
        if turn % 2:
            items[0].weight = 4
            switch.client.write(modify(table_entry=wanted))
        switch.client.write(delete(table_entry=wanted))
    sets = action.action_profile_action_set
    sets.action_selection_mode = p4r.ActionProfileActionSet.HASH
    sets.size_semantics = p4r.ActionProfileActionSet.SUM_OF_WEIGHTS
    switch.client.write(insert(table_entry=entry(switch, action)))
    switch.client.write(delete(table_entry=entry(switch, action)))
    sets.action_selection_mode = p4r.ActionProfileActionSet.RANDOM
    error = refused(switch.client, insert(table_entry=entry(switch, action)))
    assert code(error) == number(Code.UNIMPLEMENTED)
    too_many = p4r.TableAction(
        action_profile_action_set=p4r.ActionProfileActionSet(action_profile_actions=items * 2)
    )
    error = refused(switch.client, insert(table_entry=entry(switch, too_many)))
    assert code(error) == number(Code.INVALID_ARGUMENT)


def test_a_one_shot_may_replace_the_only_other_entry(switch: Served) -> None:
    """What an entry refers to until now takes no room, and is no other way of programming."""

    def one_shot(weight: int) -> p4r.TableAction:
        item = p4r.ActionProfileAction(action=switch.action("drop"), weight=weight)
        return p4r.TableAction(
            action_profile_action_set=p4r.ActionProfileActionSet(action_profile_actions=[item])
        )

    others = [bytes([2, 0, 0, 0, 1, n]) for n in range(3)]
    for dst in (DST, *others):  # 4 × 8 = 32 fills the selector
        switch.client.write(insert(table_entry=entry(switch, one_shot(8), dst)))
    switch.client.write(modify(table_entry=entry(switch, one_shot(8))))
    error = refused(switch.client, insert(table_entry=entry(switch, one_shot(1), bytes(6))))
    assert code(error) == number(Code.RESOURCE_EXHAUSTED)
    for dst in others:
        switch.client.write(delete(table_entry=entry(switch, one_shot(8), dst)))
    switch.client.write(insert(**member(switch, 1, 3)))
    by_id = p4r.TableAction(action_profile_member_id=1)
    switch.client.write(modify(table_entry=entry(switch, by_id)))
    assert send(switch) == [3, 1, 0]
    switch.client.write(modify(table_entry=entry(switch, one_shot(8))))
    assert send(switch) == []
    switch.client.write(delete(**member(switch, 1, 3)))


def test_ids_and_one_shots_do_not_mix(switch: Served) -> None:
    """All entries of a selector use one way, until none is left."""
    one_shot = p4r.TableAction(
        action_profile_action_set=p4r.ActionProfileActionSet(
            action_profile_actions=[p4r.ActionProfileAction(action=switch.action("drop"), weight=1)]
        )
    )
    by_id = p4r.TableAction(action_profile_member_id=1)
    other = b"\x02\x00\x00\x00\x00\x02"
    switch.client.write(insert(**member(switch, 1, 3)))
    switch.client.write(insert(table_entry=entry(switch, one_shot)))
    error = refused(switch.client, insert(table_entry=entry(switch, by_id, other)))
    assert code(error) == number(Code.INVALID_ARGUMENT)
    switch.client.write(delete(table_entry=entry(switch, one_shot)))
    switch.client.write(insert(table_entry=entry(switch, by_id, other)))
    error = refused(switch.client, insert(table_entry=entry(switch, one_shot)))
    assert code(error) == number(Code.INVALID_ARGUMENT)


def test_references_keep_what_they_refer_to(switch: Served) -> None:
    """FAILED_PRECONDITION for members and groups in use; NOT_FOUND for absent ones."""
    client = switch.client
    client.write(insert(**member(switch, 1, 3)))
    client.write(insert(**group(switch, 1, part(1))))
    by_group = entry(switch, p4r.TableAction(action_profile_group_id=1))
    client.write(insert(table_entry=by_group))
    failed = number(Code.FAILED_PRECONDITION)
    assert code(refused(client, delete(**member(switch, 1, 3)))) == failed
    assert code(refused(client, delete(**group(switch, 1)))) == failed
    by_member = entry(switch, p4r.TableAction(action_profile_member_id=1))
    client.write(modify(table_entry=by_member))
    client.write(delete(**group(switch, 1)))
    assert code(refused(client, delete(**member(switch, 1, 3)))) == failed
    client.write(delete(table_entry=by_member))
    client.write(delete(**member(switch, 1, 3)))
    absent = number(Code.NOT_FOUND)
    assert code(refused(client, delete(**member(switch, 1, 3)))) == absent
    assert code(refused(client, modify(**member(switch, 1, 3)))) == absent
    assert code(refused(client, insert(table_entry=by_member))) == absent
    assert code(refused(client, insert(table_entry=by_group))) == absent
    assert code(refused(client, insert(**group(switch, 1, part(5))))) == absent


def test_bad_profile_writes_are_refused(switch: Served) -> None:
    """Each with its canonical code, and nothing is left behind."""
    client = switch.client
    client.write(*(insert(**member(switch, n, n)) for n in (1, 2)))
    invalid, exhausted = number(Code.INVALID_ARGUMENT), number(Code.RESOURCE_EXHAUSTED)
    no_action = p4r.ActionProfileMember(action_profile_id=switch.ids["paths"], member_id=3)
    foreign = p4r.ActionProfileMember(
        action_profile_id=switch.ids["classes"], member_id=3, action=switch.action("drop")
    )
    unknown = p4r.ActionProfileMember(action_profile_id=0x11FFFFFF, member_id=3)
    plain = p4r.TableAction(action=switch.action("drop"))
    cases = [
        (insert(action_profile_member=no_action), invalid),
        (insert(action_profile_member=foreign), invalid),
        (insert(action_profile_member=unknown), number(Code.NOT_FOUND)),
        (insert(**member(switch, 0, 3)), invalid),
        (insert(**member(switch, 1, 3)), number(Code.ALREADY_EXISTS)),
        (insert(**group(switch, 1, part(1), size=9)), invalid),
        (insert(**group(switch, 1, part(1), size=0)), invalid),
        (insert(**group(switch, 1, part(1, 0))), invalid),
        (insert(**group(switch, 1, part(1), part(1))), invalid),
        (insert(**group(switch, 1, part(1, 9))), exhausted),
        (insert(**group(switch, 1, part(1, 1, b"\x02\x00"))), invalid),
        (insert(**group(switch, 0, part(1))), invalid),
        (insert(table_entry=entry(switch, plain)), invalid),
    ]
    for update, expected in cases:
        assert code(refused(client, update)) == expected, update
    client.write(insert(**group(switch, 1, part(1), size=4)))
    assert code(refused(client, modify(**group(switch, 1, part(1), size=5)))) == invalid
    for n in range(2, 6):  # 4 + 4 × 7 = 32 is the size of the selector
        client.write(insert(**group(switch, n, part(1, 7 if n < 5 else 8))))
    assert code(refused(client, insert(**group(switch, 6, part(1, 3))))) == exhausted
    with pytest.raises(grpc.RpcError) as caught:
        switch.read(action_profile_member=p4r.ActionProfileMember(member_id=1))
    assert code(batch_errors(caught.value)[0]) == invalid


def test_a_default_entry_of_an_indirect_table_is_constant(switch: Served) -> None:
    """The specification has it that a miss does nothing."""
    update = modify(
        table_entry=p4r.TableEntry(
            table_id=switch.ids["destinations"],
            is_default_action=True,
            action=p4r.TableAction(action=switch.action("drop")),
        )
    )
    assert code(refused(switch.client, update)) == number(Code.PERMISSION_DENIED)


@pytest.mark.parametrize("atomicity", ["ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"])
def test_batches_roll_back_members_groups_and_one_shots(switch: Served, atomicity: str) -> None:
    """A batch that fails leaves profile and table as they were."""
    client = switch.client
    client.write(insert(**member(switch, 1, 3)), insert(**member(switch, 2, 4)))
    client.write(insert(**group(switch, 1, part(1))))
    by_group = entry(switch, p4r.TableAction(action_profile_group_id=1))
    client.write(insert(table_entry=by_group))
    with pytest.raises(grpc.RpcError):
        client.write(
            modify(**member(switch, 1, 6)),
            modify(**group(switch, 1, part(2))),
            insert(**member(switch, 3, 5)),
            insert(**group(switch, 2, part(3))),
            modify(table_entry=entry(switch, p4r.TableAction(action_profile_group_id=2))),
            delete(**group(switch, 1)),
            insert(**member(switch, 3, 5)),
            atomicity=p4r.WriteRequest.Atomicity.Value(atomicity),
        )
    assert send(switch) == [3, 1, 0]
    found = switch.read(action_profile_member=p4r.ActionProfileMember())
    assert {m.member_id for m in found} == {1, 2}
    [one] = switch.read(action_profile_group=p4r.ActionProfileGroup())
    assert one == group(switch, 1, part(1))["action_profile_group"]


def test_direct_counters_of_indirect_tables_count(switch: Served) -> None:
    """The counter belongs to the entry, whatever member it points to."""
    action = switch.action("classify", b"\x05")
    switch.client.write(
        insert(
            action_profile_member=p4r.ActionProfileMember(
                action_profile_id=switch.ids["classes"], member_id=1, action=action
            )
        )
    )
    ternary = p4r.FieldMatch.Ternary(value=b"\x01", mask=b"\x01")
    source = p4r.TableEntry(
        table_id=switch.ids["sources"],
        match=[p4r.FieldMatch(field_id=1, ternary=ternary)],
        priority=1,
        action=p4r.TableAction(action_profile_member_id=1),
    )
    switch.client.write(insert(table_entry=source))
    assert send(switch, src=bytes(5) + b"\x01") == [0, 0, 5]
    assert send(switch, src=bytes(6)) == [0, 0, 0]
    [found] = switch.read(
        direct_counter_entry=p4r.DirectCounterEntry(
            table_entry=p4r.TableEntry(table_id=switch.ids["sources"])
        )
    )
    assert found.data.packet_count == 1
