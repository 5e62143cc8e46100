"""Packets between controller and CPU port, and the packets that the tables steer."""

from __future__ import annotations

import pytest
from finsy.proto import p4r, rpc_code

from softswitch.p4runtime.errors import P4RuntimeError
from softswitch.p4runtime.packet_io import packet_in_message, packet_out_bytes
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_types import HeaderInfo, ParamInfo
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.translation import WireType
from tests.p4rt_support import (
    CPU_PORT,
    IDS,
    JSON_PATH,
    P4INFO,
    Client,
    action,
    exact,
    insert,
    l2_entry,
    modify,
)

pytest_plugins = ("tests.p4rt_fixtures",)

FIELDS = (ParamInfo(1, "port", WireType(9)), ParamInfo(2, "padding", WireType(7)))
SCHEMA = Schema(
    headers={
        "packet_in": HeaderInfo("packet_in", FIELDS),
        "packet_out": HeaderInfo("packet_out", FIELDS),
    }
)
FRAME = bytes.fromhex("0000000000aa 0000000000bb 9999") + b"payload"


def packet_out(port: bytes, payload: bytes = FRAME) -> p4r.PacketOut:
    """Return a packet for a port."""
    metadata = [
        p4r.PacketMetadata(metadata_id=1, value=port),
        p4r.PacketMetadata(metadata_id=2, value=b"\x00"),
    ]
    return p4r.PacketOut(payload=payload, metadata=metadata)


def test_headers_are_packed_and_unpacked() -> None:
    """Metadata is the header in front of the packet, bit by bit."""
    assert packet_out_bytes(SCHEMA, packet_out(b"\x01\xff", b"x")) == b"\xff\x80x"
    message = packet_in_message(SCHEMA, b"\xff\x83x")
    assert message == p4r.PacketIn(
        payload=b"x",
        metadata=[
            p4r.PacketMetadata(metadata_id=1, value=b"\x01\xff"),
            p4r.PacketMetadata(metadata_id=2, value=b"\x03"),
        ],
    )
    assert packet_in_message(SCHEMA, b"\xff") is None
    assert packet_out_bytes(Schema(), p4r.PacketOut(payload=b"x")) == b"x"
    assert packet_in_message(Schema(), b"x") == p4r.PacketIn(payload=b"x")


@pytest.mark.parametrize(
    "message",
    [
        p4r.PacketOut(payload=b"x"),
        packet_out(b"\x02\x00"),
        packet_out(b""),
        packet_out(b"\x01", bytes(10_000)),
        p4r.PacketOut(metadata=[p4r.PacketMetadata(metadata_id=1, value=b"\x01")] * 2),
    ],
)
def test_bad_metadata_is_refused(message: p4r.PacketOut) -> None:
    """Every field once, in range, nothing else."""
    with pytest.raises(P4RuntimeError):
        packet_out_bytes(SCHEMA, message)


@pytest.mark.compiler
def test_packet_out_comes_back(primary: Client) -> None:
    """A PacketOut runs through the pipeline; sent to the CPU port it returns as PacketIn."""
    cpu = CPU_PORT.to_bytes(1, "big")
    primary.send(p4r.StreamMessageRequest(packet=packet_out(cpu)))
    packet = primary.receive().packet
    assert packet.payload == FRAME
    assert packet.metadata[0].value == cpu


@pytest.mark.compiler
def test_stream_errors(primary: Client, switch: P4RuntimeServer) -> None:
    """A bad PacketOut, one of a backup, and a digest's acknowledgement get a StreamError."""
    bad = p4r.PacketOut(payload=b"x", metadata=[p4r.PacketMetadata(metadata_id=7, value=b"\1")])
    primary.send(p4r.StreamMessageRequest(packet=bad))
    error = primary.receive().error
    assert error.canonical_code == rpc_code.INVALID_ARGUMENT
    assert "egress_port (1)" in error.message
    assert error.packet_out.packet_out.metadata[0].metadata_id == 7
    primary.send(p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=1)))
    error = primary.receive().error
    assert error.canonical_code == rpc_code.NOT_FOUND
    assert error.WhichOneof("details") == "digest_list_ack"
    with Client(switch.address, 0) as backup:
        backup.arbitrate()
        backup.send(p4r.StreamMessageRequest(packet=packet_out(b"\x01")))
        assert backup.receive().error.canonical_code == rpc_code.PERMISSION_DENIED


@pytest.mark.compiler
def test_no_cpu_port(p4rt_cache: object) -> None:
    """Without a CPU port packet I/O is refused, and so is its name in clone sessions."""
    with P4RuntimeServer("127.0.0.1:0", cache_dir=p4rt_cache) as server:
        server.commit(P4INFO, JSON_PATH.read_bytes())
        with Client(server.address) as client:
            client.arbitrate()
            client.send(p4r.StreamMessageRequest(packet=packet_out(b"\x01")))
            error = client.receive().error
            assert error.canonical_code == rpc_code.UNIMPLEMENTED
            assert "--cpu-port" in error.message


@pytest.mark.compiler
def test_tables_steer_packets(primary: Client, switch: P4RuntimeServer) -> None:
    """What is written over P4Runtime is what the data plane does, and it counts."""
    dataplane = switch.dataplane
    assert dataplane is not None
    assert dataplane.inject(1, FRAME) == []
    group = p4r.MulticastGroupEntry(
        multicast_group_id=5, replicas=[p4r.Replica(port=b"\1"), p4r.Replica(port=b"\2")]
    )
    session = p4r.CloneSessionEntry(session_id=7, replicas=[p4r.Replica(port=b"\x09")])
    primary.write(
        insert(
            packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
                multicast_group_entry=group
            )
        ),
        insert(
            packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
                clone_session_entry=session
            )
        ),
        insert(table_entry=l2_entry(b"\xaa", b"\x04")),
        insert(
            table_entry=p4r.TableEntry(
                table_id=IDS["acl"],
                match=[exact(1, b"\x02")],
                priority=1,
                action=action("mirror"),
            )
        ),
    )
    assert dataplane.inject(1, FRAME) == [(4, FRAME)]
    assert sorted(dataplane.inject(2, FRAME)) == [(4, FRAME), (9, FRAME)]
    primary.write(
        modify(table_entry=l2_entry(b"\xaa", action=action("flood", b"\x05"))),
    )
    assert sorted(dataplane.inject(1, FRAME)) == [(1, FRAME), (2, FRAME)]

    query = p4r.Entity(
        table_entry=p4r.TableEntry(table_id=IDS["l2"], counter_data=p4r.CounterData())
    )
    (entity,) = primary.read(query)
    assert entity.table_entry.counter_data == p4r.CounterData(
        packet_count=3, byte_count=3 * len(FRAME)
    )
    cell = p4r.CounterEntry(counter_id=IDS["port_counter"], index=p4r.Index(index=1))
    (entity,) = primary.read(p4r.Entity(counter_entry=cell))
    assert entity.counter_entry.data.packet_count == 3
    offset = p4r.RegisterEntry(register_id=IDS["offset"], index=p4r.Index(index=2))
    (entity,) = primary.read(p4r.Entity(register_entry=offset))
    assert entity.register_entry.data.bitstring == b"\xff"
