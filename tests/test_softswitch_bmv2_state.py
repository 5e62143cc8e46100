"""The same writes and packets on bmv2 and here: selectors, meters, counters, digests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from finsy.proto import p4r

from tests.bmv2_switch import bmv2
from tests.p4rt_programs import Served, program_files, served
from tests.p4rt_support import Client, exact, insert, modify

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = [
    pytest.mark.compiler,
    pytest.mark.bmv2,
    pytest.mark.skipif(shutil.which("simple_switch_grpc") is None, reason="bmv2 is not installed"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]

DST, SRC = b"\x02\x00\x00\x00\x00\x01", b"\x02\x00\x00\x00\x00\x07"
Inject = Callable[[int, bytes], list[tuple[int, bytes]]]


@dataclass(frozen=True)
class Side:
    """One of the two switches."""

    client: Client
    inject: Inject


@contextmanager
def both(name: str, cache: Path, log: Path) -> Iterator[tuple[Served, list[Side]]]:
    """Run a program here and on bmv2, with a primary controller each."""
    with ExitStack() as stack:
        own = stack.enter_context(served(name, cache))
        ports, address = stack.enter_context(bmv2(log))
        client = stack.enter_context(Client(address))
        assert client.arbitrate().status.code == 0
        info, source = program_files(name)
        client.set_config(
            p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=source),
        )
        yield own, [Side(own.client, own.dataplane.inject), Side(client, ports.inject)]


def same(sides: list[Side], packet: bytes) -> list[tuple[int, bytes]]:
    """Send a packet into port 3 of both; return what leaves, which must be the same."""
    here, there = (side.inject(3, packet) for side in sides)
    assert here == there, packet.hex()
    return here


def test_selectors_pick_the_same_members(p4rt_cache: Path, tmp_path: Path) -> None:
    """Groups with weights, one-shots and plain members, for many flows."""
    with both("softswitch_profiles", p4rt_cache, tmp_path / "bmv2.log") as (own, sides):
        paths = own.ids["paths"]

        def member(number: int) -> p4r.Update:
            action = own.action("routed", bytes([number]), bytes([number]))
            return insert(
                action_profile_member=p4r.ActionProfileMember(
                    action_profile_id=paths, member_id=number, action=action
                )
            )

        def group(*members: int) -> p4r.ActionProfileGroup:
            parts = [p4r.ActionProfileGroup.Member(member_id=m, weight=1) for m in members]
            return p4r.ActionProfileGroup(
                action_profile_id=paths, group_id=1, members=parts, max_size=8
            )

        def entry(number: int, table: str, **action: int) -> p4r.Update:
            dst = DST if table == "destinations" else b"\x08\x00"
            return insert(
                table_entry=p4r.TableEntry(
                    table_id=own.ids[table],
                    match=[exact(1, dst[:-1] + bytes([number]))],
                    action=p4r.TableAction(**action),
                )
            )

        packets = [
            DST[:-1] + bytes([dst]) + SRC + b"\x08" + bytes([kind]) + flow.to_bytes(8, "big")
            for flow in range(0, 2**34, 2**28 - 12345)
            for dst, kind in ((1, 0), (2, 0), (9, 4))
        ]
        for side in sides:
            side.client.write(*(member(number) for number in range(1, 6)))
            side.client.write(insert(action_profile_group=group(1, 2, 3)))
            side.client.write(
                entry(1, "destinations", action_profile_group_id=1),
                entry(2, "destinations", action_profile_member_id=5),
                entry(4, "fallback", action_profile_group_id=1),
            )
        picked = {out[0][0] for out in (same(sides, p) for p in packets) if out}
        assert picked == {1, 2, 3, 5}
        for side in sides:
            side.client.write(modify(action_profile_group=group(2, 4, 5, 1)))
        picked = {out[0][0] for out in (same(sides, p) for p in packets) if out}
        assert picked == {1, 2, 4, 5}


def test_meters_counters_and_digests_agree(p4rt_cache: Path, tmp_path: Path) -> None:
    """Colors of both meters with rates that add nothing while the test runs."""
    with both("softswitch_state", p4rt_cache, tmp_path / "bmv2.log") as (own, sides):
        slow = p4r.MeterConfig(cir=1, cburst=50, pir=1, pburst=100)
        few = p4r.MeterConfig(cir=1, cburst=2, pir=1, pburst=3)
        known = p4r.TableEntry(
            table_id=own.ids["stations"],
            match=[exact(1, SRC)],
            action=p4r.TableAction(action=own.action("known")),
        )
        key = p4r.TableEntry(table_id=known.table_id, match=known.match)
        for side in sides:
            meter = p4r.MeterEntry(meter_id=own.ids["flow_meter"], config=slow)
            meter.index.index = 0
            direct = p4r.DirectMeterEntry(table_entry=key, config=few)
            side.client.write(modify(meter_entry=meter), insert(table_entry=known))
            side.client.write(modify(direct_meter_entry=direct))
            digest = p4r.DigestEntry(digest_id=own.ids["station_t"])
            digest.config.max_list_size = 1
            digest.config.ack_timeout_ns = 3600 * 10**9
            side.client.write(insert(digest_entry=digest))
        frame = SRC + b"\x11\x11" + bytes(9)
        colors = [same(sides, bytes(6) + frame)[0][1][20:22] for _ in range(5)]
        assert [c[0] for c in colors] == [0, 0, 1, 1, 2]
        assert [c[1] for c in colors] == [0, 0, 1, 2, 2]
        for number in (1, 2, 1):
            same(sides, bytes(6) + bytes([2, 0, 0, 0, 0, number]) + b"\x22\x22")
        learned = [
            [side.client.receive().digest.data[0].struct.members for _ in range(2)]
            for side in sides
        ]
        assert learned[0] == learned[1]
        query = p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key))
        counts = [side.client.read(query)[0].direct_counter_entry.data for side in sides]
        assert counts[0] == counts[1]
        assert (counts[0].packet_count, counts[0].byte_count) == (5, 5 * 23)
