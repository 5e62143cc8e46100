"""finsy, the controller library, drives the stateful objects: an unmodified client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import finsy
import pytest
from finsy.p4entity import P4ValueSetMember

from softswitch.dataplane import DataPlane
from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import TIMEOUT_S

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

PROGRAMS = Path(__file__).parent / "p4"
SECOND_NS = 1_000_000_000


def options(name: str, cache: Path) -> finsy.SwitchOptions:
    """The options of a controller that installs tests/p4/NAME.p4.

    The program is compiled here: finsy waits for its pipeline for some seconds only.
    """
    path = PROGRAMS / name
    DataPlane.load(path.with_suffix(".json").read_bytes(), cache_dir=cache).close()
    return finsy.SwitchOptions(
        p4info=path.with_suffix(".p4info.txtpb"), p4blob=path.with_suffix(".json")
    )


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a controller with a bound on its time."""
    asyncio.run(asyncio.wait_for(main, TIMEOUT_S))


def test_members_groups_and_one_shots(empty_switch: P4RuntimeServer, p4rt_cache: Path) -> None:
    """What finsy writes it reads back equal, and can delete."""
    chosen = options("softswitch_profiles", p4rt_cache)

    async def main() -> None:
        async with finsy.Switch("s1", empty_switch.address, chosen) as switch:
            to_port = [finsy.P4TableAction("to_port", port=port) for port in (1, 2)]
            members = [
                finsy.P4ActionProfileMember("paths", member_id=n, action=action)
                for n, action in enumerate(to_port, 1)
            ]
            group = finsy.P4ActionProfileGroup(
                "paths",
                group_id=1,
                max_size=8,
                members=[finsy.P4Member(1, weight=1), finsy.P4Member(2, weight=3)],
            )
            entry = finsy.P4TableEntry(
                "destinations",
                match=finsy.P4TableMatch(dst=0xAA),
                action=finsy.P4IndirectAction(group_id=1),
            )
            for entities in (members, [group], [entry]):
                await switch.insert(entities)
            found = [each async for each in switch.read(finsy.P4ActionProfileMember())]
            assert found == members
            assert [g async for g in switch.read(finsy.P4ActionProfileGroup())] == [group]
            assert [e async for e in switch.read(finsy.P4TableEntry("destinations"))] == [entry]
            await switch.delete([entry])
            one_shot = finsy.P4TableEntry(
                "destinations",
                match=finsy.P4TableMatch(dst=0xAA),
                action=finsy.P4IndirectAction(action_set=[(1, to_port[0]), (2, to_port[1])]),
            )
            await switch.insert([one_shot])
            assert [e async for e in switch.read(finsy.P4TableEntry("destinations"))] == [one_shot]
            await switch.delete_all()
            assert [e async for e in switch.read(finsy.P4TableEntry("destinations"))] == []

    run(main())


def test_meters_value_sets_digests_and_timeouts(
    empty_switch: P4RuntimeServer, p4rt_cache: Path
) -> None:
    """Configurations are read back; digests and idle entries arrive as finsy's own objects."""
    chosen = options("softswitch_state", p4rt_cache)

    async def main() -> None:
        async with finsy.Switch("s1", empty_switch.address, chosen) as switch:
            dataplane = empty_switch.dataplane
            assert dataplane is not None
            config = finsy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
            meter = finsy.P4MeterEntry("flow_meter", index=1, config=config)
            types = finsy.P4ValueSetEntry("flow_types", members=[P4ValueSetMember(0x2222)])
            await switch.modify([meter, types])
            asked = finsy.P4MeterEntry("flow_meter", index=1)
            assert [each async for each in switch.read(asked)] == [meter]
            asked_set = finsy.P4ValueSetEntry("flow_types", members=[])
            assert [each async for each in switch.read(asked_set)] == [types]

            await switch.insert([finsy.P4DigestEntry("station_t", max_list_size=1)])
            frame = bytes(11) + b"\x05\x22\x22" + bytes(9)
            digests = switch.read_digests("station_t")
            waiting = asyncio.ensure_future(anext(aiter(digests)))
            await asyncio.sleep(0)  # lets the reader open its queue
            assert dataplane.inject(3, frame)[0][1][22] == 2
            digest = await waiting
            assert list(digest) == [{"address": 5, "port": 3}]
            await switch.write([finsy.P4DigestListAck("station_t", digest.list_id)])

            entry = finsy.P4TableEntry(
                "stations",
                match=finsy.P4TableMatch(src=7),
                action=finsy.P4TableAction("known"),
                idle_timeout_ns=SECOND_NS // 20,
            )
            idle = asyncio.ensure_future(anext(aiter(switch.read_idle_timeouts())))
            await switch.insert([entry])
            [expired] = list(await idle)
            assert expired["src"] == 7

    run(main())
