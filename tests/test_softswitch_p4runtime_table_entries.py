"""Table entries: read-write symmetry, the rules of each match kind, defaults, constants, counts."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r, rpc_code
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.p4runtime import values
from tests.p4rt_support import (
    IDS,
    Client,
    action,
    delete,
    exact,
    insert,
    l2_entry,
    modify,
    refused,
)

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

Match = p4r.FieldMatch


def lpm(value: bytes, prefix_len: int) -> p4r.FieldMatch:
    """Return a longest-prefix match of the routes table."""
    return Match(field_id=1, lpm=Match.LPM(value=value, prefix_len=prefix_len))


def ternary(value: bytes, mask: bytes) -> p4r.FieldMatch:
    """Return the ternary match of the acl table."""
    return Match(field_id=2, ternary=Match.Ternary(value=value, mask=mask))


def between(low: bytes, high: bytes) -> p4r.FieldMatch:
    """Return the range match of the acl table."""
    return Match(field_id=3, range=Match.Range(low=low, high=high))


def optional(value: bytes) -> p4r.FieldMatch:
    """Return the optional match of the acl table."""
    return Match(field_id=4, optional=Match.Optional(value=value))


def route(*match: p4r.FieldMatch, **changes: Any) -> p4r.TableEntry:
    """Return an entry of the routes table."""
    fields = {"match": match, "action": action("route", b"\x0a\x0b", b"\x03"), **changes}
    return p4r.TableEntry(table_id=IDS["routes"], **fields)


def rule(*match: p4r.FieldMatch, **changes: Any) -> p4r.TableEntry:
    """Return an entry of the acl table for port 1."""
    fields = {
        "match": (exact(1, b"\x01"), *match),
        "priority": 10,
        "action": action("set_class", b"\x07"),
        **changes,
    }
    return p4r.TableEntry(table_id=IDS["acl"], **fields)


def query(name: str, **fields: Any) -> p4r.Entity:
    """Return a query of one table by alias."""
    return p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS[name], **fields))


def read(client: Client, name: str, **fields: Any) -> list[p4r.TableEntry]:
    """Read entries of one table by alias."""
    return [entity.table_entry for entity in client.read(query(name, **fields))]


SAMPLES = [
    l2_entry(b"\x01\x02\x03\x04\x05\x06"),
    l2_entry(b"\x00", action=action("flood", b"\x01\x00")),
    l2_entry(b"\x09", metadata=b"m\x00", controller_metadata=2**63),
    route(lpm(b"\x0a\x00\x00\x00", 8)),
    route(lpm(b"\x0a\x00\x00\x01", 32)),
    route(lpm(b"\x00", 1)),
    route(action=action("drop")),
    rule(),
    rule(ternary(b"\x00", b"\xff"), priority=11),
    rule(between(b"\x00", b"\x05\xff"), action=action("mirror")),
    rule(optional(b"\x00")),
    rule(ternary(b"\x0f", b"\xff\x00\x0f"), between(b"\x08\x00", b"\xff\xff"), optional(b"\x01")),
    rule(priority=2**31 - 1),
]


def test_what_is_written_is_read(primary: Client) -> None:
    """Every kind of entry comes back exactly as it was written."""
    primary.write(*(insert(table_entry=entry) for entry in SAMPLES))
    for name in ("l2", "routes", "acl"):
        expected = [entry for entry in SAMPLES if entry.table_id == IDS[name]]
        assert read(primary, name) == expected
    everything = primary.read(p4r.Entity(table_entry=p4r.TableEntry()))
    assert len(everything) == len(SAMPLES) + 2  # and the two constant entries
    primary.write(*(delete(table_entry=entry) for entry in SAMPLES))
    assert len(primary.read(p4r.Entity(table_entry=p4r.TableEntry()))) == 2


@settings(
    derandomize=True,
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_random_rules_round_trip(primary: Client, data: st.DataObject) -> None:
    """Any legal rule is read back as written, in spite of redundant zeros on the way in."""
    mask = data.draw(st.integers(0, 2**48 - 1))
    value = data.draw(st.integers(0, 2**48 - 1)) & mask
    low = data.draw(st.integers(0, 2**16 - 1))
    high = data.draw(st.integers(low, 2**16 - 1))
    wanted = data.draw(st.one_of(st.none(), st.integers(0, 2**48 - 1)))
    zeros = bytes(data.draw(st.integers(0, 2)))

    def matches(zeros: bytes) -> list[p4r.FieldMatch]:
        found = []
        if mask:
            found.append(ternary(zeros + values.encode(value), zeros + values.encode(mask)))
        if (low, high) != (0, 2**16 - 1):
            found.append(between(zeros + values.encode(low), zeros + values.encode(high)))
        if wanted is not None:
            found.append(optional(zeros + values.encode(wanted)))
        return found

    given_rule, canonical = rule(*matches(zeros)), rule(*matches(b""))
    primary.write(insert(table_entry=given_rule))
    assert read(primary, "acl") == [canonical]
    assert read(primary, "acl", match=given_rule.match, priority=10) == [canonical]
    primary.write(delete(table_entry=canonical))
    assert read(primary, "acl") == []


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        (l2_entry(b""), "OUT_OF_RANGE", "empty"),
        (l2_entry(b"\x01" + bytes(6)), "OUT_OF_RANGE", "48 bits"),
        (l2_entry(b"\x01", match=[]), "INVALID_ARGUMENT", "hdr.ethernet.dst"),
        (l2_entry(b"\x01", match=[exact(9, b"\x01")]), "INVALID_ARGUMENT", "no key field has id 9"),
        (l2_entry(b"\x01", match=[exact(1, b"\x01")] * 2), "INVALID_ARGUMENT", "twice"),
        (l2_entry(b"\x01", match=[lpm(b"\x01", 48)]), "INVALID_ARGUMENT", "given as lpm"),
        (l2_entry(b"\x01", match=[Match(field_id=1)]), "INVALID_ARGUMENT", "given as nothing"),
        (l2_entry(b"\x01", priority=1), "INVALID_ARGUMENT", "must be 0"),
        (l2_entry(b"\x01", action=None), "INVALID_ARGUMENT", "needs an action"),
        (l2_entry(b"\x01", action=p4r.TableAction()), "INVALID_ARGUMENT", "given as nothing"),
        (
            l2_entry(b"\x01", action=p4r.TableAction(action_profile_member_id=1)),
            "INVALID_ARGUMENT",
            "action_profile_member_id",
        ),
        (l2_entry(b"\x01", action=action("mirror")), "INVALID_ARGUMENT", "no action has id"),
        (l2_entry(b"\x01", action=action("drop")), "PERMISSION_DENIED", "not allowed in entries"),
        (l2_entry(b"\x01", action=action("forward")), "INVALID_ARGUMENT", "given: port"),
        (l2_entry(b"\x01", b"\x02\x00"), "OUT_OF_RANGE", "9 bits"),
        (
            l2_entry(b"\x01", action=action("forward", b"\x01", b"\x01")),
            "INVALID_ARGUMENT",
            "no parameter has id 2",
        ),
        (l2_entry(b"\x01", is_const=True), "INVALID_ARGUMENT", "is_const"),
        (l2_entry(b"\x01", idle_timeout_ns=1), "INVALID_ARGUMENT", "no idle timeout"),
        (l2_entry(b"\x01", meter_config=p4r.MeterConfig()), "INVALID_ARGUMENT", "no direct meter"),
        (
            l2_entry(b"\x01", counter_data=p4r.CounterData(packet_count=-1)),
            "INVALID_ARGUMENT",
            "negative",
        ),
        (route(counter_data=p4r.CounterData()), "INVALID_ARGUMENT", "no direct counter"),
        (
            route(time_since_last_hit=p4r.TableEntry.IdleTimeout()),
            "INVALID_ARGUMENT",
            "time_since_last_hit",
        ),
        (route(lpm(b"\x00", 0)), "INVALID_ARGUMENT", "1 to 32"),
        (route(lpm(b"\x00", 33)), "INVALID_ARGUMENT", "1 to 32"),
        (route(lpm(b"\x00", -1)), "INVALID_ARGUMENT", "1 to 32"),
        (route(lpm(b"\x0a\x00\x00\x01", 24)), "INVALID_ARGUMENT", "beyond its prefix"),
        (rule(priority=0), "INVALID_ARGUMENT", "priority of 1 or more"),
        (rule(priority=-5), "INVALID_ARGUMENT", "priority of 1 or more"),
        (rule(ternary(b"\x00", b"\x00")), "INVALID_ARGUMENT", "mask is zero"),
        (rule(ternary(b"\x03", b"\x01")), "INVALID_ARGUMENT", "outside its mask"),
        (rule(ternary(b"\x01", b"")), "OUT_OF_RANGE", "mask of"),
        (rule(between(b"\x02", b"\x01")), "INVALID_ARGUMENT", "above the high end"),
        (rule(between(b"\x00", b"\xff\xff")), "INVALID_ARGUMENT", "every value"),
        (rule(optional(b"")), "OUT_OF_RANGE", "empty"),
        (
            p4r.TableEntry(table_id=IDS["stamp"], action=action("NoAction")),
            "INVALID_ARGUMENT",
            "no key",
        ),
        (
            p4r.TableEntry(table_id=IDS["types"], action=action("NoAction"), priority=3),
            "PERMISSION_DENIED",
            "constant",
        ),
        (
            l2_entry(b"\x01", match=[], is_default_action=True),
            "INVALID_ARGUMENT",
            "only be modified",
        ),
    ],
)
def test_bad_entries_are_refused(
    primary: Client, entry: p4r.TableEntry, code: str, words: str
) -> None:
    """Each rule of the specification, with a message that says what is allowed."""
    error = refused(primary, insert(table_entry=entry))
    assert rpc_code.Code.Name(error.canonical_code) == code
    assert words in error.message


def test_existing_and_absent_entries(primary: Client) -> None:
    """INSERT of what is there, MODIFY and DELETE of what is not."""
    primary.write(insert(table_entry=SAMPLES[0]))
    assert refused(primary, insert(table_entry=SAMPLES[0])).canonical_code == (
        rpc_code.ALREADY_EXISTS
    )
    for update in (modify(table_entry=SAMPLES[1]), delete(table_entry=SAMPLES[1])):
        assert refused(primary, update).canonical_code == rpc_code.NOT_FOUND


def test_full_table(primary: Client) -> None:
    """A table takes at least its size, and says when it is full."""
    rules = [rule(priority=number) for number in range(1, 258)]
    primary.write(*(insert(table_entry=entry) for entry in rules[:256]))
    error = refused(primary, insert(table_entry=rules[256]))
    assert error.canonical_code == rpc_code.RESOURCE_EXHAUSTED
    assert len(read(primary, "acl")) == 256


def test_modify(primary: Client) -> None:
    """MODIFY replaces action and metadata; without an action the entry stays as it is."""
    primary.write(insert(table_entry=l2_entry(b"\x01", metadata=b"old")))
    changed = l2_entry(b"\x01", b"\x09", metadata=b"new")
    primary.write(modify(table_entry=changed))
    assert read(primary, "l2") == [changed]
    primary.write(modify(table_entry=l2_entry(b"\x01", action=None)))
    assert read(primary, "l2") == [changed]


def test_delete_looks_at_the_key_only(primary: Client) -> None:
    """Nonsense beside the key does not matter."""
    primary.write(insert(table_entry=rule()))
    primary.write(
        delete(
            table_entry=rule(
                action=p4r.TableAction(action=p4r.Action(action_id=1)),
                idle_timeout_ns=-1,
                counter_data=p4r.CounterData(byte_count=-1),
            )
        )
    )
    assert read(primary, "acl") == []


def test_read_filters(primary: Client) -> None:
    """Entries are selected by key, action, priority and metadata."""
    rules = [
        rule(priority=1, metadata=b"a"),
        rule(priority=2, action=action("mirror"), controller_metadata=5),
        rule(optional(b"\x01"), priority=2),
    ]
    primary.write(*(insert(table_entry=entry) for entry in rules))
    assert read(primary, "acl", priority=2) == rules[1:]
    assert read(primary, "acl", match=rules[0].match) == rules[:2]
    assert read(primary, "acl", match=rules[0].match, priority=2) == [rules[1]]
    assert read(primary, "acl", match=rules[0].match, priority=3) == []
    assert read(primary, "acl", metadata=b"a") == [rules[0]]
    assert read(primary, "acl", controller_metadata=5) == [rules[1]]
    mirrors = p4r.TableAction(action=p4r.Action(action_id=IDS["mirror"]))
    assert read(primary, "acl", action=mirrors) == [rules[1]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"table_id": 0, "priority": 1}, "no other filter"),
        ({"table_id": 0, "is_default_action": True}, "no other filter"),
        ({"action": p4r.TableAction(action_profile_group_id=1)}, "by action_id only"),
        ({"action": action("route")}, "no action has id"),
        ({"match": [exact(1, b"")]}, "empty"),
        ({"is_default_action": True, "priority": 1}, "no priority"),
        ({"time_since_last_hit": p4r.TableEntry.IdleTimeout()}, "no idle timeout"),
    ],
)
def test_bad_queries_are_refused(primary: Client, fields: dict[str, Any], words: str) -> None:
    """A query that cannot be answered is an error, not an empty answer."""
    with pytest.raises(Exception, match=words):
        primary.read(p4r.Entity(table_entry=p4r.TableEntry(**{"table_id": IDS["acl"], **fields})))


def test_default_entry(primary: Client) -> None:
    """The default entry is read, modified, and reset to what the program says."""
    (original,) = read(primary, "l2", is_default_action=True)
    assert original.action.action.action_id == IDS["drop"]
    changed = p4r.TableEntry(
        table_id=IDS["l2"],
        is_default_action=True,
        action=action("forward", b"\x05"),
        metadata=b"default",
        controller_metadata=1,
    )
    primary.write(modify(table_entry=changed))
    assert read(primary, "l2", is_default_action=True) == [changed]
    assert read(primary, "l2") == []
    reset = p4r.TableEntry(table_id=IDS["l2"], is_default_action=True)
    primary.write(modify(table_entry=reset))
    assert read(primary, "l2", is_default_action=True) == [original]


@pytest.mark.parametrize(
    ("name", "fields", "code", "words"),
    [
        ("acl", {"action": action("drop")}, "PERMISSION_DENIED", "constant"),
        ("routes", {"action": action("drop")}, "PERMISSION_DENIED", "not allowed as default"),
        ("routes", {"action": action("forward", b"\1")}, "INVALID_ARGUMENT", "no action has id"),
        ("l2", {"match": [exact(1, b"\x01")]}, "INVALID_ARGUMENT", "no match"),
        ("l2", {"priority": 1}, "INVALID_ARGUMENT", "no priority"),
        ("stamp", {"counter_data": p4r.CounterData()}, "INVALID_ARGUMENT", "direct counter"),
    ],
)
def test_bad_default_entries(
    primary: Client, name: str, fields: dict[str, Any], code: str, words: str
) -> None:
    """Constant defaults, action scopes and keys are respected."""
    entry = p4r.TableEntry(table_id=IDS[name], is_default_action=True, **fields)
    error = refused(primary, modify(table_entry=entry))
    assert rpc_code.Code.Name(error.canonical_code) == code
    assert words in error.message


def test_constant_table(primary: Client) -> None:
    """Constant entries are read with their priorities and cannot be changed."""
    entries = read(primary, "types")
    assert [entry.is_const for entry in entries] == [True, True]
    by_priority = sorted(entries, key=lambda entry: -entry.priority)
    assert by_priority[0].match[0].ternary.value == b"\x08\x00"
    assert by_priority[1].match[0].ternary == Match.Ternary(value=b"\x86\x00", mask=b"\xff\x00")
    assert read(primary, "types", match=entries[0].match, priority=entries[0].priority) == [
        entries[0]
    ]
    entries[0].is_const = False
    for update in (modify(table_entry=entries[0]), delete(table_entry=entries[0])):
        error = refused(primary, update)
        assert error.canonical_code == rpc_code.PERMISSION_DENIED
        assert "constant" in error.message


def test_direct_counters(primary: Client) -> None:
    """Counts are set with an entry or alone, and read with it or alone."""
    counts = p4r.CounterData(packet_count=3, byte_count=300)
    primary.write(insert(table_entry=l2_entry(b"\x01", counter_data=counts)))
    primary.write(insert(table_entry=l2_entry(b"\x02")))
    assert [entry.HasField("counter_data") for entry in read(primary, "l2")] == [False, False]
    with_counts = read(primary, "l2", counter_data=p4r.CounterData())
    assert [entry.counter_data.byte_count for entry in with_counts] == [300, 0]

    key = p4r.TableEntry(table_id=IDS["l2"], match=[exact(1, b"\x02")])
    new = p4r.CounterData(packet_count=2**62, byte_count=1)
    primary.write(modify(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key, data=new)))
    answer = p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key, data=new))
    only_key = p4r.DirectCounterEntry(table_entry=key)
    assert primary.read(p4r.Entity(direct_counter_entry=only_key)) == [answer]
    everywhere = p4r.DirectCounterEntry(table_entry=p4r.TableEntry())
    assert len(primary.read(p4r.Entity(direct_counter_entry=everywhere))) == 2

    primary.write(modify(direct_counter_entry=only_key))
    primary.write(modify(table_entry=l2_entry(b"\x02", b"\x07")))
    assert primary.read(p4r.Entity(direct_counter_entry=only_key)) == [answer]


def test_bad_direct_counters(primary: Client) -> None:
    """Absent entries, tables without counters, and INSERT are refused."""
    absent = p4r.DirectCounterEntry(table_entry=l2_entry(b"\x01"))
    assert refused(primary, modify(direct_counter_entry=absent)).canonical_code == (
        rpc_code.NOT_FOUND
    )
    for update in (
        insert(direct_counter_entry=absent),
        modify(direct_counter_entry=p4r.DirectCounterEntry()),
        modify(direct_counter_entry=p4r.DirectCounterEntry(table_entry=route())),
    ):
        assert refused(primary, update).canonical_code == rpc_code.INVALID_ARGUMENT
    with pytest.raises(Exception, match="no entry has this key"):
        primary.read(p4r.Entity(direct_counter_entry=absent))
