"""A switch under full load while a controller writes and is killed; run in a network namespace.

Frames come in at port 1 as fast as they leave at port 2, with a window of them in flight: more than
the ring of a port holds would be lost whoever is slow. An entry sends them to one of two multicast
groups; the group that it names leads to port 2, the other one to port 3. A controller changes
entry and groups together, in atomic batches, and is killed in the middle. Prints what was counted.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from finsy.proto import p4r

from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import (
    JSON_PATH,
    P4INFO,
    TIMEOUT_S,
    Client,
    action,
    insert,
    l2_entry,
    modify,
)

ETHER_TYPE = 0x9999
FRAME = bytes.fromhex("0000000000aa 0000000000bb") + ETHER_TYPE.to_bytes(2, "big") + bytes(46)
WINDOW = 1024
SO_RCVBUFFORCE = 33


def _group(group_id: int, port: int) -> p4r.PacketReplicationEngineEntry:
    return p4r.PacketReplicationEngineEntry(
        multicast_group_entry=p4r.MulticastGroupEntry(
            multicast_group_id=group_id, replicas=[p4r.Replica(port=bytes([port]), instance=0)]
        )
    )


def _flood(group_id: int) -> p4r.TableEntry:
    return l2_entry(b"\xaa", action=action("flood", bytes([group_id])))


def control(address: str) -> None:
    """Be the controller: set up, say so, and change everything again and again."""
    others = [l2_entry(b"\x01" + bytes([number])) for number in range(200)]
    with Client(address, 1) as client:
        client.arbitrate()
        client.write(
            insert(table_entry=_flood(1)),
            insert(packet_replication_engine_entry=_group(1, 2)),
            insert(packet_replication_engine_entry=_group(2, 3)),
        )
        print("ready", flush=True)
        good, bad = 1, 2
        for number in range(1 << 30):
            good, bad = bad, good
            change = modify if number else insert
            client.write(
                modify(table_entry=_flood(good)),
                *(change(table_entry=entry) for entry in others),
                modify(packet_replication_engine_entry=_group(good, 2)),
                modify(packet_replication_engine_entry=_group(bad, 3)),
                atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC,
            )
            print(number, flush=True)


def send(count: int) -> None:
    """Send frames into port 1, and count those that come out of port 2."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as into,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out,
    ):
        into.bind(("host1", 0))
        out.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, WINDOW << 12)
        out.bind(("host2", ETHER_TYPE))
        out.settimeout(TIMEOUT_S)
        for number in range(count):
            if number >= WINDOW:
                out.recv(len(FRAME))
            into.send(FRAME)


def _links() -> None:
    for number in ("1", "2", "3"):
        command = ["ip", "link", "add", f"host{number}", "type", "veth"]
        subprocess.run([*command, "peer", "name", f"port{number}"], check=True)
        for end in ("host", "port"):
            Path(f"/proc/sys/net/ipv6/conf/{end}{number}/disable_ipv6").write_text("1")
            subprocess.run(["ip", "link", "set", f"{end}{number}", "up"], check=True)


def _child(call: str) -> subprocess.Popen[str]:
    code = f"from tests import p4rt_load_netns; p4rt_load_netns.{call}"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def main(count: int) -> None:
    """Run switch, controller and sender."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    _links()
    ports = {number: f"port{number}" for number in (1, 2, 3)}
    with P4RuntimeServer("127.0.0.1:0", ports=ports) as server:
        server.commit(P4INFO, JSON_PATH.read_bytes())
        dataplane = server.dataplane
        assert dataplane is not None
        controller = _child(f"control({server.address!r})")
        assert controller.stdout is not None
        assert controller.stdout.readline() == "ready\n"
        sender = _child(f"send({count})")
        batches = 0
        while dataplane.port_stats()[1].rx < count // 2:
            assert sender.poll() is None or dataplane.port_stats()[1].rx >= count // 2
            controller.stdout.readline()
            batches += 1
        controller.kill()
        controller.wait(TIMEOUT_S)
        sender.wait(TIMEOUT_S * 2)
        deadline = time.monotonic() + TIMEOUT_S
        while dataplane.port_stats()[1].rx < count and time.monotonic() < deadline:
            time.sleep(0.05)
        stats = dataplane.port_stats()
        with Client(server.address, 1) as successor:
            answer = successor.arbitrate()
        print(
            json.dumps(
                {
                    "batches": batches,
                    "received": stats[1].rx,
                    "sent": {number: stats[number].tx for number in (2, 3)},
                    "errors": stats[2].tx_errors + stats[3].tx_errors,
                    "dropped": sum(dataplane.drop_stats().values()),
                    "successor": answer.status.code,
                }
            )
        )
