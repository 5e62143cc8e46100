"""finsy, the controller library, drives the switch with its own pipeline and arbitration logic."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import finsy
import pytest
from finsy.proto import stratum

from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import CPU_PORT, IDS, JSON_PATH, P4INFO_PATH, TIMEOUT_S

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

OPTIONS = finsy.SwitchOptions(p4info=P4INFO_PATH, p4blob=JSON_PATH)
FRAME = bytes.fromhex("0000000000aa 0000000000bb 9999") + b"payload"


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a controller with a bound on its time."""
    asyncio.run(asyncio.wait_for(main, TIMEOUT_S))


def forward(mac: int, port: int) -> finsy.P4TableEntry:
    """Return an entry of the l2 table."""
    return finsy.P4TableEntry(
        "l2", match=finsy.P4TableMatch(dst=mac), action=finsy.P4TableAction("forward", port=port)
    )


def test_pipeline_and_entries(empty_switch: P4RuntimeServer) -> None:
    """The controller installs the pipeline once, writes entities of all kinds, deletes all."""

    async def main() -> None:
        async with finsy.Switch("s1", empty_switch.address, OPTIONS) as switch:
            assert switch.is_primary
            assert switch.p4runtime_version >= finsy.P4RuntimeVersion(1, 4, 0, "")
            entities = [
                forward(0xAA, 4),
                finsy.P4TableEntry(
                    "routes",
                    match=finsy.P4TableMatch(dst="10.0.0.0/8"),
                    action=finsy.P4TableAction("route", mac=0x0A, port=3),
                ),
                finsy.P4TableEntry(
                    "acl",
                    match=finsy.P4TableMatch(
                        ingress_port=1, src="0x0a/&0xff", type="0x800...0x8ff"
                    ),
                    action=finsy.P4TableAction("set_class", **{"class": 7}),
                    priority=5,
                ),
                finsy.P4MulticastGroupEntry(1, replicas=[1, (2, 1)]),
                finsy.P4CloneSessionEntry(7, replicas=[3]),
            ]
            await switch.insert(entities)
            await switch.modify(
                [
                    finsy.P4CounterEntry(
                        "port_counter",
                        index=2,
                        data=finsy.P4CounterData(packet_count=1, byte_count=2),
                    ),
                    finsy.P4RegisterEntry("last_source", index=1, data=0xAB),
                    finsy.P4TableEntry(
                        "stamp",
                        is_default_action=True,
                        action=finsy.P4TableAction("set_class", **{"class": 1}),
                    ),
                ]
            )
            found = [entry async for entry in switch.read(finsy.P4TableEntry("l2"))]
            assert found == [forward(0xAA, 4)]
            register = [
                cell async for cell in switch.read(finsy.P4RegisterEntry("last_source", index=1))
            ]
            assert register[0].data == 0xAB
            dataplane = empty_switch.dataplane
            await switch.delete_all()
            assert [entry async for entry in switch.read(finsy.P4TableEntry("l2"))] == []
            assert empty_switch.dataplane is dataplane
        async with finsy.Switch("s1", empty_switch.address, OPTIONS):
            assert empty_switch.dataplane is dataplane  # same cookie: not installed again
        async with finsy.Switch("s1", empty_switch.address, OPTIONS(p4force=True)):
            assert empty_switch.dataplane is not dataplane

    run(main())


def test_errors_are_shown(switch: P4RuntimeServer) -> None:
    """The controller sees which updates of a batch failed and why."""

    async def main() -> None:
        async with finsy.Switch("s1", switch.address) as controller:
            await controller.insert([forward(1, 1)])
            with pytest.raises(finsy.P4ClientError) as caught:
                await controller.insert([forward(2, 1), forward(1, 1)])
            error = caught.value.details[1]
            assert error.canonical_code is finsy.GRPCStatusCode.ALREADY_EXISTS
            assert "already there" in error.message
            assert list(caught.value.details) == [1]
            await controller.delete([forward(9, 1)], strict=False)

    run(main())


def test_backup_takes_over(switch: P4RuntimeServer) -> None:
    """Two more controllers wait as backups; when the primary goes one of them takes over."""

    async def main() -> None:
        async with (
            finsy.Switch("b", switch.address) as second,
            finsy.Switch("a", switch.address, finsy.SwitchOptions(initial_election_id=20)) as first,
            finsy.Switch("c", switch.address) as third,
        ):
            assert first.is_primary
            assert not third.is_primary
            promoted = [
                asyncio.ensure_future(peer.ee.event_future(finsy.SwitchEvent.BECOME_PRIMARY))
                for peer in (second, third)
            ]
            with pytest.raises(finsy.P4ClientError):
                await third.insert([forward(1, 1)])
            await first.__aexit__(None, None, None)
            await asyncio.wait(promoted, return_when=asyncio.FIRST_COMPLETED)
            primary = second if second.is_primary else third
            await primary.insert([forward(1, 1)])
            await first.__aenter__()

    run(main())


def test_packets(switch: P4RuntimeServer) -> None:
    """PacketOut through the pipeline to the CPU port and back as PacketIn."""

    async def main() -> None:
        async with finsy.Switch("s1", switch.address) as controller:
            packets = controller.read_packets()
            waiting = asyncio.ensure_future(anext(packets))
            await asyncio.sleep(0)
            await controller.write([finsy.P4PacketOut(FRAME, egress_port=CPU_PORT, padding=0)])
            packet = await waiting
            assert packet.payload == FRAME
            assert packet["ingress_port"] == CPU_PORT

    run(main())


def test_schema_matches(switch: P4RuntimeServer) -> None:
    """A controller without files of its own gets the P4Info from the switch."""

    async def main() -> None:
        async with finsy.Switch("s1", switch.address) as controller:
            assert {table.alias for table in controller.p4info.tables} >= {"l2", "routes", "acl"}
            assert controller.p4info.tables["l2"].id == IDS["l2"]

    run(main())


def test_roles(switch: P4RuntimeServer) -> None:
    """Two controllers with roles of their own write their tables at the same time, and no other."""

    def options(name: str, *tables: str) -> finsy.SwitchOptions:
        config = stratum.P4RoleConfig(exclusive_p4_ids=[IDS[table] for table in tables])
        return finsy.SwitchOptions(role_name=name, role_config=config)

    route = finsy.P4TableEntry(
        "routes",
        match=finsy.P4TableMatch(dst=(0x0A000000, 8)),
        action=finsy.P4TableAction("route", mac=0x0A, port=3),
    )

    async def main() -> None:
        async with (
            finsy.Switch("bridge", switch.address, options("bridge", "l2")) as bridge,
            finsy.Switch("router", switch.address, options("router", "routes")) as router,
        ):
            assert bridge.is_primary
            assert router.is_primary
            await bridge.insert([forward(1, 1)])
            await router.insert([route])
            with pytest.raises(finsy.P4ClientError) as caught:
                await bridge.insert([route])
            error = caught.value.details[0]
            assert error.canonical_code is finsy.GRPCStatusCode.PERMISSION_DENIED
            assert [entry async for entry in bridge.read(finsy.P4TableEntry())] == [forward(1, 1)]
            assert [entry async for entry in router.read(finsy.P4TableEntry())] == [route]

    run(main())
