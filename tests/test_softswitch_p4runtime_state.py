"""Meters, value sets, digests and idle timeouts over gRPC, with packets and a clock that stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4d, p4r

from softswitch.dataplane import DataPlane, MatchKey, TableEntry
from softswitch.p4runtime.digests import Digests
from softswitch.p4runtime.idle import MIN_TIMEOUT_US, IdleTimeouts
from tests.p4rt_programs import Served, served
from tests.p4rt_support import Client, batch_errors, delete, exact, insert, modify, refused

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

Code = grpc.StatusCode
CONFIG = p4r.MeterConfig(cir=1, cburst=23, pir=2, pburst=46)
SECOND_US, SECOND_NS = 1_000_000, 1_000_000_000


@pytest.fixture
def switch(p4rt_cache: Path) -> Iterator[Served]:
    """A served switch whose data plane's clock stands at 0."""
    with served("softswitch_state", p4rt_cache) as each:
        each.dataplane.set_clock_us(0)
        yield each


def send(switch: Served, src: int = 1, kind: int = 0x1111) -> bytes:
    """Send a packet; return its flow header: color, direct color, parsed as."""
    packet = bytes(6) + src.to_bytes(6, "big") + kind.to_bytes(2, "big") + bytes(6) + b"\xee" * 3
    [(_, out)] = switch.dataplane.inject(3, packet)
    return out[20:23]


def meter(
    switch: Served, index: int | None = None, config: p4r.MeterConfig | None = None
) -> dict[str, Any]:
    """An entry of the indirect meter."""
    entry = p4r.MeterEntry(meter_id=switch.ids["flow_meter"], config=config)
    if index is not None:
        entry.index.index = index
    return {"meter_entry": entry}


def station(switch: Served, src: int, **changes: Any) -> p4r.TableEntry:
    """An entry of the table of stations."""
    action = p4r.TableAction(action=switch.action("known"))
    fields: dict[str, Any] = {
        "match": [exact(1, src.to_bytes(6, "big").lstrip(b"\0"))],
        "action": action,
    }
    return p4r.TableEntry(table_id=switch.ids["stations"], **(fields | changes))


def code(error: p4r.Error) -> grpc.StatusCode:
    """The canonical code of an error."""
    return next(c for c in Code if c.value[0] == error.canonical_code)


# Meters


def test_meters_are_configured_read_and_reset(switch: Served) -> None:
    """One cell, all cells, counts of colors, and back to green for everything."""
    write = switch.client.write
    write(modify(**meter(switch, 0, CONFIG)))
    assert [send(switch)[0] for _ in range(3)] == [0, 1, 2]
    entries = switch.read(**meter(switch))
    assert [e.HasField("config") for e in entries] == [True, False, False, False]
    assert entries[0].config == CONFIG
    assert not entries[0].HasField("counter_data")
    query = meter(switch, 0)
    query["meter_entry"].counter_data.SetInParent()
    [entry] = switch.read(**query)
    colors = entry.counter_data
    assert [c.packet_count for c in (colors.green, colors.yellow, colors.red)] == [1, 1, 1]
    assert colors.red.byte_count == 23
    write(modify(**query))  # without a config: green again, and the counts are cleared
    assert send(switch)[0] == 0
    [entry] = switch.read(**query)
    assert entry.counter_data.green.packet_count == 1
    assert entry.counter_data.red.packet_count == 0
    write(modify(**meter(switch, None, CONFIG)))
    assert all(e.config == CONFIG for e in switch.read(meter_entry=p4r.MeterEntry()))


def test_bad_meter_entries_are_refused(switch: Served) -> None:
    """Each with its canonical code, and the meter stays green."""
    counted = meter(switch, 0)
    counted["meter_entry"].counter_data.red.packet_count = 1
    unknown = p4r.MeterEntry(meter_id=0x14FFFFFF)
    direct = p4r.MeterEntry(meter_id=switch.ids["station_meter"])
    cases = [
        (modify(**meter(switch, 4, CONFIG)), Code.OUT_OF_RANGE),
        (modify(**meter(switch, -1, CONFIG)), Code.INVALID_ARGUMENT),
        (modify(**meter(switch, 0, p4r.MeterConfig(cir=2, pir=1))), Code.INVALID_ARGUMENT),
        (modify(**meter(switch, 0, p4r.MeterConfig(cburst=-1))), Code.INVALID_ARGUMENT),
        (modify(**meter(switch, 0, p4r.MeterConfig(eburst=1))), Code.INVALID_ARGUMENT),
        (modify(**counted), Code.INVALID_ARGUMENT),
        (insert(**meter(switch, 0, CONFIG)), Code.INVALID_ARGUMENT),
        (delete(**meter(switch, 0)), Code.INVALID_ARGUMENT),
        (modify(meter_entry=unknown), Code.NOT_FOUND),
        (modify(meter_entry=direct), Code.NOT_FOUND),
    ]
    for update, expected in cases:
        assert code(refused(switch.client, update)) is expected, update
    assert send(switch)[0] == 0


