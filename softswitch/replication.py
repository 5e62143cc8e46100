"""Multicast groups and clone sessions of a running switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softswitch.batch import Library
from softswitch.binding import u32_array
from softswitch.errors import InvalidArgument, NotFound, ResourceExhausted

Replica = tuple[int, int]
"""(egress port, instance): the instance becomes standard_metadata.egress_rid."""

MAX_GROUP = 65535
MAX_SESSION = 32767
MAX_REPLICAS = 4096
MAX_ALL_REPLICAS = 1 << 20
"""Of all groups and sessions together, so that they cannot fill the memory."""


@dataclass(frozen=True)
class CloneSession:
    """A clone session; `packet_length` is in bytes, 0 means whole packets."""

    replicas: tuple[Replica, ...]
    class_of_service: int = 0
    packet_length: int = 0


class Replication:
    """Groups and sessions. Not thread-safe: the data plane serializes calls."""

    def __init__(self, lib: Library, ctx: int) -> None:
        self._lib, self._ctx = lib, ctx
        self.groups: dict[int, tuple[Replica, ...]] = {}
        self.sessions: dict[int, CloneSession] = {}
        self._count = 0

    def set_group(self, group_id: int, replicas: Sequence[Replica]) -> None:
        """Create or replace a multicast group."""
        if not 1 <= group_id <= MAX_GROUP:
            raise InvalidArgument(f"multicast group {group_id}, allowed is 1 to {MAX_GROUP}")
        pairs = _check(replicas)
        total = self._total(len(self.groups.get(group_id, ())), len(replicas))
        _done(self._lib.ss_group_set(self._ctx, group_id, 1, u32_array(pairs), len(replicas)))
        self.groups[group_id] = tuple(replicas)
        self._count = total

    def delete_group(self, group_id: int) -> None:
        """Remove a multicast group."""
        if group_id not in self.groups:
            raise NotFound(f"there is no multicast group {group_id}")
        self._lib.ss_group_set(self._ctx, group_id, 0, u32_array(()), 0)
        self._count -= len(self.groups.pop(group_id))

    def set_session(self, session_id: int, session: CloneSession) -> None:
        """Create or replace a clone session."""
        if not 0 <= session_id <= MAX_SESSION:
            raise InvalidArgument(f"clone session {session_id}, allowed is 0 to {MAX_SESSION}")
        if not 0 <= session.packet_length < 1 << 31:
            raise InvalidArgument(f"packet length {session.packet_length} is out of range")
        pairs, count = _check(session.replicas), len(session.replicas)
        old = self.sessions.get(session_id)
        total = self._total(0 if old is None else len(old.replicas), count)
        _done(
            self._lib.ss_session_set(
                self._ctx, session_id, 1, u32_array(pairs), count, session.packet_length
            )
        )
        self.sessions[session_id] = session
        self._count = total

    def delete_session(self, session_id: int) -> None:
        """Remove a clone session."""
        if session_id not in self.sessions:
            raise NotFound(f"there is no clone session {session_id}")
        self._lib.ss_session_set(self._ctx, session_id, 0, u32_array(()), 0, 0)
        self._count -= len(self.sessions.pop(session_id).replicas)

    def _total(self, before: int, after: int) -> int:
        """Return how many replicas there are once `before` of them have become `after`."""
        total = self._count - before + after
        if total > MAX_ALL_REPLICAS:
            raise ResourceExhausted(
                f"{total} replicas in all groups and sessions, allowed are {MAX_ALL_REPLICAS}"
            )
        return total


def _check(replicas: Sequence[Replica]) -> list[int]:
    """Return the replicas as a flat list of ports and instances."""
    if len(replicas) > MAX_REPLICAS:
        raise InvalidArgument(f"{len(replicas)} replicas, allowed are {MAX_REPLICAS}")
    for port, instance in replicas:
        if not 0 <= port < 1 << 32 or not 0 <= instance < 1 << 16:
            raise InvalidArgument(f"replica (port {port}, instance {instance}) is out of range")
    return [number for replica in replicas for number in replica]


def _done(code: int) -> None:
    if code != 0:
        raise ResourceExhausted("no memory for replicas")
