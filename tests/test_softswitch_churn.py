"""Random writes to stateful objects between random packets; also run under the sanitizers."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softswitch.dataplane import DataPlane, GroupMember, MatchKey, Reference, TableEntry
from softswitch.errors import SoftSwitchError
from softswitch.meters import DEFAULT_ENTRY, MeterConfig
from softswitch.program import MatchType

pytestmark = pytest.mark.compiler

TURNS = 1500
PATHS, DESTINATIONS = "ProfilesIngress.paths", "ProfilesIngress.destinations"


def load(name: str) -> DataPlane:
    """Start a program of tests/p4."""
    return DataPlane.load(Path(f"tests/p4/softswitch_{name}.json").read_bytes())


def churn_profiles(switch: DataPlane, rng: random.Random) -> None:
    """One random change of members, groups and entries; most are refused at some time."""
    paths = switch.profiles[PATHS]
    number, table = rng.randrange(8), DESTINATIONS
    key = (MatchKey(rng.randrange(4)),)
    members = [GroupMember(rng.randrange(8), rng.randint(1, 3), rng.choice([None, 1, 2]))]
    members += [GroupMember(m) for m in range(8) if m != members[0].member and rng.random() < 0.3]
    target = Reference(number, is_group=rng.random() < 0.5)
    match rng.randrange(10):
        case 0:
            paths.add_member(number, "ProfilesIngress.routed", [number, number])
        case 1:
            paths.modify_member(number, "ProfilesIngress.to_port", [number])
        case 2:
            paths.delete_member(number)
        case 3:
            paths.add_group(number, members)
        case 4:
            paths.modify_group(number, members[: rng.randrange(3)])
        case 5:
            paths.delete_group(number)
        case 6 | 7:
            switch.table_add(table, TableEntry(key, 0, target=target))
        case 8:
            switch.table_modify(table, TableEntry(key, 0, target=target))
        case 9:
            switch.table_delete(table, key, 0)


def churn_state(switch: DataPlane, rng: random.Random) -> None:
    """One random change of meters, value sets, digests and entries."""
    stations, key = "StateIngress.stations", (MatchKey(rng.randrange(100)),)
    config = MeterConfig(*sorted(rng.getrandbits(rng.randint(0, 62)) for _ in range(4)))
    match rng.randrange(7):
        case 0:
            switch.meters["StateIngress.flow_meter"].write(rng.randrange(5), config)
        case 1:
            index = switch.entry_index(stations, key, 0)
            switch.meters["StateIngress.station_meter"].write(index, config)
        case 2:
            switch.meters["StateIngress.station_meter"].write(DEFAULT_ENTRY, config)
        case 3:
            kind = rng.choice(list(MatchType))
            low, high = sorted(rng.getrandbits(16) for _ in range(2))
            match = MatchKey(low, mask=rng.getrandbits(16), prefix_len=9, high=high)
            switch.value_sets["StateParser.flow_types"].write([(match,)], [kind])
        case 4:
            switch.digests.enable("station_t", rng.random() < 0.8)
            taken = [message for _, message in switch.digests.take()]
            switch.digests.forget("station_t", taken[::2])
        case 5:
            switch.table_add(stations, TableEntry(key, 0, "StateIngress.known"))
        case 6:
            switch.table_delete(stations, key, 0)


def packet(rng: random.Random) -> bytes:
    """A packet that mostly hits something."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randint(0, 40))
    address = bytes(5) + bytes([rng.randrange(100)])
    dst = bytes(5) + bytes([rng.randrange(4)])
    kind = rng.choice([0x1111, 0x2222, rng.getrandbits(16)])
    return dst + address + kind.to_bytes(2, "big") + rng.randbytes(rng.randint(0, 30))


def attempt(work: Callable[[DataPlane, random.Random], None], *args: Any) -> bool:
    """Return False if a change was refused."""
    try:
        work(*args)
    except SoftSwitchError:
        return False
    return True


def picked(switch: DataPlane, dst: int, flow: bytes, down: set[int]) -> int:
    """The port of a packet by what the control plane knows: 0 if no action sets one."""
    paths = switch.profiles[PATHS]
    targets = [e.target for e in switch.table_entries(DESTINATIONS) if e.key[0].value == dst]
    if not targets or targets[0] is None:
        return 0
    member = targets[0].id
    if targets[0].is_group:
        members = sorted(paths.groups()[member], key=lambda m: m.member)
        places = [m.member for m in members for _ in range(m.weight) if m.watch_port not in down]
        if not places:
            return 0
        member = places[zlib.crc32(flow + bytes(2)) % len(places)]
    return paths.member(member).params[0]


def test_packets_follow_members_and_groups_through_all_changes() -> None:
    """After every change the packet goes where the control plane's view says."""
    rng, done = random.Random(11), 0
    with load("profiles") as switch:
        paths, down = switch.profiles[PATHS], set[int]()
        for _ in range(TURNS):
            done += attempt(churn_profiles, switch, rng)
            port, up = rng.randint(1, 2), rng.random() < 0.7
            paths.set_port_up(port, up)
            (down.discard if up else down.add)(port)
            dst, flow = rng.randrange(4), rng.randbytes(4)
            packet = dst.to_bytes(6, "big") + bytes(8) + flow + bytes(4)
            [(egress, _)] = switch.inject(3, packet)
            assert egress == picked(switch, dst, flow, down)
    assert done > TURNS // 4


def test_random_changes_of_state_harm_nothing() -> None:
    """Meters, value sets, digests and entries; colors stay colors, whatever a meter is."""
    rng, done = random.Random(11), 0
    with load("state") as switch:
        for _ in range(TURNS):
            done += attempt(churn_state, switch, rng)
            data = packet(rng)
            for _, out in switch.inject(rng.randint(0, 510), data):
                assert len(out) == len(data)
                if data[12:14] == b"\x11\x11" and len(data) >= 23:
                    assert out[20] <= 2
                    assert out[21] <= 2
    assert done > TURNS // 4
