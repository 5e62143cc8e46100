"""Members of groups follow the links of the ports that they watch."""

from __future__ import annotations

import subprocess
import time

import pytest
from finsy.proto import p4r

from softswitch.link_state import link_is_up
from softswitch.p4runtime.server import P4RuntimeServer
from tests.isolation import isolated
from tests.p4rt_programs import program_files
from tests.p4rt_support import Client, exact, insert

pytestmark = pytest.mark.compiler

DST = b"\x02\x00\x00\x00\x00\x01"
DEADLINE_S = 20.0


def test_the_link_of_an_interface() -> None:
    """An interface that does not exist has none."""
    assert not link_is_up("no-such-link")
    assert not link_is_up("a-name-that-is-longer-than-any")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@isolated
def test_members_leave_groups_when_their_link_goes_down() -> None:
    """Within a moment no flow goes to the dead port; they come back with the link."""
    for number in ("1", "2"):
        _ip("link", "add", f"far{number}", "type", "veth", "peer", "name", f"port{number}")
        _ip("link", "set", f"far{number}", "up")
        _ip("link", "set", f"port{number}", "up")
    info, source = program_files("softswitch_profiles")
    ids = {
        item.preamble.alias: item.preamble.id
        for item in (*info.tables, *info.actions, *info.action_profiles)
    }

    def member(port: int) -> p4r.ActionProfileAction:
        value = bytes([port])
        param = p4r.Action.Param(param_id=1, value=value)
        action = p4r.Action(action_id=ids["to_port"], params=[param])
        return p4r.ActionProfileAction(action=action, weight=1, watch_port=value)

    actions = p4r.ActionProfileActionSet(action_profile_actions=[member(1), member(2)])
    entry = p4r.TableEntry(
        table_id=ids["destinations"],
        match=[exact(1, DST)],
        action=p4r.TableAction(action_profile_action_set=actions),
    )
    with P4RuntimeServer("127.0.0.1:0", ports={1: "port1", 2: "port2"}) as server:
        server.commit(info, source)
        with Client(server.address) as client:
            client.arbitrate()
            client.write(insert(table_entry=entry))

        def picked() -> set[int]:
            assert server.dataplane is not None
            packets = (DST + bytes(8) + flow.to_bytes(4, "big") + bytes(4) for flow in range(40))
            return {server.dataplane.inject(3, packet)[0][0] for packet in packets}

        def wait_for(ports: set[int]) -> None:
            deadline = time.monotonic() + DEADLINE_S
            while picked() != ports:
                assert time.monotonic() < deadline, picked()
                time.sleep(0.05)

        wait_for({1, 2})
        _ip("link", "set", "far2", "down")
        wait_for({1})
        _ip("link", "set", "far1", "down")
        wait_for({0})  # the group is empty: nothing sets the port
        _ip("link", "set", "far1", "up")
        _ip("link", "set", "far2", "up")
        wait_for({1, 2})
