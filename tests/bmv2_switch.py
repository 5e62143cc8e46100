"""simple_switch_grpc for tests, without root: packets travel over its gRPC packet stream."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p4.bm.test.StreamPacket"))


_StreamPacket = _stream_packet_class()


class Bmv2Ports:
    """Sends packets into ports and returns what comes out.

    The stream of one packet is closed at once: bmv2 then ends its side when no packet is left in
    the switch, copies and recirculated ones included.
    """

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self._channel).result(timeout=DEADLINE_S)
        self._stream = self._channel.stream_stream(
            "/p4.bm.DataplaneInterface/PacketStream",
            request_serializer=_StreamPacket.SerializeToString,
            response_deserializer=_StreamPacket.FromString,
        )

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Send a packet into a port; return what comes out, as (port, packet)."""
        request = _StreamPacket(device_id=1, port=port, packet=packet)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                responses = self._stream(iter([request]), timeout=DEADLINE_S)
                return [(response.port, response.packet) for response in responses]
            except grpc.RpcError as error:
                # Shortly after its first program the switch takes no packets yet.
                not_yet = error.code() is grpc.StatusCode.UNAVAILABLE
                if not not_yet or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


PORTS = range(20000, 30000)
"""Below the ports that the kernel gives to connections, which could take one in between."""


def free_ports(count: int) -> list[int]:
    """Different TCP ports of the loopback that are free now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found


@contextmanager
def bmv2(log: Path) -> Iterator[tuple[Bmv2Ports, str]]:
    """A running simple_switch_grpc: its ports, once packets can pass, and its P4Runtime address.

    The caller provisions the switch before it uses the ports.
    """
    program = shutil.which("simple_switch_grpc")
    assert program is not None
    thrift, address, packets = free_ports(3)
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                *(program, "--no-p4", "--device-id", "1", "--log-level", "off"),
                *("--thrift-port", str(thrift), "--"),
                *("--grpc-server-addr", f"127.0.0.1:{address}"),
                *("--dp-grpc-server-addr", f"127.0.0.1:{packets}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    ports = None
    try:
        ports = Bmv2Ports(f"127.0.0.1:{packets}")
        yield ports, f"127.0.0.1:{address}"
    finally:
        if ports is not None:
            ports.close()
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
