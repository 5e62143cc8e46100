"""A switch on two veth pairs; runs inside a network namespace of its own (test_softswitch_cli)."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

from finsy.proto import p4r

from tests.p4rt_support import (
    JSON_PATH,
    P4INFO_PATH,
    TIMEOUT_S,
    Client,
    action,
    config,
    insert,
    l2_entry,
    modify,
)

CPU_PORT = 255
FRAME = bytes.fromhex("0000000000aa 0000000000bb 9999") + bytes(46)
SWITCH = "from softswitch.cli import main; main()"


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True)


def _socket(interface: str) -> socket.socket:
    """Return a raw socket that sees frames on an interface."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x9999))
    raw.bind((interface, 0x9999))
    raw.settimeout(TIMEOUT_S)
    return raw


def _exchange(client: Client, host1: socket.socket, host2: socket.socket) -> None:
    client.write(insert(table_entry=l2_entry(b"\xaa", b"\x02")))
    host1.send(FRAME)
    assert host2.recv(2048) == FRAME
    print("forwarded")
    cpu = action("forward", bytes([CPU_PORT]))
    client.write(modify(table_entry=l2_entry(b"\xaa", action=cpu)))
    host1.send(FRAME)
    packet = client.receive().packet
    assert packet.payload == FRAME
    assert packet.metadata[0].value == b"\x01"
    print("packet-in")
    metadata = [
        p4r.PacketMetadata(metadata_id=1, value=b"\x02"),
        p4r.PacketMetadata(metadata_id=2, value=b"\x00"),
    ]
    client.send(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=FRAME, metadata=metadata)))
    assert host2.recv(2048) == FRAME
    print("packet-out")
    client.set_config(p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, config())
    client.write(insert(table_entry=l2_entry(b"\xaa", b"\x01")))
    host2.send(FRAME)
    assert host1.recv(2048) == FRAME
    print("replaced")


def main() -> None:
    """Build the links, start the switch, and drive it."""
    _ip("link", "set", "lo", "up")
    for number in ("1", "2"):
        _ip("link", "add", f"host{number}", "type", "veth", "peer", "name", f"port{number}")
        for end in ("host", "port"):
            Path(f"/proc/sys/net/ipv6/conf/{end}{number}/disable_ipv6").write_text("1")
            _ip("link", "set", f"{end}{number}", "up")
    command = [sys.executable, "-c", SWITCH, "run", "--grpc", "127.0.0.1:0"]
    command += ["-i", "1@port1", "-i", "2@port2", "--cpu-port", str(CPU_PORT)]
    command += ["--json", str(JSON_PATH), "--p4info", str(P4INFO_PATH)]
    switch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert switch.stdout is not None
        ready = json.loads(switch.stdout.readline())
        with Client(ready["grpc"]) as client, _socket("host1") as host1, _socket("host2") as host2:
            client.arbitrate()
            _exchange(client, host1, host2)
        switch.terminate()
        assert switch.wait(TIMEOUT_S) == 0
    finally:
        switch.kill()