def test_a_table_entry_carries_its_meter(switch: Served) -> None:
    """INSERT sets it, MODIFY without it resets it, a read shows it only if it is asked for."""
    config = p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=2)
    write = switch.client.write
    write(insert(table_entry=station(switch, 7, meter_config=config)))
    assert [send(switch, 7)[1] for _ in range(3)] == [0, 1, 2]
    ask = p4r.TableEntry(table_id=switch.ids["stations"])
    [entry] = switch.read(table_entry=ask)
    assert not entry.HasField("meter_config")
    ask.meter_config.SetInParent()
    ask.meter_counter_data.SetInParent()
    [entry] = switch.read(table_entry=ask)
    assert entry.meter_config == config
    assert entry.meter_counter_data.red.packet_count == 1
    write(modify(table_entry=station(switch, 7)))
    assert send(switch, 7)[1] == 0
    [entry] = switch.read(table_entry=ask)
    assert not entry.HasField("meter_config")


def test_direct_meter_entries(switch: Served) -> None:
    """Of an entry, of all, and of the default entry."""
    config = p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1)
    client, key = switch.client, station(switch, 7)
    key.ClearField("action")
    default = p4r.TableEntry(table_id=switch.ids["stations"], is_default_action=True)
    absent = p4r.DirectMeterEntry(table_entry=key, config=config)
    assert code(refused(client, modify(direct_meter_entry=absent))) is Code.NOT_FOUND
    client.write(insert(table_entry=station(switch, 7)))
    client.write(modify(direct_meter_entry=absent))
    assert [send(switch, 7)[1] for _ in range(2)] == [0, 2]
    client.write(
        modify(direct_meter_entry=p4r.DirectMeterEntry(table_entry=default, config=config))
    )
    assert [send(switch, 8)[1] for _ in range(2)] == [0, 2]
    every = p4r.DirectMeterEntry(table_entry=p4r.TableEntry(table_id=switch.ids["stations"]))
    assert switch.read(direct_meter_entry=every) == [absent]
    ask = p4r.DirectMeterEntry(table_entry=default)
    ask.counter_data.SetInParent()
    [entry] = switch.read(direct_meter_entry=ask)
    assert entry.config == config
    assert entry.counter_data.red.packet_count == 1
    client.write(modify(direct_meter_entry=p4r.DirectMeterEntry(table_entry=key)))
    assert send(switch, 7)[1] == 0
    other = p4r.TableEntry(table_id=switch.ids["hops"])
    update = modify(direct_meter_entry=p4r.DirectMeterEntry(table_entry=other))
    assert code(refused(client, update)) is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("atomicity", ["ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"])
def test_batches_roll_back_meters_value_sets_and_digests(switch: Served, atomicity: str) -> None:
    """A batch that fails leaves all of them as they were."""
    client = switch.client
    config = p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1)
    entry = station(switch, 7, meter_config=config)
    client.write(insert(table_entry=entry), modify(**meter(switch, 1, CONFIG)))
    client.write(modify(**value_set(switch, 0x2222)))
    with pytest.raises(grpc.RpcError):
        client.write(
            modify(**meter(switch, None)),
            modify(table_entry=station(switch, 7)),
            modify(**value_set(switch, 0x3333)),
            insert(digest_entry=p4r.DigestEntry(digest_id=switch.ids["station_t"])),
            insert(table_entry=entry),
            atomicity=p4r.WriteRequest.Atomicity.Value(atomicity),
        )
    [_, second, *_] = switch.read(meter_entry=p4r.MeterEntry())
    assert second.config == CONFIG
    assert [send(switch, 7)[1] for _ in range(2)] == [0, 2]
    assert send(switch, kind=0x2222)[2] == 2
    assert send(switch, kind=0x3333)[2] == 0xEE
    assert switch.read(digest_entry=p4r.DigestEntry()) == []


