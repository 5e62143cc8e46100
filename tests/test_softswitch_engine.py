"""A packet's way through the switch, with programs compiled by p4c (tests/p4)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from softswitch.dataplane import CloneSession, DataPlane, MatchKey, TableEntry
from softswitch.errors import InvalidArgument, NotFound
from tests.softswitch_json import ProgramBuilder, assign, call, const, field

pytestmark = pytest.mark.compiler

PROGRAMS = Path(__file__).parent / "p4"
NORMAL, CLONE_I2E, CLONE_E2E, RECIRCULATED, REPLICATED, RESUBMITTED = 0, 1, 2, 4, 5, 6
PAYLOAD = bytes(range(40))


def load(name: str) -> DataPlane:
    """Start a program of tests/p4."""
    return DataPlane.load((PROGRAMS / f"softswitch_{name}.json").read_bytes())


# Replication


class Trace(NamedTuple):
    """What softswitch_replication.p4 writes into a packet in egress."""

    op: int
    count: int
    argument: int
    instance_type: int
    rid: int
    kept: int
    lost: int
    length: int
    port: int
    ingress_port: int


def command(op: int, count: int = 0, argument: int = 0) -> bytes:
    """A packet for softswitch_replication.p4."""
    return struct.pack(">BBH", op, count, argument) + PAYLOAD


def traces(packets: list[tuple[int, bytes]]) -> list[tuple[int, Trace]]:
    """Decode packets and check that their payload is untouched."""
    result = []
    for port, data in packets:
        assert data[17:] == PAYLOAD
        result.append((port, Trace(*struct.unpack(">BBHBHHHHHH", data[:17]))))
    return result


@pytest.fixture(name="replication")
def replication_switch() -> Iterator[DataPlane]:
    """softswitch_replication.p4 with groups 9 and 10 and clone sessions 3 and 0."""
    with load("replication") as switch:
        switch.mcast_group_set(9, [(4, 1), (5, 2), (4, 3)])
        switch.mcast_group_set(10, [])
        switch.clone_session_set(3, [(6, 0), (7, 8)])
        switch.clone_session_set(0, [(6, 0)], packet_length=20)
        yield switch


def test_unicast_goes_to_egress_spec(replication: DataPlane) -> None:
    """The packet leaves once, with its ports and length in metadata."""
    [(port, trace)] = traces(replication.inject(2, command(0, argument=77)))
    assert (port, trace.port, trace.ingress_port) == (77, 77, 2)
    assert (trace.instance_type, trace.lost, trace.length) == (NORMAL, 1, 44)


@pytest.mark.parametrize(("op", "reason"), [(1, "ingress_drop"), (8, "egress_drop")])
def test_drop_is_counted(replication: DataPlane, op: int, reason: str) -> None:
    """mark_to_drop works in both pipelines and has a counter for each."""
    assert replication.inject(0, command(op)) == []
    assert replication.drop_stats()[reason] == 1


def test_multicast_makes_a_copy_per_replica(replication: DataPlane) -> None:
    """Each replica has its port and instance; metadata of ingress is kept."""
    found = traces(replication.inject(0, command(2, argument=9)))
    assert [(port, t.rid) for port, t in found] == [(4, 1), (5, 2), (4, 3)]
    assert {(t.instance_type, t.lost) for _, t in found} == {(REPLICATED, 1)}


def test_drop_and_multicast_in_either_order(replication: DataPlane) -> None:
    """A drop after the group was set clears it; a group set after a drop wins."""
    assert replication.inject(0, command(9, argument=9)) == []
    assert len(replication.inject(0, command(10, argument=9))) == 3


def test_empty_and_unknown_groups_send_nothing(replication: DataPlane) -> None:
    """No replica, no packet; an unknown group is counted."""
    assert replication.inject(0, command(2, argument=10)) == []
    assert replication.inject(0, command(2, argument=11)) == []
    assert replication.drop_stats()["empty_group"] == 1


@pytest.mark.parametrize("op", [3, 11])
def test_ingress_clone_has_the_packet_as_it_came(replication: DataPlane, op: int) -> None:
    """Clones see the original bytes, the preserved field, and zero in every other one."""
    found = traces(replication.inject(3, command(op, argument=3)))
    clones = [(p, t) for p, t in found if t.instance_type == CLONE_I2E]
    assert [(port, t.rid) for port, t in clones] == [(6, 0), (7, 8)]
    for _, trace in clones:
        assert (trace.count, trace.kept, trace.lost) == (0, 0xABCD, 0)
        assert (trace.length, trace.ingress_port) == (44, 0)
    originals = [(p, t.count) for p, t in found if t.instance_type == NORMAL]
    assert originals == ([(1, 0xFF)] if op == 3 else [])


def test_clone_session_truncates(replication: DataPlane) -> None:
    """packet_length of a session limits its clones, not the original; session 0 is one."""
    packets = replication.inject(0, command(3, argument=0))
    assert sorted((port, len(data)) for port, data in packets) == [(1, 57), (6, 20)]


def test_unknown_clone_session_is_counted(replication: DataPlane) -> None:
    """The original goes on."""
    assert [p for p, _ in replication.inject(0, command(3, argument=99))] == [1]
    assert replication.drop_stats()["no_session"] == 1


def test_egress_clone_has_the_packet_as_it_left_egress(replication: DataPlane) -> None:
    """Headers keep their changes; metadata is reset but for the preserved field."""
    found = traces(replication.inject(5, command(4, argument=3)))
    assert [(port, t.instance_type, t.kept) for port, t in found] == [
        (1, NORMAL, 0),
        (6, CLONE_E2E, 0x1234),
        (7, CLONE_E2E, 0x1234),
    ]
    clone = found[1][1]
    assert (clone.count, clone.lost, clone.ingress_port, clone.length) == (7, 0, 0, 57)


def test_recirculate_starts_over_with_the_preserved_field(replication: DataPlane) -> None:
    """Each pass sees the deparsed packet; only the field list survives."""
    [(port, trace)] = traces(replication.inject(4, command(5, count=3)))
    assert (port, trace.count, trace.kept, trace.lost) == (1, 0, 3, 1)
    assert (trace.length, trace.ingress_port) == (57, 0)


def test_resubmit_starts_over_with_the_original_packet(replication: DataPlane) -> None:
    """Changes to headers are undone; the preserved field counts the passes."""
    [(_, trace)] = traces(replication.inject(4, command(6, count=5, argument=2)))
    assert (trace.kept, trace.argument, trace.lost, trace.length) == (5, 2, 1, 44)


def test_truncate_cuts_what_leaves(replication: DataPlane) -> None:
    """The length counts from the first byte of the deparsed packet."""
    [(_, data)] = replication.inject(0, command(7, argument=10))
    assert len(data) == 10
    [(_, data)] = replication.inject(0, command(7, argument=1000))
    assert len(data) == 57


def test_replication_objects_can_be_read_and_removed(replication: DataPlane) -> None:
    """Groups and sessions are what was set; unknown ones are NotFound."""
    assert replication.mcast_groups()[9] == ((4, 1), (5, 2), (4, 3))
    assert replication.clone_sessions()[0] == CloneSession(((6, 0),), 0, 20)
    replication.mcast_group_delete(9)
    replication.clone_session_delete(0)
    assert replication.inject(0, command(2, argument=9)) == []
    with pytest.raises(NotFound):
        replication.mcast_group_delete(9)
    with pytest.raises(NotFound):
        replication.clone_session_delete(0)
    with pytest.raises(InvalidArgument, match="1 to 65535"):
        replication.mcast_group_set(0, [(1, 1)])


@pytest.mark.parametrize("pipeline", ["resubmit", "recirculate", "clone_egress_pkt_to_egress"])
def test_an_endless_loop_ends(pipeline: str) -> None:
    """A packet that always starts over, or always clones itself, is cut off and counted."""
    b = ProgramBuilder()
    b.field_lists.append({"id": 1, "name": "none", "elements": []})
    arguments = [const(0), const(1)] if pipeline.startswith("clone") else [const(1)]
    where = "ingress" if pipeline == "resubmit" else "egress"
    b.run("again", [call(pipeline, *arguments)], pipeline=where)
    with DataPlane.load(b.json()) as switch:
        switch.clone_session_set(0, [(1, 0)])
        switch.inject(0, PAYLOAD)
        assert switch.drop_stats()["loop_limit"] == 1
        assert switch.inject(0, PAYLOAD) is not None


def test_a_loop_that_multiplies_leaves_buffers_for_new_packets() -> None:
    """Packets that become two in each pass are cut off before they have all buffers."""
    b = ProgramBuilder()
    b.field_lists.append({"id": 1, "name": "none", "elements": []})
    b.run("group", [assign(field("standard_metadata", "mcast_grp"), const(1))])
    b.run("again", [call("recirculate", const(1))], pipeline="egress")
    with DataPlane.load(b.json()) as switch:
        switch.mcast_group_set(1, [(0, 0), (0, 1)])
        switch.inject(0, PAYLOAD)
        drops = switch.drop_stats()
    assert drops["loop_limit"] > 0
    assert drops["no_buffer"] == 0


# Router


def router() -> DataPlane:
    """softswitch_router.p4 with one route and one neighbour."""
    switch = load("router")
    route = (MatchKey(0x0A000100, prefix_len=24),)
    switch.table_add(
        "RouterIngress.routes",
        TableEntry(route, 0, "RouterIngress.route", (0x0A0001FE, 3)),
    )
    switch.table_add(
        "RouterIngress.neighbours",
        TableEntry((MatchKey(0x0A0001FE),), 0, "RouterIngress.rewrite", (0x020000000001,)),
    )
    return switch


def datagram(**fields: int) -> Ether:
    """A UDP packet for the route."""
    ip = IP(src="192.0.2.1", dst="10.0.1.7", ttl=64, **fields)
    return Ether(dst="02:00:00:00:00:aa") / ip / UDP(sport=1000, dport=2000) / Raw(b"odd data!")


def test_router_forwards_with_good_checksums() -> None:
    """TTL and addresses change; both checksums are those that Scapy computes."""
    with router() as switch:
        [(port, data)] = switch.inject(0, bytes(datagram()))
        expected = datagram()
        expected[IP].ttl = 63
        expected[Ether].dst, expected[Ether].src = "02:00:00:00:00:01", "02:00:00:00:00:ff"
        assert (port, data) == (3, bytes(expected))
        key = (MatchKey(0x0A000100, prefix_len=24),)
        assert switch.direct_counter_read("RouterIngress.routes", key, 0) == (1, len(data))


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (bytes(Ether(type=0x88B5) / Raw(b"x")), 0),
        (bytes(datagram(chksum=1)), 1),
        (bytes(datagram())[:30], 0),
        (bytes(datagram(options=[])).replace(b"\x45", b"\x46", 1), 1),
    ],
)
def test_router_counts_why_it_drops(packet: bytes, reason: int) -> None:
    """Each reason has its own counter; a truncated header is not valid."""
    with router() as switch:
        assert switch.inject(0, packet) == []
        counts = switch.counters_read("RouterIngress.reasons", 0, 4)
        assert [n for n, _ in counts] == [int(i == reason) for i in range(4)]
        assert counts[reason][1] == len(packet)


def test_router_filter_is_ternary_and_range() -> None:
    """Only the packets within mask and range are dropped."""
    with router() as switch:
        key = (MatchKey(0xC0000200, mask=0xFFFFFF00), MatchKey(1990, high=2005), MatchKey(1))
        switch.table_add("RouterIngress.filter", TableEntry(key, 5, "RouterIngress.drop", ()))
        assert switch.inject(0, bytes(datagram())) == []
        other = datagram()
        other[UDP].dport = 2006
        assert len(switch.inject(0, bytes(other))) == 1


# Headers


def headers(kind: int, body: bytes, op: int = 0, index: int = 0) -> tuple[int, bytes]:
    """Run a packet through softswitch_headers.p4; return its port and what follows the command."""
    with load("headers") as switch:
        [(port, data)] = switch.inject(0, bytes([kind, op, index]) + body)
    return port, data[2:]


def labels(*values: int, bottom: bool = True) -> bytes:
    """A stack of labels."""
    last = len(values) - 1
    words = [v << 12 | int(bottom and i == last) << 8 | 9 for i, v in enumerate(values)]
    return struct.pack(f">{len(values)}I", *words)


def test_stack_is_parsed_pushed_and_popped() -> None:
    """Operations shift the whole stack; the payload stays."""
    assert headers(1, labels(1, 2) + b"rest") == (2, b"\0" + labels(1, 2) + b"rest")
    pushed = struct.pack(">I", 0x77 << 12) + labels(1, 2)
    assert headers(1, labels(1, 2) + b"rest", op=1) == (2, b"\0" + pushed + b"rest")
    assert headers(1, labels(1, 2, 3) + b"rest", op=2) == (2, b"\0" + labels(2, 3) + b"rest")
    assert headers(1, labels(1, 2, 3, 4), op=1)[1] == b"\0" + struct.pack(
        ">I", 0x77 << 12
    ) + labels(1, 2, 3, bottom=False)


def test_stack_index_at_run_time() -> None:
    """An index selects a header; one out of range touches nothing."""
    expected = bytearray(labels(1, 2, 3))
    expected[7] = 0xEE
    assert headers(1, labels(1, 2, 3), op=3, index=1) == (2, b"\x01" + bytes(expected))
    assert headers(1, labels(1, 2, 3), op=3, index=200) == (2, b"\xc8" + labels(1, 2, 3))


def test_stack_overflow_is_a_parser_error() -> None:
    """The fifth label does not fit: what was parsed stays valid."""
    body = labels(1, 2, 3, 4, 5)
    assert headers(1, body) == (4, b"\0" + body)


def test_too_short_packet_is_a_parser_error() -> None:
    """A header that is cut off is left in the payload."""
    body = labels(1, 2, bottom=False) + b"\1\2"
    assert headers(1, body) == (5, b"\0" + body)


@pytest.mark.parametrize("size", [0, 1, 7, 31, 32])
def test_varbit_keeps_its_length(size: int) -> None:
    """The fields around a varbit field move with it."""
    data = bytes(range(100, 100 + size))
    port, output = headers(2, bytes([size]) + data + b"\x10tail")
    assert (port, output) == (2, b"\0" + bytes([size]) + data + b"\x11tail")


def test_varbit_beyond_its_maximum_is_a_parser_error() -> None:
    """33 bytes do not fit varbit<256>."""
    body = bytes([33]) + bytes(60)
    assert headers(2, body) == (6, b"\0" + body)


def test_union_has_one_valid_member() -> None:
    """Making a member valid makes the other one invalid."""
    assert headers(3, b"\x01\x05end") == (2, b"\0\x02\xca\xfe\0\0end")
    assert headers(3, b"\x02\0\0\0\x05end") == (2, b"\0\x01\x09end")


def test_fields_of_256_bits_are_copied_cut_and_compared() -> None:
    """Wide fields move as bytes."""
    a, b = bytes(range(32)), bytes(range(50, 82))
    assert headers(4, a + b, op=1) == (2, b"\0" + b + b)
    constant = bytes.fromhex("0123456789abcdef" * 4)
    assert headers(4, a + b, op=2) == (2, b"\0" + constant + b)
    assert headers(4, a + b, op=3) == (2, bytes([b[1]]) + a + b)
    assert headers(4, a + b) == (2, b"\0" + a + b)
    assert headers(4, a + a) == (2, b"\xee" + a + a)


# Externs


def extern(
    switch: DataPlane, op: int, index: int = 0, value: int = 0
) -> tuple[int, int, int] | None:
    """Run a command of softswitch_externs.p4; return its op, value and result."""
    packet = struct.pack(">BI", op, index) + value.to_bytes(12, "big") + bytes(8)
    output = switch.inject(0, packet)
    if not output:
        return None
    data = output[0][1]
    return data[0], int.from_bytes(data[5:17], "big"), int.from_bytes(data[17:], "big")


@pytest.fixture(name="externs")
def externs_switch() -> Iterator[DataPlane]:
    """softswitch_externs.p4."""
    with load("externs") as switch:
        yield switch


def test_registers_hold_their_width(externs: DataPlane) -> None:
    """Sums wrap at the width of the cell; the control plane sees the same cells."""
    big = 2**96 - 3
    assert extern(externs, 1, 7, big) == (255, 0, 0)
    assert extern(externs, 1, 7, 5) == (255, big, 0)
    assert externs.register_read("ExternsIngress.wide", 6, 3) == [0, 2, 0]
    assert extern(externs, 2, 3, 30) == (255, 0, 0)
    assert extern(externs, 2, 3, 5) == (255, 30, 0)
    assert externs.register_read("ExternsIngress.narrow", 3, 1) == [3]
    externs.register_write("ExternsIngress.wide", 15, 2**95)
    assert extern(externs, 1, 15, 0) == (255, 2**95, 0)


def test_registers_are_not_touched_out_of_range(externs: DataPlane) -> None:
    """An index beyond the array reads nothing and writes nothing."""
    assert extern(externs, 1, 16, 5) == (255, 0, 0)
    assert externs.register_read("ExternsIngress.wide", 0, 16) == [0] * 16
    with pytest.raises(InvalidArgument, match="16 cells"):
        externs.register_read("ExternsIngress.wide", 10, 7)
    with pytest.raises(InvalidArgument, match="does not fit 5 bits"):
        externs.register_write("ExternsIngress.narrow", 0, 32)
    with pytest.raises(NotFound):
        externs.register_read("nothing", 0, 1)


def crc16_arc(data: bytes) -> int:
    """CRC-16/ARC, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def test_hashes_agree_with_independent_ones(externs: DataPlane) -> None:
    """CRC-32 is zlib's; CRC-16 is reduced into the given range."""
    data = struct.pack(">I", 0x01020304) + (123456789).to_bytes(12, "big")
    assert extern(externs, 3, 0x01020304, 123456789) == (255, 123456789, zlib.crc32(data))
    expected = crc16_arc(data) % 1000 + 10
    assert extern(externs, 4, 0x01020304, 123456789) == (255, 123456789, expected)


def test_random_numbers_fill_their_range(externs: DataPlane) -> None:
    """Both ends of the range occur and nothing beyond."""
    results = {extern(externs, 5) for _ in range(400)}
    assert results == {(255, 0, n) for n in range(100, 110)}


def test_log_messages_are_kept(externs: DataPlane) -> None:
    """The values are filled in; each message is read once."""
    extern(externs, 6, 5, 2**90)
    assert externs.log_messages() == [f"index 5 value {2**90}"]
    assert externs.log_messages() == []


def test_a_failed_assertion_drops_the_packet(externs: DataPlane) -> None:
    """The packet goes nowhere and is counted."""
    assert extern(externs, 7, 7) == (255, 0, 0)
    assert extern(externs, 7, 8) is None
    assert externs.drop_stats()["assertion"] == 1


def test_exit_ends_ingress(externs: DataPlane) -> None:
    """What follows in the control is not run."""
    assert extern(externs, 9) == (9, 0, 0)


def test_timestamp_counts_microseconds_since_the_start(externs: DataPlane) -> None:
    """Later packets have later times."""
    first, second = extern(externs, 8), extern(externs, 8)
    assert first is not None
    assert second is not None
    assert 0 < first[2] <= second[2] < 2**48
