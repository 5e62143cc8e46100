"""A switch between two pairs of interfaces; run inside a network namespace of its own.

Prints one JSON object with what was observed. Arguments: the number of frames, and the places of a
port's receive ring (0: frames come through the socket's buffer).
"""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from softswitch.dataplane import DataPlane
from softswitch.errors import PortError
from tests.softswitch_json import ProgramBuilder, assign, const, field, op

TIMEOUT_S = 20.0
ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA, VLAN_VALID = 263, 8, 1 << 4
LONGEST = 10240
SIZES = (60, 1514, 1981, 1982, 1983, 2047, 2048, 4096, 9014, LONGEST - 1, LONGEST)
"""Lengths around the room of a ring's place (1,982 bytes), its size, and the longest frame."""

TAG = b"\x81\x00\x20\x2a"


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
        subprocess.run(["ip", "link", "set", name, "mtu", "10400", "up"], check=True)


def open_host(name: str) -> socket.socket:
    """Open a raw socket on a host's end of a link."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    sock.bind((name, ETH_P_ALL))
    sock.settimeout(TIMEOUT_S)
    return sock


def receive(sock: socket.socket, count: int) -> list[bytes]:
    """Receive frames that others sent, with the VLAN tags that the kernel takes out."""
    frames: list[bytes] = []
    while len(frames) < count:
        data, beside, _, address = sock.recvmsg(65535, 256)
        if address[2] == socket.PACKET_OUTGOING:
            continue
        for level, kind, about in beside:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", about)
                if status & VLAN_VALID:
                    data = data[:12] + struct.pack(">HH", tpid, tci) + data[12:]
        frames.append(data)
    return frames


def frame(number: int, size: int) -> bytes:
    """A frame with an unknown destination and a number in it."""
    return (b"\x02" + bytes(11) + b"\x88\xb5" + number.to_bytes(4, "big") + bytes(size))[:size]


def tagged(number: int, size: int) -> bytes:
    """The same with a VLAN tag."""
    plain = frame(number, size - len(TAG))
    return plain[:12] + TAG + plain[12:]


def unchanged(near: socket.socket, far: socket.socket) -> list[int]:
    """Return the sizes of the frames that crossed the switch as they were, with and without tag."""
    found = []
    for size in SIZES:
        sent = [frame(size, size), tagged(size, size)]
        for each in sent:
            near.send(each)
        if receive(far, len(sent)) == sent:
            found.append(size)
    return found


def dropped_when_full(switch: DataPlane, near: socket.socket, places: int) -> int:
    """Send more to a switch that stands still than a small ring holds; return what is not lost."""
    switch.stop()
    switch.detach_port(0)
    switch.attach_port(0, "port0", places)
    extra = 100
    for number in range(places + extra):
        near.send(frame(number, 60))
    switch.start()
    wait_for(lambda: switch.port_stats()[0].rx == places)
    return places + extra - switch.port_stats()[0].rx_dropped


def without_memory(switch: DataPlane, near: socket.socket, far: socket.socket) -> bool:
    """Attach port 0 where there is no memory for a ring; return whether frames cross the switch."""
    switch.detach_port(0)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), before[1]))
    try:
        switch.attach_port(0, "port0")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    sent = [frame(5, 60), tagged(6, 3000)]
    for each in sent:
        near.send(each)
    far.settimeout(TIMEOUT_S)
    return receive(far, len(sent)) == sent


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, which has to be soon."""
    end = time.monotonic() + TIMEOUT_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def down_and_up(near: socket.socket, far: socket.socket) -> bool:
    """Take port 0 down and up again; return whether frames cross the switch afterwards."""
    for state in ("down", "up"):
        subprocess.run(["ip", "link", "set", "port0", state], check=True)
    far.settimeout(0.2)
    for number in range(100):  # until the link is up at both ends
        near.send(frame(number, 60))
        with suppress(TimeoutError):
            return receive(far, 1)[0] == frame(number, 60)
    return False


def until_through(near: socket.socket, far: socket.socket, sent: bytes) -> bool:
    """Send a frame until one comes through, while link and switch come back; whether it is that."""
    far.settimeout(0.2)
    for _ in range(100):
        near.send(sent)
        with suppress(TimeoutError):
            return receive(far, 1)[0] == sent
    return False


def reborn(far: socket.socket) -> bool:
    """Delete the link of port 0 and make it again; return whether frames cross the switch."""
    subprocess.run(["ip", "link", "delete", "host0"], check=True)
    make_link(0)
    return until_through(open_host("host0"), far, frame(9, 60))


def moved(near: socket.socket, far: socket.socket) -> bool:
    """Move port 0 to another namespace and back, with its number; whether frames cross then."""
    elsewhere = subprocess.Popen(["unshare", "-n", "sleep", str(10 * TIMEOUT_S)])
    try:
        own = Path("/proc/self/ns/net").readlink()
        wait_for(lambda: Path(f"/proc/{elsewhere.pid}/ns/net").readlink() != own)
        away = ["ip", "link", "set", "port0", "netns", str(elsewhere.pid)]
        back = ["ip", "link", "set", "port0", "netns", str(os.getpid())]
        subprocess.run(away, check=True)
        subprocess.run(["nsenter", "-t", str(elsewhere.pid), "-n", *back], check=True)
    finally:
        elsewhere.kill()
        elsewhere.wait()
    for name in ("port0", "host0"):
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    return until_through(near, far, frame(8, 60))


def long_after_down(switch: DataPlane, near: socket.socket, far: socket.socket) -> bool:
    """Long frames that wait while port 0 goes down cross the switch in order, and so do others."""
    switch.stop()
    sent = [frame(number, 4096) for number in range(4)]
    for each in sent[:3]:
        near.send(each)
    for state in ("down", "up"):
        subprocess.run(["ip", "link", "set", "port0", state], check=True)
    switch.start()
    far.settimeout(TIMEOUT_S)
    return receive(far, 3) == sent[:3] and until_through(near, far, sent[3])


def observe(count: int, ring_places: int) -> dict[str, object]:
    """Send frames both ways and return what arrived and what was counted."""
    make_links()
    hosts = [open_host(f"host{i}") for i in range(2)]
    with DataPlane.load(swap_program()) as switch:
        for i in range(2):
            switch.attach_port(i, f"port{i}", ring_places)
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
        hosts[1].send(frame(7, LONGEST + 1))
        hosts[1].send(tagged(7, LONGEST + 4))
        sizes = unchanged(hosts[1], hosts[0])
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
        near = open_host("host0")
        flapped = down_and_up(near, hosts[1])
        long = long_after_down(switch, near, hosts[1])
        back = moved(near, hosts[1])
        held = dropped_when_full(switch, near, 64) if ring_places else 64
        receive(hosts[1], 64 if ring_places else 0)
        crossed = without_memory(switch, near, hosts[1])
        return {
            "without_ring": crossed,
            "reborn": again,
            "flapped": flapped,
            "long_after_down": long,
            "moved": back,
            "held": held,
            "in_order": received == [frame(n, 60 + n % 1000) for n in range(count)],
            "sizes": sizes,
            "oversize": stats[1].oversize,
            "packet_ins": len(packet_ins),
            "after_restart": after_restart == frame(8, 60),
            "errors": errors,
            "rx": stats[0].rx,
            "tx": stats[1].tx,
            "rx_bytes": stats[1].rx_bytes,
            "no_port": switch.drop_stats()["no_port"],
        }


if __name__ == "__main__":
    print(json.dumps(observe(int(sys.argv[1]), int(sys.argv[2]))))