# Counters of default entries


def test_default_entries_have_counters(switch: Served) -> None:
    """Misses count; the count is read and written like that of any entry."""
    for src in (1, 2, 3):
        send(switch, src)
    default = p4r.TableEntry(table_id=switch.ids["stations"], is_default_action=True)
    query = p4r.DirectCounterEntry(table_entry=default)
    [entry] = switch.read(direct_counter_entry=query)
    assert entry.table_entry == default
    assert (entry.data.packet_count, entry.data.byte_count) == (3, 69)
    query.data.packet_count = 10
    switch.client.write(modify(direct_counter_entry=query))
    send(switch)
    default.counter_data.SetInParent()
    [found] = switch.read(table_entry=default)
    assert found.counter_data.packet_count == 11


# Value sets


def value_set(switch: Served, *types: int) -> dict[str, Any]:
    """The entry of the value set with these members."""
    entry = p4r.ValueSetEntry(value_set_id=switch.ids["flow_types"])
    for each in types:
        entry.members.add(match=[exact(1, each.to_bytes(2, "big"))])
    return {"value_set_entry": entry}


def test_a_value_set_is_written_and_read_as_a_whole(switch: Served) -> None:
    """Packets of its types are parsed; an empty write empties it."""
    client = switch.client
    client.write(modify(**value_set(switch, 0x2222, 0x3333)))
    assert send(switch, kind=0x3333)[2] == 2
    assert switch.read(value_set_entry=p4r.ValueSetEntry()) == [
        value_set(switch, 0x2222, 0x3333)["value_set_entry"]
    ]
    client.write(modify(**value_set(switch, 0x2222)))
    assert send(switch, kind=0x3333)[2] == 0xEE
    client.write(modify(**value_set(switch)))
    assert send(switch, kind=0x2222)[2] == 0xEE
    unknown = p4r.ValueSetEntry(value_set_id=0x03FFFFFF)
    cases = [
        (insert(**value_set(switch, 1)), Code.INVALID_ARGUMENT),
        (delete(**value_set(switch)), Code.INVALID_ARGUMENT),
        (modify(**value_set(switch, 1, 1)), Code.ALREADY_EXISTS),
        (modify(**value_set(switch, 1, 2, 3, 4, 5)), Code.RESOURCE_EXHAUSTED),
        (modify(value_set_entry=unknown), Code.NOT_FOUND),
    ]
    for update, expected in cases:
        assert code(refused(client, update)) is expected, update


# Digests


def enable(switch: Served, **config: int) -> None:
    """Let the switch send digests."""
    entry = p4r.DigestEntry(
        digest_id=switch.ids["station_t"], config=p4r.DigestEntry.Config(**config)
    )
    switch.client.write(insert(digest_entry=entry))


def addresses(message: p4r.DigestList) -> list[int]:
    """The addresses in a list of digests, all from port 3."""
    assert all(item.struct.members[1] == p4d.P4Data(bitstring=b"\x03") for item in message.data)
    return [int.from_bytes(item.struct.members[0].bitstring, "big") for item in message.data]


def acknowledge(client: Client, message: p4r.DigestList) -> None:
    """Acknowledge a list."""
    ack = p4r.DigestListAck(digest_id=message.digest_id, list_id=message.list_id)
    client.send(p4r.StreamMessageRequest(digest_ack=ack))


def test_digests_reach_the_primary_once_per_acknowledgement(switch: Served) -> None:
    """Lists of the size asked for; what is not acknowledged does not come again."""
    client = switch.client
    send(switch, 1)
    enable(switch, max_timeout_ns=3600 * SECOND_NS, max_list_size=2, ack_timeout_ns=10**15)
    for src in (1, 1, 2, 3, 1, 4):
        send(switch, src)
    first, second = client.receive().digest, client.receive().digest
    assert addresses(first) == [1, 2]
    assert addresses(second) == [3, 4]
    assert first.digest_id == switch.ids["station_t"]
    assert second.list_id != first.list_id
    acknowledge(client, first)
    # The stream is in order: its answer says that the acknowledgement has been dealt with.
    client.arbitrate()
    for src in (1, 3, 2, 4):
        send(switch, src)
    assert addresses(client.receive().digest) == [1, 2]


