"""A switch with faulty links between two pairs of interfaces, in a network namespace of its own.

Prints one JSON object with what was observed.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from pathlib import Path

from softswitch.dataplane import DataPlane
from softswitch.faults import Direction, LinkFaults
from tests.link_model import fate
from tests.softswitch_port_session import frame, make_links, open_host, receive, swap_program

COUNT = 300
END = 1 << 20


def number(data: bytes) -> int:
    """The number in a frame."""
    return int.from_bytes(data[14:18], "big")


def pass_frames(hosts: list[socket.socket], count: int, size: int = 60) -> list[int]:
    """Send frames and one that ends them through the switch; return the numbers that arrive."""
    for k in range(count):
        hosts[0].send(frame(k, size))
    return [number(data) for data in receive(hosts[1], count)]


def observe() -> dict[str, bool]:
    """Try the faults that depend on the thread and its clock."""
    make_links()
    hosts = [open_host(f"host{i}") for i in range(2)]
    seen = {}
    with DataPlane.load(swap_program()) as switch:
        for i in range(2):
            switch.attach_port(i, f"port{i}")
        faults = LinkFaults(loss=0.3, seed=5)
        switch.set_link_faults(0, Direction.RX, faults)
        switch.start()
        kept = [k for k in range(COUNT) if not fate(faults, 0, Direction.RX, k).lost]
        for k in range(COUNT):
            hosts[0].send(frame(k, 60))
        seen["lost_as_foreseen"] = [number(f) for f in receive(hosts[1], len(kept))] == kept

        switch.set_link_faults(0, Direction.RX, LinkFaults(delay_s=0.02))
        switch.set_link_faults(1, Direction.TX, LinkFaults(delay_s=0.03, jitter_s=0.03))
        begin = time.monotonic()
        seen["delayed_in_order"] = pass_frames(hosts, COUNT) == list(range(COUNT))
        seen["at_least_the_delay"] = time.monotonic() - begin >= 0.02

        switch.set_link_faults(0, Direction.RX, LinkFaults())
        switch.set_link_faults(1, Direction.TX, LinkFaults(rate_bps=2_400_000))
        begin = time.monotonic()
        arrived = pass_frames(hosts, 60, 500)  # 100 ms
        elapsed_s = time.monotonic() - begin
        seen["at_least_the_rate"] = arrived == list(range(60)) and elapsed_s >= 0.1

        switch.set_link_faults(1, Direction.TX, LinkFaults(reorder=1.0, hold_s=0.01))
        seen["released_by_timer"] = pass_frames(hosts, 1) == [0]

        switch.set_link_faults(1, Direction.TX, LinkFaults())
        switch.set_link_state(0, up=False)
        hosts[0].send(frame(1, 60))
        while not switch.link_stats()[0, Direction.RX].cut:
            time.sleep(0.01)
        seen["cut"] = switch.port_stats()[0].rx == 2 * COUNT + 62
        switch.set_link_state(0, up=True)
        seen["mended"] = pass_frames(hosts, 5) == list(range(5))
        seen["recirculated"] = pass_recirculated(hosts, switch)
    return seen


def pass_recirculated(hosts: list[socket.socket], former: DataPlane) -> bool:
    """A packet that is recirculated, in a later turn of the loop, meets a delay on its way out."""
    program = Path(__file__).parent / "p4" / "softswitch_replication.json"
    former.detach_port(1)
    with DataPlane.load(program.read_bytes()) as switch:
        switch.attach_port(1, "port1")
        switch.set_link_faults(1, Direction.TX, LinkFaults(delay_s=0.005))
        switch.start()
        hosts[1].send(struct.pack(">BBH", 5, 3, 0) + bytes(60))
        receive(hosts[1], 1)
        return switch.link_stats()[1, Direction.TX].passed == 1


if __name__ == "__main__":
    print(json.dumps(observe()))
