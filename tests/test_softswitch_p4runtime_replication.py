"""Multicast groups and clone sessions over P4Runtime."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r, rpc_code

from softswitch.dataplane import CloneSession
from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import CPU_PORT, Client, delete, insert, modify, refused

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler


def replica(port: bytes, instance: int = 0, **changes: Any) -> p4r.Replica:
    """Return a replica that names its port by bytes."""
    return p4r.Replica(port=port, instance=instance, **changes)


def group(number: int, *replicas: p4r.Replica, metadata: bytes = b"") -> dict[str, Any]:
    """Return a multicast group as an entity field."""
    entry = p4r.MulticastGroupEntry(multicast_group_id=number, replicas=replicas, metadata=metadata)
    return {
        "packet_replication_engine_entry": p4r.PacketReplicationEngineEntry(
            multicast_group_entry=entry
        )
    }


def session(number: int, *replicas: p4r.Replica, **changes: Any) -> dict[str, Any]:
    """Return a clone session as an entity field."""
    entry = p4r.CloneSessionEntry(session_id=number, replicas=replicas, **changes)
    return {
        "packet_replication_engine_entry": p4r.PacketReplicationEngineEntry(
            clone_session_entry=entry
        )
    }


def test_groups(primary: Client, switch: P4RuntimeServer) -> None:
    """Groups reach the data plane and are read back as written, one or all."""
    first = group(1, replica(b"\x01", 1), replica(b"\x02", 2), metadata=b"m")
    second = group(2, p4r.Replica(egress_port=3, instance=9))
    primary.write(insert(**first), insert(**second))
    dataplane = switch.dataplane
    assert dataplane is not None
    assert {key: tuple(value) for key, value in dataplane.mcast_groups().items()} == {
        1: ((1, 1), (2, 2)),
        2: ((3, 9),),
    }
    assert primary.read(p4r.Entity(**group(0))) == [p4r.Entity(**first), p4r.Entity(**second)]
    assert primary.read(p4r.Entity(**group(2))) == [p4r.Entity(**second)]
    assert primary.read(p4r.Entity(**group(3))) == []
    primary.write(modify(**group(1, replica(b"\x00\x04"))))
    assert primary.read(p4r.Entity(**group(1))) == [p4r.Entity(**group(1, replica(b"\x04")))]
    primary.write(delete(**group(1)), delete(**group(2)))
    assert primary.read(p4r.Entity(**group(0))) == []
    assert dataplane.mcast_groups() == {}


def test_sessions(primary: Client, switch: P4RuntimeServer) -> None:
    """Sessions reach the data plane; the CPU port has its controller name."""
    entity = session(
        7, replica(b"\xff\xff\xff\xfd", 1), class_of_service=2, packet_length_bytes=128
    )
    primary.write(insert(**entity))
    dataplane = switch.dataplane
    assert dataplane is not None
    assert dataplane.clone_sessions() == {7: CloneSession(((CPU_PORT, 1),), 2, 128)}
    assert primary.read(p4r.Entity(**session(0))) == [p4r.Entity(**entity)]
    primary.write(modify(**session(7, replica(b"\x05"))))
    assert dataplane.clone_sessions() == {7: CloneSession(((5, 0),))}
    primary.write(delete(**session(7)))
    assert dataplane.clone_sessions() == {}


@pytest.mark.parametrize(
    ("update", "code", "words"),
    [
        (insert(**group(0, replica(b"\1"))), "INVALID_ARGUMENT", "must not be 0"),
        (insert(**session(0, replica(b"\1"))), "INVALID_ARGUMENT", "must not be 0"),
        (modify(**group(1)), "NOT_FOUND", "multicast group 1 does not exist"),
        (delete(**session(1)), "NOT_FOUND", "clone session 1 does not exist"),
        (insert(**group(1, p4r.Replica())), "INVALID_ARGUMENT", "has no port"),
        (insert(**group(1, replica(b""))), "OUT_OF_RANGE", "empty"),
        (insert(**group(1, replica(b"\2\0"))), "INVALID_ARGUMENT", "port"),
        (insert(**group(1, replica(b"\1", 1 << 16))), "INVALID_ARGUMENT", "65535"),
        (insert(**group(1, replica(b"\1"), replica(b"\1"))), "INVALID_ARGUMENT", "same port"),
        (
            insert(**group(1, replica(b"\1", backup_replicas=[p4r.BackupReplica(port=b"\2")]))),
            "UNIMPLEMENTED",
            "backup_replicas",
        ),
        (insert(**session(1, packet_length_bytes=-1)), "INVALID_ARGUMENT", "negative"),
        (
            insert(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()),
            "INVALID_ARGUMENT",
            "multicast_group_entry or",
        ),
    ],
)
def test_refused_writes(primary: Client, update: p4r.Update, code: str, words: str) -> None:
    """Ids, ports, instances and duplicates are checked; nothing is left behind."""
    error = refused(primary, update)
    assert rpc_code.Code.Name(error.canonical_code) == code
    assert words in error.message
    assert primary.read(p4r.Entity(**group(0)), p4r.Entity(**session(0))) == []


def test_existing_group(primary: Client) -> None:
    """INSERT of what is there is refused and changes nothing."""
    primary.write(insert(**group(1, replica(b"\1"))))
    assert refused(primary, insert(**group(1))).canonical_code == rpc_code.ALREADY_EXISTS
    assert primary.read(p4r.Entity(**group(1))) == [p4r.Entity(**group(1, replica(b"\1")))]