def test_digests_leave_at_once_without_a_timeout(switch: Served) -> None:
    """max_timeout_ns 0 sends each; ack_timeout_ns 0 lets it come again right away."""
    enable(switch)
    for _ in range(2):
        send(switch, 5)
        assert addresses(switch.client.receive().digest) == [5]


def test_digest_entries(switch: Served) -> None:
    """INSERT, MODIFY, DELETE, reads and their errors."""
    client = switch.client
    entry = p4r.DigestEntry(digest_id=switch.ids["station_t"])
    assert code(refused(client, modify(digest_entry=entry))) is Code.NOT_FOUND
    enable(switch)
    assert code(refused(client, insert(digest_entry=entry))) is Code.ALREADY_EXISTS
    entry.config.max_list_size = 7
    client.write(modify(digest_entry=entry))
    assert switch.read(digest_entry=p4r.DigestEntry()) == [entry]
    bad = p4r.DigestEntry(digest_id=entry.digest_id)
    bad.config.ack_timeout_ns = -1
    assert code(refused(client, modify(digest_entry=bad))) is Code.INVALID_ARGUMENT
    client.write(delete(digest_entry=entry))
    assert switch.read(digest_entry=p4r.DigestEntry()) == []
    with pytest.raises(grpc.RpcError) as caught:
        switch.read(digest_entry=p4r.DigestEntry(digest_id=0x17FFFFFF))
    assert code(batch_errors(caught.value)[0]) is Code.NOT_FOUND


def test_only_the_primary_acknowledges(switch: Served) -> None:
    """A backup gets an error on its stream; so does an unknown digest."""
    with Client(switch.server.address, election_id=None) as backup:
        backup.arbitrate()
        ack = p4r.DigestList(digest_id=switch.ids["station_t"], list_id=1)
        acknowledge(backup, ack)
        assert backup.receive().error.canonical_code == Code.PERMISSION_DENIED.value[0]
    acknowledge(switch.client, p4r.DigestList(digest_id=0x17FFFFFF))
    error = switch.client.receive().error
    assert error.canonical_code == Code.NOT_FOUND.value[0]
    assert error.digest_list_ack.digest_list_ack.digest_id == 0x17FFFFFF


# Idle timeouts


def test_idle_entries_are_reported(switch: Served) -> None:
    """After the timeout, again after another one, and not while packets hit the entry."""
    client, dataplane = switch.client, switch.dataplane
    timeout_ns = 10 * SECOND_NS
    idle = station(switch, 7, idle_timeout_ns=timeout_ns, metadata=b"m", controller_metadata=5)
    client.write(insert(table_entry=idle), insert(table_entry=station(switch, 8)))
    dataplane.set_clock_us(9 * SECOND_US)
    send(switch, 7)
    dataplane.set_clock_us(18 * SECOND_US)
    send(switch, 7)
    for now_s in (28, 38):
        dataplane.set_clock_us(now_s * SECOND_US)
        dataplane.digests.wake()
        message = client.receive().idle_timeout_notification
        [entry] = message.table_entry
        expected = station(
            switch, 7, idle_timeout_ns=timeout_ns, metadata=b"m", controller_metadata=5
        )
        expected.ClearField("action")
        assert entry == expected
        assert message.timestamp > 0
    ask = p4r.TableEntry(table_id=switch.ids["stations"])
    ask.time_since_last_hit.SetInParent()
    ages = {e.match[0].exact.value: e for e in switch.read(table_entry=ask)}
    assert ages[b"\x07"].time_since_last_hit.elapsed_ns == 20 * SECOND_NS
    assert ages[b"\x08"].time_since_last_hit.elapsed_ns == 38 * SECOND_NS
    assert ages[b"\x07"].idle_timeout_ns == timeout_ns


def test_bad_idle_timeouts_are_refused(switch: Served) -> None:
    """Tables without ages, default entries, negative times, and what only the switch may say."""
    hop = p4r.TableEntry(
        table_id=switch.ids["hops"],
        match=[exact(1, b"\x01")],
        action=p4r.TableAction(action_profile_member_id=1),
        idle_timeout_ns=1,
    )
    default = p4r.TableEntry(
        table_id=switch.ids["stations"], is_default_action=True, idle_timeout_ns=1
    )
    told = station(switch, 1)
    told.time_since_last_hit.SetInParent()
    for update in (
        insert(table_entry=hop),
        modify(table_entry=default),
        insert(table_entry=station(switch, 1, idle_timeout_ns=-1)),
        insert(table_entry=told),
    ):
        assert code(refused(switch.client, update)) is Code.INVALID_ARGUMENT, update


