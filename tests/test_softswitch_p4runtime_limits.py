"""What a client cannot do to the others: sizes, slow readers, and clients that are killed."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from functools import partial
from pathlib import Path

import grpc
import pytest
from finsy.proto import U128, p4r, p4r_grpc, rpc_code

from softswitch import replication
from softswitch.p4runtime import service
from softswitch.p4runtime.errors import P4RuntimeError
from softswitch.p4runtime.limits import MAX_METADATA_BYTES, MAX_READS, ReadSlots
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.stream import MAX_QUEUED
from tests.p4rt_support import (
    CPU_PORT,
    IDS,
    JSON_PATH,
    P4INFO,
    TIMEOUT_S,
    Client,
    eventually,
    insert,
    l2_entry,
    refused,
)

pytest_plugins = ("tests.p4rt_fixtures",)

SMALL_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16))
"""Options of a client that takes little before it reads."""

L2 = p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["l2"]))


def group(group_id: int, replicas: int, metadata: bytes = b"") -> p4r.PacketReplicationEngineEntry:
    """Return a multicast group with some replicas."""
    return p4r.PacketReplicationEngineEntry(
        multicast_group_entry=p4r.MulticastGroupEntry(
            multicast_group_id=group_id,
            replicas=[p4r.Replica(port=b"\x01", instance=number) for number in range(replicas)],
            metadata=metadata,
        )
    )


def test_slots_of_reads() -> None:
    """Reads that make progress keep their place, one that stalled gives it to a new one."""
    ended: list[int] = []
    slots = ReadSlots(2, stall_s=3600)
    with slots.slot(lambda: ended.append(1)) as first, slots.slot(lambda: ended.append(2)):
        with (
            pytest.raises(P4RuntimeError, match="more than 2 Reads") as caught,
            slots.slot(lambda: None),
        ):
            pass
        assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        first.progress_s -= 4000
        with slots.slot(lambda: ended.append(3)):
            assert ended == [1]
            first.progress()  # too late: its place is gone
    with slots.slot(lambda: None), slots.slot(lambda: None):
        assert ended == [1]


@pytest.mark.compiler
def test_slow_readers_block_nobody(p4rt_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that open every Read there is, and take nothing, hold up no one else."""
    monkeypatch.setattr(service, "ReadSlots", partial(ReadSlots, stall_s=0.0))
    with (
        P4RuntimeServer("127.0.0.1:0", cache_dir=p4rt_cache) as server,
        Client(server.address) as writer,
        grpc.insecure_channel(server.address, options=SMALL_WINDOW) as channel,
    ):
        server.commit(P4INFO, JSON_PATH.read_bytes())
        writer.arbitrate()
        most = bytes(MAX_METADATA_BYTES)
        entries = [l2_entry(n.to_bytes(2, "big"), metadata=most) for n in range(256, 1280)]
        writer.write(*(insert(table_entry=entry) for entry in entries))
        read = channel.unary_stream(
            "/p4.v1.P4Runtime/Read",
            request_serializer=p4r.ReadRequest.SerializeToString,
            response_deserializer=p4r.ReadResponse.FromString,
        )
        request = p4r.ReadRequest(device_id=1, entities=[L2])
        stuck = [read(request) for _ in range(MAX_READS)]
        for call in stuck:
            next(call)
        eventually(lambda: writer.read(L2))
        assert len(writer.read(L2)) == len(entries)
        writer.write(insert(table_entry=l2_entry(b"\x02")))
        ends = []
        for call in stuck:
            try:
                ends.append(sum(len(response.entities) for response in call))
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.CANCELLED
        assert len(ends) < MAX_READS


