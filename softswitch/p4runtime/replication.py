"""The packet replication engine: multicast groups and clone sessions.

Entries are kept as the controller wrote them, since a port may be named in two ways (`port`, or
the older `egress_port`) and has to be read back in the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from finsy.proto import p4r

from softswitch.dataplane import DataPlane, Replica
from softswitch.p4runtime import values
from softswitch.p4runtime.errors import already_exists, invalid, not_found, unimplemented
from softswitch.p4runtime.limits import check_metadata
from softswitch.ports import MAX_PORT

SDN_PORT_CPU = 0xFFFFFFFD
"""The controller's name of the CPU port (`p4.v1.SdnPort`)."""

MAX_INSTANCE = 0xFFFF
"""standard_metadata.egress_rid has 16 bits."""

EntryT = TypeVar("EntryT")


class Replication:
    """Multicast groups and clone sessions of one pipeline. The caller holds the device's lock."""

    def __init__(self, dataplane: DataPlane, cpu_port: int | None) -> None:
        self._dataplane = dataplane
        self._cpu_port = cpu_port
        self._groups: dict[int, p4r.MulticastGroupEntry] = {}
        self._sessions: dict[int, p4r.CloneSessionEntry] = {}

    def write(self, kind: int, message: p4r.PacketReplicationEngineEntry) -> None:
        """Insert, modify or delete one entry; `kind` is a p4r.Update.Type."""
        which = message.WhichOneof("type")
        if which == "multicast_group_entry":
            self._write_group(kind, message.multicast_group_entry)
        elif which == "clone_session_entry":
            self._write_session(kind, message.clone_session_entry)
        else:
            raise invalid(
                "packet replication entry: set multicast_group_entry or clone_session_entry"
            )

    def read(self, query: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.Entity]:
        """Return one entry, all of its kind if the id is 0, or all if the kind is not set."""
        which = query.WhichOneof("type")
        found: list[dict[str, Any]] = []
        if which in (None, "multicast_group_entry"):
            groups = _find(self._groups, query.multicast_group_entry.multicast_group_id)
            found += ({"multicast_group_entry": group} for group in groups)
        if which in (None, "clone_session_entry"):
            sessions = _find(self._sessions, query.clone_session_entry.session_id)
            found += ({"clone_session_entry": session} for session in sessions)
        return (
            p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(**entry))
            for entry in found
        )

    def _write_group(self, kind: int, message: p4r.MulticastGroupEntry) -> None:
        group_id = message.multicast_group_id
        what = f"multicast group {group_id}"
        _check_key(self._groups, kind, group_id, what)
        if kind == p4r.Update.DELETE:
            self._dataplane.mcast_group_delete(group_id)
            del self._groups[group_id]
            return
        check_metadata(message.metadata, what)
        self._dataplane.mcast_group_set(group_id, self._replicas(what, message))
        self._groups[group_id] = _canonical(message)

    def _write_session(self, kind: int, message: p4r.CloneSessionEntry) -> None:
        session_id = message.session_id
        what = f"clone session {session_id}"
        _check_key(self._sessions, kind, session_id, what)
        if kind == p4r.Update.DELETE:
            self._dataplane.clone_session_delete(session_id)
            del self._sessions[session_id]
            return
        if message.packet_length_bytes < 0:
            raise invalid(f"{what}: packet_length_bytes must not be negative")
        self._dataplane.clone_session_set(
            session_id,
            self._replicas(what, message),
            message.class_of_service,
            message.packet_length_bytes,
        )
        self._sessions[session_id] = _canonical(message)

    def _replicas(
        self, what: str, message: p4r.MulticastGroupEntry | p4r.CloneSessionEntry
    ) -> list[Replica]:
        replicas = [self._replica(what, item) for item in message.replicas]
        if len(set(replicas)) != len(replicas):
            raise invalid(f"{what}: two replicas have the same port and instance")
        return replicas

    def _replica(self, what: str, replica: p4r.Replica) -> Replica:
        kind = replica.WhichOneof("port_kind")
        if kind == "port":
            port = values.decode(replica.port, 32, f"port of {what}")
        elif kind == "egress_port":
            port = replica.egress_port
        else:
            raise invalid(f"{what}: a replica has no port")
        if replica.instance > MAX_INSTANCE:
            raise invalid(f"{what}: instance {replica.instance} is above {MAX_INSTANCE}")
        if replica.backup_replicas:
            raise unimplemented(f"{what}: backup_replicas are not supported by this switch")
        if port == SDN_PORT_CPU:
            if self._cpu_port is None:
                raise invalid(f"{what}: this switch has no CPU port; start it with --cpu-port")
            port = self._cpu_port
        if port > MAX_PORT:
            raise invalid(f"{what}: port {port} does not exist; ports are 0 to {MAX_PORT}")
        return port, replica.instance


def _check_key(entries: Mapping[int, Any], kind: int, key: int, what: str) -> None:
    if not key:
        raise invalid(f"{what}: the id must not be 0 in a write")
    if kind == p4r.Update.INSERT and key in entries:
        raise already_exists(f"{what} is already there")
    if kind != p4r.Update.INSERT and key not in entries:
        raise not_found(f"{what} does not exist")


def _canonical(message: Any) -> Any:
    """Return a copy with the shortest byte strings."""
    copy = type(message)()
    copy.CopyFrom(message)
    for replica in copy.replicas:
        if replica.WhichOneof("port_kind") == "port":
            replica.port = values.encode(int.from_bytes(replica.port, "big"))
    return copy


def _find(entries: dict[int, EntryT], key: int) -> list[EntryT]:
    if not key:
        return list(entries.values())
    return [entries[key]] if key in entries else []