def test_a_new_pipeline_keeps_state_when_it_reconciles(switch: Served) -> None:
    """Meters, value sets, digests and timeouts are written anew into the next pipeline."""
    client = switch.client
    config = p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1)
    timed = station(switch, 7, meter_config=config, idle_timeout_ns=SECOND_NS)
    client.write(insert(table_entry=timed), modify(**meter(switch, 0, CONFIG)))
    client.write(modify(**value_set(switch, 0x2222)))
    enable(switch, max_list_size=3)
    before = switch.server.device.running
    assert before is not None
    action = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT
    client.set_config(action, before.config)
    assert switch.server.device.running is not before
    assert switch.read(**meter(switch, 0))[0].config == CONFIG
    assert send(switch, kind=0x2222)[2] == 2
    assert switch.read(digest_entry=p4r.DigestEntry())[0].config.max_list_size == 3
    ask = p4r.TableEntry(table_id=switch.ids["stations"])
    ask.meter_config.SetInParent()
    assert switch.read(table_entry=ask) == [timed]


def test_digest_lists_are_due_by_time(p4rt_cache: Path) -> None:
    """A list leaves when its first message is old enough, and comes again if nobody answers."""
    now_ns = 0
    with served("softswitch_state", p4rt_cache) as switch:
        pipeline = switch.server.device.running
        assert pipeline is not None
        with DataPlane(pipeline.dataplane.program, pipeline.dataplane.library) as dataplane:
            digests = Digests(pipeline.schema, dataplane, lambda: now_ns)
            entry = p4r.DigestEntry(digest_id=switch.ids["station_t"])
            entry.config.CopyFrom(
                p4r.DigestEntry.Config(max_timeout_ns=50, max_list_size=9, ack_timeout_ns=1000)
            )
            digests.write(p4r.Update.INSERT, entry)
            assert digests.poll() == ([], None)

            def packet(src: int) -> None:
                dataplane.inject(3, bytes(6) + src.to_bytes(6, "big") + b"\x11\x11" + bytes(9))

            packet(1)
            now_ns = 100
            assert digests.poll() == ([], 50)
            now_ns = 149
            packet(2)
            assert digests.poll() == ([], 1)
            now_ns = 150
            [sent], left_ns = digests.poll()
            assert addresses(sent) == [1, 2]
            assert left_ns == 1000
            now_ns = 1149
            packet(1)
            assert digests.poll() == ([], 1)
            now_ns = 1150
            assert digests.poll() == ([], None)
            packet(1)
            assert digests.poll() == ([], 50)


def test_idle_entries_are_looked_at_only_when_they_may_be_idle(p4rt_cache: Path) -> None:
    """A hit moves the deadline; deleting and writing anew make old deadlines void."""
    with served("softswitch_state", p4rt_cache) as switch:
        pipeline = switch.server.device.running
        assert pipeline is not None
        with DataPlane(pipeline.dataplane.program, pipeline.dataplane.library) as dataplane:
            dataplane.set_clock_us(0)
            idle = IdleTimeouts(dataplane)
            table = pipeline.schema.table(switch.ids["stations"])
            entries = [TableEntry((MatchKey(n),), 0, "StateIngress.known") for n in range(3)]
            messages = [p4r.TableEntry(priority=n, idle_timeout_ns=10**9) for n in range(3)]
            for entry, message in zip(entries, messages, strict=True):
                dataplane.table_add(table.name, entry)
                index = dataplane.entry_index(table.name, entry.key, 0)
                idle.watch(table, index, message)
            idle.forget(table, dataplane.entry_index(table.name, entries[1].key, 0))
            assert idle.poll() == ([], SECOND_US)
            dataplane.set_clock_us(SECOND_US // 2)
            dataplane.inject(3, bytes(12) + b"\x11\x11" + bytes(9))  # hits entry 0
            dataplane.set_clock_us(SECOND_US)
            assert idle.poll() == ([messages[2]], SECOND_US // 2)
            dataplane.set_clock_us(3 * SECOND_US // 2)
            assert idle.poll() == ([messages[0]], SECOND_US // 2)
            soon = p4r.TableEntry(idle_timeout_ns=1)
            idle.watch(table, dataplane.entry_index(table.name, entries[0].key, 0), soon)
            assert idle.poll() == ([], MIN_TIMEOUT_US)
