"""Action profiles and selectors: who is picked, what may be removed, what an empty group does."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from softswitch.dataplane import DataPlane, GroupMember, MatchKey, Reference, TableEntry
from softswitch.errors import AlreadyExists, InUse, InvalidArgument, NotFound, ResourceExhausted
from tests.softswitch_json import ProgramBuilder, assign, const, field, param

pytestmark = pytest.mark.compiler

MISSED = 0xFFFF


def program(*, default: bool = False) -> bytes:
    """Two tables over h.a that share the actions of profile `p`; the second one runs on a hit."""
    b = ProgramBuilder()
    b.header("h", [["a", 16, False], ["flow", 32, False]])
    b.header("out", [["x", 16, False], ["y", 16, False]])
    b.deparser = ["out"]
    b.state("start", [b.extract("h")])
    x, y = field("out", "x"), field("out", "y")
    b.run(
        "add",
        [
            {"op": "add_header", "parameters": [{"type": "header", "value": "out"}]},
            assign(x, const(MISSED)),
        ],
    )
    set_x = b.action("set_x", [assign(x, param(0))], [16])
    set_y = b.action("set_y", [assign(y, param(0)), assign(x, const(0))], [128])
    b.profiles.append(
        {
            "name": "p",
            "id": 0,
            "max_size": 8,
            "selector": {"algo": "crc32", "input": [field("h", "flow")]},
        }
    )
    b.table(
        "t",
        [("exact", field("h", "a"))],
        [set_x, set_y],
        (set_x, [77]) if default else None,
        type="indirect_ws",
        action_profile="p",
    )
    return b.json()


@pytest.fixture(scope="module")
def loaded() -> Iterator[DataPlane]:
    """One compiled switch; tests use a copy of their own."""
    with DataPlane.load(program()) as switch:
        yield switch


@pytest.fixture
def switch(loaded: DataPlane) -> Iterator[DataPlane]:
    """A fresh switch."""
    with DataPlane(loaded.program, loaded.library) as fresh:
        yield fresh


def send(switch: DataPlane, a: int, flow: int = 0) -> tuple[int, int]:
    """What the actions of a packet wrote."""
    [(_, out)] = switch.inject(0, a.to_bytes(2, "big") + flow.to_bytes(4, "big"))
    return int.from_bytes(out[:2], "big"), int.from_bytes(out[2:], "big")


def entry(a: int, target: Reference | None, action: str = "") -> TableEntry:
    """An entry for h.a."""
    return TableEntry((MatchKey(a),), 0, action, target=target)


def test_entries_run_the_action_of_their_member(switch: DataPlane) -> None:
    """Two entries share a member; changing it changes both, packets in between see one of them."""
    p = switch.profiles["p"]
    p.add_member(5, "set_x", [10])
    p.add_member(9, "set_y", [20])
    for a, member in ((1, 5), (2, 5), (3, 9)):
        switch.table_add("t", entry(a, Reference(member)))
    assert [send(switch, a)[0] for a in (1, 2, 3, 4)] == [10, 10, 0, MISSED]
    assert send(switch, 3)[1] == 20
    p.modify_member(5, "set_x", [11])
    assert [send(switch, a)[0] for a in (1, 2)] == [11, 11]
    switch.table_modify("t", entry(2, Reference(9)))
    assert send(switch, 2) == (0, 20)


def test_a_group_picks_by_the_hash_of_the_selector(switch: DataPlane) -> None:
    """The place is CRC-32 of the selector's field modulo the weights, members ordered by id."""
    p = switch.profiles["p"]
    for member in (3, 1, 2):
        p.add_member(member, "set_x", [100 + member])
    p.add_group(1, [GroupMember(3, weight=2), GroupMember(1), GroupMember(2, weight=3)])
    switch.table_add("t", entry(1, Reference(1, is_group=True)))
    places = [101, 102, 102, 102, 103, 103]
    for flow in range(200):
        assert send(switch, 1, flow)[0] == places[zlib.crc32(flow.to_bytes(4, "big")) % 6]
    p.modify_group(1, [GroupMember(2)])
    assert {send(switch, 1, flow)[0] for flow in range(20)} == {102}


def test_an_empty_group_runs_nothing(switch: DataPlane) -> None:
    """An empty group neither crashes nor counts as a miss."""
    switch.profiles["p"].add_group(7, [])
    switch.table_add("t", entry(1, Reference(7, is_group=True)))
    assert send(switch, 1) == (MISSED, 0)


def test_members_leave_their_groups_while_their_port_is_down(switch: DataPlane) -> None:
    """A watch port that goes down takes its members out, until it is up again."""
    p = switch.profiles["p"]
    p.add_member(1, "set_x", [1])
    p.add_member(2, "set_x", [2])
    p.add_group(1, [GroupMember(1, watch_port=4), GroupMember(2)])
    switch.table_add("t", entry(1, Reference(1, is_group=True)))

    def picked() -> set[int]:
        return {send(switch, 1, flow)[0] for flow in range(64)}

    assert p.watched_ports() == {4}
    assert picked() == {1, 2}
    p.set_port_up(4, False)
    assert picked() == {2}
    p.modify_group(1, [GroupMember(1, watch_port=4)])
    assert picked() == {MISSED}
    p.set_port_up(4, True)
    assert picked() == {1}


