"""AF_PACKET ports: a running switch between veth pairs, in a namespace of its own."""

from __future__ import annotations

import os
import shutil

import pytest

from softswitch.dataplane import DataPlane
from softswitch.errors import InvalidArgument, PortError, SoftSwitchError
from softswitch.ports import MAX_RING_PLACES, RING_PLACES
from tests.in_namespace import observe
from tests.softswitch_flood_session import OTHERS
from tests.softswitch_port_session import SIZES, swap_program

pytestmark = pytest.mark.compiler

FRAMES = 1000


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for raw sockets and namespaces")
@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("ip"), reason="needs iproute2")
@pytest.mark.parametrize("ring_places", [RING_PLACES, 0])
def test_frames_cross_the_switch_unchanged_and_in_order(ring_places: int) -> None:
    """Frames of any length and with VLAN tags, and packets for the CPU, arrive and are counted."""
    seen, log = observe("softswitch_port_session", str(FRAMES), str(ring_places))
    assert "no ring of 4096 frames (Cannot allocate memory)" in log
    errors = seen.pop("errors")
    assert seen == {
        "reborn": True,
        "long_after_down": True,
        "moved": True,
        "flapped": True,
        "held": 64,
        "without_ring": True,
        "in_order": True,
        "sizes": list(SIZES),
        "oversize": 2,
        "packet_ins": 1,
        "after_restart": True,
        "rx": FRAMES + 1,
        "tx": FRAMES,
        "rx_bytes": 2 * sum(SIZES),
        "no_port": 1,
    }
    assert len(errors) == 4
    assert "attached to 'port0' already" in errors[0]
    assert "cannot use interface 'nowhere'" in errors[1]
    assert "allowed is 0 to 510" in errors[2]
    assert "another switch, or port, has the interface 'port1'" in errors[3]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for raw sockets and namespaces")
@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("ip"), reason="needs iproute2")
def test_a_flooded_switch_stays_awake_and_forgets_nobody() -> None:
    """Its rings are read without the epoll set; other ports, detaching and stopping go on."""
    seen, _ = observe("softswitch_flood_session")
    assert seen == {
        "awake": True,
        "others_answered": OTHERS,
        "none_lost": True,
        "asleep_again": True,
        "none_lost_after": True,
        "no_port": 0,
    }


def test_ports_that_are_not_there_are_refused() -> None:
    """Bad port numbers and names raise PortError or InvalidArgument."""
    with DataPlane.load(swap_program()) as switch:
        with pytest.raises(PortError, match="not attached"):
            switch.detach_port(3)
        with pytest.raises(PortError, match=f"allowed is 0 to {MAX_RING_PLACES}"):
            switch.attach_port(3, "lo", MAX_RING_PLACES + 1)
        with pytest.raises(PortError, match="not the name"):
            switch.attach_port(3, "a\0b")
        with pytest.raises(InvalidArgument, match="0 to 510"):
            switch.inject(511, b"\0" * 60)
        with pytest.raises(InvalidArgument, match="10240"):
            switch.inject(0, bytes(10241))
        with pytest.raises(InvalidArgument, match="no CPU port"):
            switch.packet_out(bytes(60))
        assert switch.packet_in(0.0) == []
        assert switch.port_stats() == {}


def test_a_closed_switch_says_so() -> None:
    """Every use after close() raises, and close() may be repeated."""
    switch = DataPlane.load(swap_program())
    switch.close()
    switch.close()
    with pytest.raises(SoftSwitchError, match="closed"):
        switch.inject(0, bytes(60))
    with pytest.raises(SoftSwitchError, match="closed"):
        switch.start()
