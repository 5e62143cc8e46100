"""Meters, value sets, digests, ages and counters of the data plane, at times that tests choose."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.dataplane import DataPlane, MatchKey, TableEntry
from softswitch.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from softswitch.meters import DEFAULT_ENTRY, GREEN, RED, YELLOW, MeterConfig
from softswitch.program import MatchType
from tests.softswitch_json import ProgramBuilder, assign, const, field

pytestmark = pytest.mark.compiler

FLOW_METER, STATION_METER = "StateIngress.flow_meter", "StateIngress.station_meter"
STATIONS, TYPES = "StateIngress.stations", "StateParser.flow_types"
SECOND = 1_000_000


@pytest.fixture(scope="module")
def loaded() -> Iterator[DataPlane]:
    """One compiled switch; tests use a copy of their own."""
    source = Path("tests/p4/softswitch_state.json").read_bytes()
    with DataPlane.load(source) as switch:
        yield switch


@pytest.fixture
def switch(loaded: DataPlane) -> Iterator[DataPlane]:
    """A fresh switch whose clock stands at 0."""
    with DataPlane(loaded.program, loaded.library) as fresh:
        fresh.set_clock_us(0)
        yield fresh


@dataclass(frozen=True)
class Seen:
    """What the program wrote into the flow header."""

    color: int
    direct_color: int
    parsed_as: int


def send(
    switch: DataPlane, *, src: int = 1, kind: int = 0x1111, route: int = 0, size: int = 23
) -> Seen | None:
    """Send a packet of `size` bytes; None if its flow header was not parsed."""
    packet = bytes(6) + src.to_bytes(6, "big") + kind.to_bytes(2, "big")
    packet += bytes(4) + route.to_bytes(2, "big") + b"\xee\xee\xee"
    [(_, out)] = switch.inject(3, packet.ljust(size, b"\0"))
    return None if out[22] == 0xEE else Seen(out[20], out[21], out[22])


def color(switch: DataPlane, size: int = 23, route: int = 0) -> int:
    """The color that the flow meter gives to a packet."""
    seen = send(switch, size=size, route=route)
    assert seen is not None
    return seen.color


@dataclass
class Marker:
    """RFC 2698 and RFC 2697 in exact arithmetic: the reference."""

    config: MeterConfig

    def __post_init__(self) -> None:
        """Start with full buckets."""
        self.committed = self.config.cburst * SECOND
        self.peak = self.config.pburst * SECOND
        self.at_us = 0

    def mark(self, now_us: int, size: int) -> int:
        """Return the color of `size` tokens at a time."""
        c, us, need = self.config, now_us - self.at_us, size * SECOND
        self.at_us = now_us
        sum_c = self.committed + us * c.cir
        self.committed = min(sum_c, c.cburst * SECOND)
        more = sum_c - self.committed if c.single_rate else us * c.pir
        self.peak = min(self.peak + more, c.pburst * SECOND)
        if c.single_rate:
            if self.committed >= need:
                self.committed -= need
                return GREEN
            if self.peak >= need:
                self.peak -= need
                return YELLOW
            return RED
        if self.peak < need:
            return RED
        self.peak -= need
        if self.committed < need:
            return YELLOW
        self.committed -= need
        return GREEN


def test_a_meter_without_a_configuration_is_green(switch: DataPlane) -> None:
    """Also after its configuration is taken away."""
    meter = switch.meters[FLOW_METER]
    assert [color(switch, 1500) for _ in range(50)] == [GREEN] * 50
    meter.write(0, MeterConfig(0, 0, 0, 0))
    assert color(switch) == RED
    assert color(switch, route=1) == GREEN
    meter.write(0, None)
    assert color(switch) == GREEN
    assert meter.read(0)[0].config is None


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), single_rate=st.booleans())
def test_colors_are_those_of_the_standards(loaded: DataPlane, seed: int, single_rate: bool) -> None:
    """Random rates, times and sizes against RFC 2698 and RFC 2697."""
    rng = random.Random(seed)
    cir, pir = sorted((rng.choice([0, 1, 999, 10**6, 10**9]), rng.randrange(1, 10**7)))
    config = MeterConfig(cir, rng.randrange(4000), pir, rng.randrange(8000), single_rate)
    reference, now_us = Marker(config), 0
    with DataPlane(loaded.program, loaded.library) as switch:
        switch.set_clock_us(0)
        switch.meters[FLOW_METER].write(2, config)
        for _ in range(40):
            now_us += rng.choice([0, 1, 7, 1000, 10**6])
            size = rng.choice([23, 64, 576, 1500])
            switch.set_clock_us(now_us)
            assert color(switch, size, route=2) == reference.mark(now_us, size)


def test_a_meter_counts_by_color(switch: DataPlane) -> None:
    """Packets and bytes per color, until they are cleared; a new configuration keeps them."""
    meter = switch.meters[FLOW_METER]
    meter.write(0, MeterConfig(cir=100, cburst=100, pir=200, pburst=200))
    assert [color(switch, 100) for _ in range(3)] == [GREEN, YELLOW, RED]
    switch.set_clock_us(SECOND)
    assert color(switch, 100) == GREEN
    [state] = meter.read(0)
    assert state.colors == ((2, 200), (1, 100), (1, 100))
    meter.write(0, MeterConfig(1, 1, 1, 1))
    assert meter.read(0)[0].colors == state.colors
    meter.clear(0)
    assert meter.read(0)[0].colors == ((0, 0), (0, 0), (0, 0))


def test_huge_rates_do_not_overflow(switch: DataPlane) -> None:
    """The largest rate and burst, after the longest idle time, still give green."""
    top = 2**63 - 1
    switch.meters[FLOW_METER].write(0, MeterConfig(top, top, top, top))
    switch.set_clock_us(2**62)
    assert color(switch, 1500) == GREEN


def test_bad_meters_are_refused(switch: DataPlane) -> None:
    """Cells out of range, negative numbers, a peak below the committed rate."""
    meter = switch.meters[FLOW_METER]
    for bad in (MeterConfig(-1, 0, 0, 0), MeterConfig(0, 2**63, 0, 0), MeterConfig(5, 1, 4, 1)):
        with pytest.raises(InvalidArgument):
            meter.write(0, bad)
    with pytest.raises(InvalidArgument):
        meter.write(4, None)
    with pytest.raises(InvalidArgument):
        meter.read(2, 3)


def test_a_direct_meter_belongs_to_its_entry(switch: DataPlane) -> None:
    """The color is there before the action runs; a new entry starts green."""
    meter = switch.meters[STATION_METER]
    entry = TableEntry((MatchKey(7),), 0, "StateIngress.known", ())
    switch.table_add(STATIONS, entry)
    index = switch.entry_index(STATIONS, (MatchKey(7),), 0)
    meter.write(index, MeterConfig(cir=1, cburst=1, pir=1, pburst=2))
    colors = [s.direct_color for s in (send(switch, src=7) for _ in range(4)) if s]
    assert colors == [GREEN, YELLOW, RED, RED]
    assert meter.read(index)[0].colors[RED][0] == 2
    switch.table_delete(STATIONS, (MatchKey(7),), 0)
    switch.table_add(STATIONS, entry)
    seen = send(switch, src=7)
    assert seen is not None
    assert seen.direct_color == GREEN
    assert meter.read(index)[0].config is None


def test_a_miss_has_a_meter_only_if_it_is_configured(switch: DataPlane) -> None:
    """As in bmv2, a miss leaves the field alone; but the default entry may have a meter."""
    meter = switch.meters[STATION_METER]
    assert meter.read(DEFAULT_ENTRY)[0].colors == ((0, 0), (0, 0), (0, 0))
    meter.write(DEFAULT_ENTRY, MeterConfig(1, 1, 1, 1))
    colors = [s.direct_color for s in (send(switch) for _ in range(2)) if s]
    assert colors == [GREEN, RED]
    assert meter.read(DEFAULT_ENTRY)[0].colors == ((1, 23), (0, 0), (1, 23))


def test_direct_counters_count_misses_too(switch: DataPlane) -> None:
    """Hits count at their entry, misses at the default entry."""
    key = (MatchKey(7),)
    switch.table_add(STATIONS, TableEntry(key, 0, "StateIngress.known", ()))
    for src in (7, 7, 8, 9, 9):
        send(switch, src=src)
    assert switch.direct_counter_read(STATIONS, key, 0) == (2, 46)
    assert switch.direct_counter_read(STATIONS, None, 0) == (3, 69)
    switch.direct_counter_write(STATIONS, None, 0, 10, 20)
    send(switch, src=8)
    assert switch.direct_counter_read(STATIONS, None, 0) == (11, 43)
    with pytest.raises(NotFound):
        switch.direct_counter_read("StateIngress.hops", None, 0)


def test_entries_know_when_they_were_hit(switch: DataPlane) -> None:
    """Adding counts as a hit; a hit of another entry does not."""
    for src in (1, 2):
        switch.table_add(STATIONS, TableEntry((MatchKey(src),), 0, "StateIngress.known", ()))
    indices = [switch.entry_index(STATIONS, (MatchKey(src),), 0) for src in (1, 2)]
    switch.set_clock_us(5000)
    assert switch.clock_us() == 5000
    send(switch, src=2)
    switch.set_clock_us(9000)
    assert switch.last_hits_us(STATIONS, indices) == [0, 5000]
    switch.table_delete(STATIONS, (MatchKey(1),), 0)
    switch.table_add(STATIONS, TableEntry((MatchKey(1),), 0, "StateIngress.known", ()))
    assert switch.last_hits_us(STATIONS, indices) == [9000, 5000]
    switch.set_clock_us(None)
    assert switch.clock_us() != 9000


def test_a_value_set_chooses_the_next_state(switch: DataPlane) -> None:
    """Members come and go as a whole; an earlier case of the select still wins."""
    types = switch.value_sets[TYPES]
    assert send(switch, kind=0x2222) is None
    types.write([(MatchKey(0x2222),), (MatchKey(0x1111),)])
    for kind, expected in ((0x2222, 2), (0x1111, 1)):
        seen = send(switch, kind=kind)
        assert seen is not None
        assert seen.parsed_as == expected
    assert types.members() == ((MatchKey(0x2222),), (MatchKey(0x1111),))
    types.write([])
    assert send(switch, kind=0x2222) is None


@pytest.mark.parametrize(
    ("kind", "member", "inside", "outside"),
    [
        (MatchType.TERNARY, MatchKey(0x2200, mask=0xFF00), 0x22AB, 0x23AB),
        (MatchType.RANGE, MatchKey(0x2001, high=0x3FFE), 0x3FFE, 0x3FFF),
        (MatchType.LPM, MatchKey(0x4000, prefix_len=3), 0x5FFF, 0x6000),
        (MatchType.OPTIONAL, MatchKey(0, mask=0), 0xABCD, None),
    ],
)
def test_members_match_in_every_way(
    switch: DataPlane, kind: MatchType, member: MatchKey, inside: int, outside: int | None
) -> None:
    """The control plane says how members match: P4Info knows, the JSON does not."""
    switch.value_sets[TYPES].write([(member,)], [kind])
    assert send(switch, kind=inside) is not None
    assert outside is None or send(switch, kind=outside) is None


def test_bad_value_sets_are_refused(switch: DataPlane) -> None:
    """Too many members, a member given twice, a value that does not fit; nothing changes."""
    types = switch.value_sets[TYPES]
    types.write([(MatchKey(0x2222),)])
    with pytest.raises(ResourceExhausted):
        types.write([(MatchKey(i),) for i in range(5)])
    with pytest.raises(AlreadyExists):
        types.write([(MatchKey(1),), (MatchKey(1),)])
    with pytest.raises(InvalidArgument):
        types.write([(MatchKey(1 << 16),)])
    assert send(switch, kind=0x2222) is not None


def test_a_digest_is_sent_once_until_it_is_forgotten(switch: DataPlane) -> None:
    """Nothing is sent before the digest is enabled, and no message twice."""
    digests = switch.digests
    send(switch)
    assert digests.take() == []
    digests.enable("station_t", True)
    for src in (5, 6, 5, 5):
        send(switch, src=src)
    digests.wait(0)
    assert digests.take() == [("station_t", (5, 3)), ("station_t", (6, 3))]
    send(switch, src=5)
    assert digests.take() == []
    digests.forget("station_t", [(5, 3)])
    send(switch, src=6)
    send(switch, src=5)
    assert digests.take() == [("station_t", (5, 3))]
    digests.enable("station_t", False)
    send(switch, src=99)
    assert digests.take() == []


def test_a_full_digest_queue_counts_what_it_loses(switch: DataPlane) -> None:
    """The ring holds 8,192 messages: the rest is counted, and may come again."""
    switch.digests.enable("station_t", True)
    for src in range(8200):
        send(switch, src=src)
    assert switch.drop_stats()["digest_queue_full"] == 8
    taken = [message for _ in range(17) for _, message in switch.digests.take()]
    assert taken == [(src, 3) for src in range(8192)]
    send(switch, src=8195)
    assert switch.digests.take() == [("station_t", (8195, 3))]


def test_wide_fields_and_keys_of_several_parts() -> None:
    """A digest of 200 bits, and a value set over parts of 64, 3 and 13 bits."""
    b = ProgramBuilder()
    b.header("h", [["a", 64, False], ["b", 3, False], ["c", 13, False], ["w", 200, False]])
    b.header("out", [["hit", 8, False]])
    b.deparser = ["out"]
    b.value_sets.append({"name": "v", "id": 0, "compressed_bitwidth": 80, "max_size": 4})
    b.state("start", [b.extract("h")], [field("h", n) for n in "abc"], default="no")
    b.states[0]["transitions"].insert(
        0, {"type": "parse_vset", "value": "v", "mask": None, "next_state": "yes"}
    )
    out = {"op": "add_header", "parameters": [{"type": "header", "value": "out"}]}
    hit = {"op": "primitive", "parameters": [out]}

    def writes(value: int) -> list[dict[str, object]]:
        return [hit, {"op": "set", "parameters": [field("out", "hit"), const(value)]}]

    b.state("yes", writes(1))
    b.state("no", writes(2))
    b.learn_lists.append(
        {"name": "l", "id": 4, "elements": [field("h", "w"), field("h", "b"), const(9)]}
    )
    b.run(
        "send",
        [
            {"op": "generate_digest", "parameters": [const(1), const(4)]},
            assign(field("standard_metadata", "egress_spec"), const(1)),
        ],
    )
    wide = random.Random(1).getrandbits(200)
    packet = (0xFEDCBA9876543210 << 16 | 5 << 13 | 0x1ABC).to_bytes(10, "big")
    packet += wide.to_bytes(25, "big")
    with DataPlane.load(b.json()) as switch:
        switch.digests.enable("l", True)
        assert switch.inject(0, packet) == [(1, b"\x02")]
        assert switch.digests.take() == [("l", (wide, 5, 9))]
        exact, ternary = MatchType.EXACT, MatchType.TERNARY
        member = (MatchKey(0xFEDCBA9876543210), MatchKey(4, mask=4), MatchKey(0x1ABC))
        switch.value_sets["v"].write([member], [exact, ternary, exact])
        assert switch.inject(0, packet) == [(1, b"\x01")]
        switch.value_sets["v"].write([(member[0], MatchKey(5), MatchKey(0x1ABD))])
        assert switch.inject(0, packet) == [(1, b"\x02")]


def test_times_have_48_bits_and_queues_are_empty() -> None:
    """Both timestamps are those of the batch; nothing waits between ingress and egress."""
    b = ProgramBuilder()
    names = ["enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"]
    times = ["ingress_global_timestamp", "egress_global_timestamp"]
    b.header("h", [[name, 48, False] for name in (*times, *names)])
    b.deparser = ["h"]
    b.state("start", [b.extract("h")])
    b.run("out", [assign(field("standard_metadata", "egress_spec"), const(1))])
    copies = [assign(field("h", n), field("standard_metadata", n)) for n in (*times, *names)]
    b.run("copy", copies, pipeline="egress")
    with DataPlane.load(b.json()) as switch:
        switch.set_clock_us((5 << 48) + 0x123456789ABC)
        [(_, out)] = switch.inject(0, b"\xff" * 36)
        values = [int.from_bytes(out[i : i + 6], "big") for i in range(0, 36, 6)]
        assert values == [0x123456789ABC, 0x123456789ABC, 0x56789ABC, 0, 0, 0]