def test_what_is_referred_to_cannot_be_removed(switch: DataPlane) -> None:
    """Groups hold members, entries hold members and groups; they let go in the end."""
    p = switch.profiles["p"]
    p.add_member(1, "set_x", [1])
    p.add_group(1, [GroupMember(1)])
    switch.table_add("t", entry(1, Reference(1)))
    switch.table_add("t", entry(2, Reference(1, is_group=True)))
    with pytest.raises(InUse):
        p.delete_member(1)
    with pytest.raises(InUse):
        p.delete_group(1)
    switch.table_modify("t", entry(2, Reference(1)))
    p.delete_group(1)
    switch.table_delete("t", (MatchKey(1),), 0)
    with pytest.raises(InUse):
        p.delete_member(1)
    switch.table_delete("t", (MatchKey(2),), 0)
    p.delete_member(1)
    assert p.members() == {}
    assert p.groups() == {}


def test_a_one_shot_is_a_group_without_a_name(switch: DataPlane) -> None:
    """Its members take no ids, and go with it."""
    p = switch.profiles["p"]
    target = p.add_one_shot([("set_x", [1], 1, None), ("set_x", [2], 2, 3)])
    switch.table_add("t", entry(1, target))
    assert p.members() == {}
    assert p.groups() == {}
    places = [1, 2, 2]
    for flow in range(50):
        assert send(switch, 1, flow)[0] == places[zlib.crc32(flow.to_bytes(4, "big")) % 3]
    with pytest.raises(InUse):
        p.delete_one_shot(target)
    switch.table_delete("t", (MatchKey(1),), 0)
    p.delete_one_shot(target)
    with pytest.raises(NotFound):
        switch.table_add("t", entry(1, target))
    with pytest.raises(InvalidArgument):
        p.add_one_shot([("set_x", [1], 1, None), ("set_x", [1 << 16], 1, None)])
    assert send(switch, 1) == (MISSED, 0)


def test_bad_members_groups_and_entries_are_refused(switch: DataPlane) -> None:
    """Each refusal names its kind and changes nothing."""
    p = switch.profiles["p"]
    p.add_member(1, "set_x", [1])
    with pytest.raises(AlreadyExists):
        p.add_member(1, "set_x", [2])
    with pytest.raises(NotFound):
        p.modify_member(2, "set_x", [2])
    with pytest.raises(InvalidArgument, match="does not allow"):
        p.add_member(2, "drop", [])
    with pytest.raises(InvalidArgument, match="16 bits"):
        p.modify_member(1, "set_x", [1 << 16])
    with pytest.raises(NotFound):
        p.add_group(1, [GroupMember(2)])
    with pytest.raises(InvalidArgument, match="twice"):
        p.add_group(1, [GroupMember(1), GroupMember(1)])
    with pytest.raises(InvalidArgument, match="weights"):
        p.add_group(1, [GroupMember(1, weight=0)])
    with pytest.raises(ResourceExhausted):
        p.add_group(1, [GroupMember(1, weight=1 << 17)])
    with pytest.raises(InvalidArgument, match="target"):
        switch.table_add("t", TableEntry((MatchKey(1),), 0, "set_x", (1,)))
    for member in range(2, 9):
        p.add_member(member, "set_x", [member])
    with pytest.raises(ResourceExhausted):
        p.add_member(9, "set_x", [9])
    assert p.groups() == {}
    assert p.members()[1].params == (1,)


def test_handles_survive_many_members(switch: DataPlane) -> None:
    """Members and groups are written while room grows and handles are used again."""
    p = switch.profiles["p"]
    for turn in range(100):
        p.add_member(1, "set_x", [turn])
        targets = [p.add_one_shot([("set_x", [i], 1, None)]) for i in range(turn)]
        switch.table_add("t", entry(1, Reference(1)))
        assert send(switch, 1)[0] == turn
        switch.table_modify("t", entry(1, targets[-1] if targets else Reference(1)))
        assert send(switch, 1)[0] == max(turn - 1, 0)
        switch.table_delete("t", (MatchKey(1),), 0)
        p.delete_member(1)
        for target in targets:
            p.delete_one_shot(target)


def test_a_miss_runs_the_default_action() -> None:
    """A default action is not a member, but runs like one."""
    with DataPlane.load(program(default=True)) as switch:
        assert send(switch, 1)[0] == 77
        switch.table_set_default("t", "set_x", [78])
        assert send(switch, 1)[0] == 78
        switch.table_reset_default("t")
        assert send(switch, 1)[0] == 77
        assert switch.profiles["p"].members() == {}