@pytest.mark.compiler
def test_stream_that_is_not_read(switch: P4RuntimeServer) -> None:
    """A primary that sends packets and reads none of those that come back blocks nobody."""
    metadata = [
        p4r.PacketMetadata(metadata_id=1, value=bytes([CPU_PORT])),
        p4r.PacketMetadata(metadata_id=2, value=b"\x00"),
    ]
    packet = p4r.PacketOut(payload=bytes(1400), metadata=metadata)
    count = MAX_QUEUED + 1000
    requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
    update = p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(5))
    requests.put(p4r.StreamMessageRequest(arbitration=update))
    for _ in range(count):
        requests.put(p4r.StreamMessageRequest(packet=packet))
    with grpc.insecure_channel(switch.address, options=SMALL_WINDOW) as channel:
        call = p4r_grpc.P4RuntimeStub(channel).StreamChannel(iter(requests.get, None))
        with Client(switch.address, 1, "other") as other:
            assert other.arbitrate().status.code == rpc_code.OK
            for _ in range(count // 4):  # some may be dropped on the way to this one, which reads
                assert len(other.receive().packet.payload) == 1400
            other.write(insert(table_entry=l2_entry(b"\x01")))
            assert len(other.read(L2)) == 1
        call.cancel()
        requests.put(None)
    with Client(switch.address, 5) as successor:
        eventually(lambda: successor.read(L2))
        assert successor.arbitrate().status.code == rpc_code.OK


@pytest.mark.compiler
def test_large_batches(primary: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch above the limit is refused as a whole."""
    monkeypatch.setattr(service, "MAX_UPDATES", 2)
    monkeypatch.setattr(service, "MAX_QUERIES", 2)
    updates = [insert(table_entry=l2_entry(bytes([number]))) for number in range(1, 4)]
    for call in (lambda: primary.write(*updates), lambda: primary.read(L2, L2, L2)):
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "in one request; at most 2" in caught.value.details()
    primary.write(*updates[:2])
    assert len(primary.read(L2, L2)) == 4


@pytest.mark.compiler
def test_metadata_is_bounded(primary: Client) -> None:
    """A controller's own data beside an entry or a group has a largest size."""
    most = bytes(MAX_METADATA_BYTES)
    primary.write(
        insert(table_entry=l2_entry(b"\x01", metadata=most)),
        insert(packet_replication_engine_entry=group(1, 1, most)),
    )
    for update in (
        insert(table_entry=l2_entry(b"\x02", metadata=most + b"x")),
        insert(packet_replication_engine_entry=group(2, 1, most + b"x")),
    ):
        error = refused(primary, update)
        assert error.canonical_code == rpc_code.RESOURCE_EXHAUSTED
        assert "4097 bytes; at most 4096" in error.message


@pytest.mark.compiler
def test_replicas_are_bounded(primary: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups and sessions together have a largest number of replicas; deleting makes room."""
    monkeypatch.setattr(replication, "MAX_ALL_REPLICAS", 5)
    primary.write(
        insert(packet_replication_engine_entry=group(1, 2)),
        insert(packet_replication_engine_entry=group(2, 2)),
    )
    error = refused(primary, insert(packet_replication_engine_entry=group(3, 2)))
    assert error.canonical_code == rpc_code.RESOURCE_EXHAUSTED
    assert "6 replicas in all" in error.message
    change = p4r.Update(type=p4r.Update.MODIFY)
    change.entity.packet_replication_engine_entry.CopyFrom(group(2, 3))
    primary.write(change)
    remove = p4r.Update(type=p4r.Update.DELETE)
    remove.entity.packet_replication_engine_entry.CopyFrom(group(1, 0))
    primary.write(remove, insert(packet_replication_engine_entry=group(3, 2)))


@pytest.mark.compiler
def test_reading_all_replication(primary: Client) -> None:
    """Without a kind, groups and sessions are read together."""
    session = p4r.PacketReplicationEngineEntry(
        clone_session_entry=p4r.CloneSessionEntry(
            session_id=3, replicas=[p4r.Replica(port=b"\x01", instance=0)]
        )
    )
    entries = (group(1, 1), session)
    primary.write(*(insert(packet_replication_engine_entry=entry) for entry in entries))
    everything = p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry())
    assert [found.packet_replication_engine_entry for found in primary.read(everything)] == [
        *entries
    ]


@pytest.mark.root
@pytest.mark.compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a network namespace")
def test_controller_killed_under_load() -> None:
    """Atomic batches and the death of their controller lose no frame and split no batch."""
    count = 20_000
    code = f"from tests.p4rt_load_netns import main; main({count})"
    result = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", code],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S * 4,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert seen.pop("batches") > 0
    assert seen == {
        "received": count,
        "sent": {"2": count, "3": 0},
        "errors": 0,
        "dropped": 0,
        "successor": rpc_code.OK,
    }
