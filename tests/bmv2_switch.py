"""simple_switch_grpc for tests, without root: packets travel over its gRPC packet stream."""

from __future__ import annotations

import queue
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.memory_network import frame

MARKER_PORT = 40000
QUIET_ROUNDS = 3
DEADLINE_S = 20.0


def _stream_packet_class() -> type:
    """The message of bmv2's packet stream: id, device_id, port, packet."""
    file = descriptor_pb2.FileDescriptorProto(
        name="stream.proto", package="p4.bm.test", syntax="proto3"
    )
    message = file.message_type.add(name="StreamPacket")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, (name, kind) in enumerate(
        [
            ("id", kinds.TYPE_UINT64),
            ("device_id", kinds.TYPE_UINT64),
            ("port", kinds.TYPE_UINT32),
            ("packet", kinds.TYPE_BYTES),
        ],
        start=1,
    ):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("p4.bm.test.StreamPacket")
    )


_StreamPacket = _stream_packet_class()


class Bmv2Ports:
    """Sends packets into ports and tells when all that follows from one has come out.

    bmv2 says nothing of the kind itself. So a marker is sent to the host behind every port; what
    comes out of a port before its marker belongs to the packet. Copies that are recirculated may
    overtake or follow a marker, so markers go round until nothing else has come several times.
    """

    def __init__(self, address: str, hosts: dict[int, str]) -> None:
        self._hosts = hosts
        self._requests: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._outputs: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self._channel).result(timeout=DEADLINE_S)
        stream = self._channel.stream_stream(
            "/p4.bm.DataplaneInterface/PacketStream",
            request_serializer=_StreamPacket.SerializeToString,
            response_deserializer=_StreamPacket.FromString,
        )
        self._responses = stream(iter(self._requests.get, None))
        threading.Thread(target=self._follow, daemon=True).start()
        self._marks = 0

    def _follow(self) -> None:
        try:
            for response in self._responses:
                self._outputs.put((response.port, response.packet))
        except grpc.RpcError:
            return

    def _put(self, port: int, packet: bytes) -> None:
        self._requests.put(_StreamPacket(id=0, device_id=1, port=port, packet=packet))

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Send a packet into a port; return what comes out, as (port, packet)."""
        self._put(port, packet)
        found: list[tuple[int, bytes]] = []
        quiet = 0
        while quiet < QUIET_ROUNDS:
            fresh = self._round_of_markers()
            found += fresh
            quiet = 0 if fresh else quiet + 1
        return found

    def _round_of_markers(self) -> list[tuple[int, bytes]]:
        self._marks += 1
        mark = b"marker" + self._marks.to_bytes(8, "big")
        waiting = set(self._hosts)
        for port, address in self._hosts.items():
            raw = frame(address, address, mark)
            self._put(port, raw[:36] + MARKER_PORT.to_bytes(2, "big") + raw[38:])
        found = []
        deadline = time.monotonic() + DEADLINE_S
        while waiting:
            port, packet = self._outputs.get(timeout=max(0.1, deadline - time.monotonic()))
            if packet.endswith(mark):
                waiting.discard(port)
            else:
                found.append((port, packet))
        return found

    def close(self) -> None:
        """End the stream."""
        self._requests.put(None)
        self._channel.close()


def free_port() -> int:
    """A TCP port of the loopback that is free now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def bmv2(log: Path, hosts: dict[int, str]) -> Iterator[tuple[Bmv2Ports, str]]:
    """A running simple_switch_grpc: its ports, once packets can pass, and its P4Runtime address.

    The caller provisions the switch before it uses the ports.
    """
    program = shutil.which("simple_switch_grpc")
    assert program is not None
    address, packets = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                *(program, "--no-p4", "--device-id", "1", "--log-level", "off"),
                *("--", "--grpc-server-addr", address, "--dp-grpc-server-addr", packets),
            ],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    ports = None
    try:
        ports = Bmv2Ports(packets, hosts)
        yield ports, address
    finally:
        if ports is not None:
            ports.close()
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
