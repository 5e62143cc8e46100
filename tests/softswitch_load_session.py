"""Writes to tables while packets pass: a switch between two pairs of interfaces, in a namespace.

Each packet carries away what four tables said. Prints one JSON object with what was observed.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from itertools import count

from softswitch.dataplane import DataPlane, MatchKey, TableEntry
from tests.softswitch_json import ProgramBuilder, assign, const, field, op, param
from tests.softswitch_port_session import make_links, open_host, receive

WINDOW = 256
PACKETS, VERSIONS = 10_000, 200
KEY = (MatchKey(2),)
LAYOUT = struct.Struct(">B3xIIIQQ36x")  # kind, number, first, second, wide (twice), padding
FIELDS = [["kind", 8, False], ["pad", 24, False], ["number", 32, False]]
FIELDS += [["first", 32, False], ["second", 32, False], ["wide", 128, False]]


def program() -> bytes:
    """Four tables with the same key; each writes its parameter into a field of its own."""
    b = ProgramBuilder()
    b.header("h", FIELDS)
    b.deparser = ["h"]
    b.state("start", [b.extract("h")])
    for name, width in (("first", 32), ("second", 32), ("wide", 128)):
        action = b.action(f"set_{name}", [assign(field("h", name), param(0))], [width])
        b.table(name, [("exact", field("h", "kind"))], [action])
    drop = b.action("lose", [assign(field("standard_metadata", "egress_spec"), const(511))])
    go = b.action("go", [])
    swapped = op("^", field("standard_metadata", "ingress_port"), const(1))
    b.run("send", [assign(field("standard_metadata", "egress_spec"), swapped)])
    keys = [("exact", field("h", "kind")), ("exact", field("h", "pad"))]
    b.table("guard", keys, [drop, go], (drop, []), size=1 << 20)
    return b.json()


def entry(name: str, value: int) -> TableEntry:
    """The entry of a table for the packets of this test."""
    return TableEntry(KEY, 0, f"set_{name}", (value,))


def write(switch: DataPlane, stop: threading.Event) -> int:
    """Change all tables as fast as possible; return how often."""
    for version in count(1):
        with switch.hold_writes() as held:
            switch.table_modify("first", entry("first", version))
            switch.table_modify("second", entry("second", version))
            assert held.apply(lambda _: None)
        switch.table_modify("wide", entry("wide", version << 64 | version))
        # The guard grows, is rebuilt and shrinks again around the entry that packets need.
        other = (MatchKey(version % 251 + 3), MatchKey(version))
        switch.table_add("guard", TableEntry(other, 0, "go", ()))
        if version % 1000 == 0:
            for old in range(version - 999, version + 1):
                switch.table_delete("guard", (MatchKey(old % 251 + 3), MatchKey(old)), 0)
        if stop.is_set():
            return version
    raise AssertionError


def observe() -> dict[str, object]:
    """Send packets and check what each has seen, while another thread writes."""
    make_links()
    hosts = [open_host(f"host{i}") for i in range(2)]
    with DataPlane.load(program()) as switch:
        for name in ("first", "second", "wide"):
            switch.table_add(name, entry(name, 0))
        switch.table_add("guard", TableEntry((*KEY, MatchKey(0)), 0, "go", ()))
        for i in range(2):
            switch.attach_port(i, f"port{i}")
        switch.start()
        stop, writes = threading.Event(), []
        writer = threading.Thread(target=lambda: writes.append(write(switch, stop)))
        writer.start()
        try:
            seen = pass_packets(hosts)
        finally:
            stop.set()
            writer.join()
        drops = {name: value for name, value in switch.drop_stats().items() if value}
    return {**seen, "drops": drops, "written": writes[0] >= VERSIONS}


def pass_packets(hosts: list[socket.socket]) -> dict[str, object]:
    """Send windows of packets until enough have passed and seen enough versions."""
    rows: list[tuple[int, ...]] = []
    versions: set[int] = set()
    while len(rows) < PACKETS or len(versions) < VERSIONS:
        for number in range(len(rows), len(rows) + WINDOW):
            hosts[0].send(LAYOUT.pack(2, number, 0, 0, 0, 0))
        for data in receive(hosts[1], WINDOW):
            rows.append(LAYOUT.unpack(data))
            versions.add(rows[-1][2])
    columns = list(zip(*rows, strict=True))
    return {
        "none_lost": list(columns[1]) == list(range(len(rows))),
        "batches_whole": columns[2] == columns[3],
        "entries_whole": columns[4] == columns[5],
        "never_back": list(columns[2]) == sorted(columns[2]),
    }


if __name__ == "__main__":
    print(json.dumps(observe()))
