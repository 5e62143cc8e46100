"""Counters of what went nowhere, by reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from softswitch.dataplane import DataPlane
from softswitch.wiring import Wiring
from tests.in_namespace import observe
from tests.softswitch_port_session import frame, make_links, open_host, receive, swap_program

pytestmark = pytest.mark.compiler


def test_parser_errors_are_counted_by_name() -> None:
    """They do not drop in v1model, so they have counters of their own."""
    with DataPlane.load(swap_program()) as switch:
        for packet in (b"", b"\x01", b""):
            assert switch.inject(0, packet) == [(1, packet)]
        errors = switch.parser_errors()
        assert errors["PacketTooShort"] == 2
        assert sum(errors.values()) == 2
        assert "NoError" not in errors
        wiring = Wiring([])
        wiring.prepare(switch)
        assert wiring.stats()["parser_errors"] == errors


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for raw sockets and namespaces")
@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("ip"), reason="needs iproute2")
def test_what_interfaces_lose_is_counted() -> None:
    """Frames that are too long, that an interface refuses, or that the switch does not fetch."""
    seen, _ = observe("test_softswitch_drops")
    assert seen.pop("rx_dropped") > 0
    assert seen == {
        "oversize": 1,
        "rx_oversize": 1,
        "tx_errors": 1,
        "tx_error": 1,
        "no_port": 1,
        "forwarded": True,
    }


def lose_frames() -> dict[str, int | bool]:
    """Lose a frame in each way; run inside a network namespace of its own."""
    make_links()
    for name, mtu in (("host0", 12000), ("port0", 12000), ("port1", 1500)):
        subprocess.run(["ip", "link", "set", name, "mtu", str(mtu)], check=True)
    hosts = [open_host(f"host{i}") for i in range(2)]
    with DataPlane.load(swap_program()) as switch:
        for i in range(2):
            switch.attach_port(i, f"port{i}")
        switch.start()
        hosts[0].send(frame(0, 11000))
        hosts[0].send(frame(1, 9000))
        hosts[0].send(b"\xff" + frame(2, 60)[1:])
        hosts[0].send(frame(3, 60))
        [last] = receive(hosts[1], 1)
        ports, drops = switch.port_stats(), switch.drop_stats()
        switch.stop()
        for k in range(40000):
            hosts[0].send(frame(k, 9000))
            if k % 1000 == 0 and switch.port_stats()[0].rx_dropped:
                break
        return {
            "oversize": ports[0].oversize,
            "rx_oversize": drops["rx_oversize"],
            "tx_errors": ports[1].tx_errors,
            "tx_error": drops["tx_error"],
            "no_port": drops["no_port"],
            "forwarded": last == frame(3, 60),
            "rx_dropped": switch.port_stats()[0].rx_dropped,
        }


if __name__ == "__main__":
    print(json.dumps(lose_frames()))
