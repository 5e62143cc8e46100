"""A switch between two pairs of interfaces; run inside a network namespace of its own.

Prints one JSON object with what was observed. Arguments: the number of frames.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import suppress

from softswitch.dataplane import DataPlane
from softswitch.errors import PortError
from tests.softswitch_json import ProgramBuilder, assign, const, field, op

TIMEOUT_S = 20.0
ETH_P_ALL = 3


def swap_program() -> bytes:
    """Frames from port 0 leave by 1 and those from 1 by 0; what starts with 0xff goes to port 9."""
    b = ProgramBuilder()
    b.header("first", [["byte", 8, False]])
    b.deparser = ["first"]
    b.state("start", [b.extract("first")])
    spec = field("standard_metadata", "egress_spec")
    swapped = op("^", field("standard_metadata", "ingress_port"), const(1))
    to_cpu = op("==", field("first", "byte"), const(0xFF))
    b.run("send", [assign(spec, op("?", const(9), swapped, to_cpu))])
    return b.json()


def make_links() -> None:
    """Create veth pairs host0-port0 and host1-port1, all with jumbo MTU."""
    for i in range(2):
        make_link(i)


def make_link(i: int) -> None:
    """Create one of them."""
    ends = [f"host{i}", f"port{i}"]
    subprocess.run(
        ["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True
    )
    for name in ends:
        subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1"], check=False)
        subprocess.run(["ip", "link", "set", name, "mtu", "9200", "up"], check=True)


def open_host(name: str) -> socket.socket:
    """Open a raw socket on a host's end of a link."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sock.bind((name, ETH_P_ALL))
    sock.settimeout(TIMEOUT_S)
    return sock


def receive(sock: socket.socket, count: int) -> list[bytes]:
    """Receive frames that others sent."""
    frames: list[bytes] = []
    while len(frames) < count:
        data, address = sock.recvfrom(65535)
        if address[2] != socket.PACKET_OUTGOING:
            frames.append(data)
    return frames


def frame(number: int, size: int) -> bytes:
    """A frame with an unknown destination and a number in it."""
    return b"\x02" + bytes(11) + b"\x88\xb5" + number.to_bytes(4, "big") + bytes(size - 18)


def reborn(far: socket.socket) -> bytes | None:
    """Delete the link of port 0, make it again, and return what comes through the switch."""
    subprocess.run(["ip", "link", "delete", "host0"], check=True)
    make_link(0)
    near = open_host("host0")
    far.settimeout(0.2)
    for _ in range(100):  # until the switch has heard of it
        near.send(frame(9, 60))
        with suppress(TimeoutError):
            return receive(far, 1)[0]
    return None


def observe(count: int) -> dict[str, object]:
    """Send frames both ways and return what arrived and what was counted."""
    make_links()
    hosts = [open_host(f"host{i}") for i in range(2)]
    with DataPlane.load(swap_program()) as switch:
        for i in range(2):
            switch.attach_port(i, f"port{i}")
        errors = []
        for port, name in ((0, "port1"), (5, "nowhere"), (600, "port0")):
            try:
                switch.attach_port(port, name)
            except PortError as error:
                errors.append(str(error))
        switch.set_cpu_port(9)
        switch.start()
        received: list[bytes] = []
        for start in range(0, count, 64):
            batch = range(start, min(start + 64, count))
            for number in batch:
                hosts[0].send(frame(number, 60 + number % 1000))
            received += receive(hosts[1], len(batch))
        hosts[1].send(frame(7, 9100))
        [jumbo] = receive(hosts[0], 1)
        hosts[0].send(b"\xff" + frame(1, 60)[1:])
        packet_ins = switch.packet_in(TIMEOUT_S)
        switch.packet_out(frame(3, 60))  # from port 9 to port 8, which has no interface
        stats = switch.port_stats()
        switch.stop()
        hosts[0].send(frame(8, 60))
        switch.start()
        [after_restart] = receive(hosts[1], 1)
        try:
            with DataPlane.load(swap_program()) as other:
                other.attach_port(0, "port1")
        except PortError as error:
            errors.append(str(error))
        again = reborn(hosts[1])
        return {
            "reborn": again == frame(9, 60),
            "in_order": received == [frame(n, 60 + n % 1000) for n in range(count)],
            "jumbo": jumbo == frame(7, 9100),
            "packet_ins": len(packet_ins),
            "after_restart": after_restart == frame(8, 60),
            "errors": errors,
            "rx": stats[0].rx,
            "tx": stats[1].tx,
            "rx_bytes": stats[1].rx_bytes,
            "no_port": switch.drop_stats()["no_port"],
        }


if __name__ == "__main__":
    print(json.dumps(observe(int(sys.argv[1]))))
