"""What a role may do (specification, section "Role Config").

The specification leaves the scheme of `role.config` open. The one that this switch enforces is
Stratum's `P4RoleConfig`, which finsy ships. A config of any other type is opaque: it is remembered
and given back in notifications, and the role has full access, as without a config.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4r, stratum
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError

from softswitch.p4runtime.errors import denied, invalid

MAX_CONFIG_BYTES = 1 << 16
"""Roles are remembered, so their size is bounded."""

_OBJECT_IDS: dict[str, Callable[[Any], int]] = {
    "table_entry": lambda message: message.table_id,
    "action_profile_member": lambda message: message.action_profile_id,
    "action_profile_group": lambda message: message.action_profile_id,
    "meter_entry": lambda message: message.meter_id,
    "direct_meter_entry": lambda message: message.table_entry.table_id,
    "counter_entry": lambda message: message.counter_id,
    "direct_counter_entry": lambda message: message.table_entry.table_id,
    "value_set_entry": lambda message: message.value_set_id,
    "register_entry": lambda message: message.register_id,
    "digest_entry": lambda message: message.digest_id,
}


@dataclass(frozen=True)
class Access:
    """What one role may write, read and receive. Ids are those of P4Info objects."""

    objects: frozenset[int] | None = None
    """What it may write and read; None: everything, multicast and clone sessions included."""
    exclusive: frozenset[int] = frozenset()
    """Those of `objects` that no other named role may write."""
    packets: bool = True
    """Whether it receives packets from the CPU port."""
    packet_filter: tuple[int, int] | None = None
    """(metadata id, value) that a packet must carry to be received."""
    pipeline: bool = True
    """Whether it may set the forwarding pipeline config."""

    def may_read(self, entity: p4r.Entity) -> bool:
        """Tell whether an entity belongs to the role."""
        return self.objects is None or object_id(entity) in self.objects

    def check_write(self, entity: p4r.Entity, others: frozenset[int]) -> None:
        """Raise PERMISSION_DENIED unless the role may write an entity.

        `others` are the objects that other roles have for themselves alone.
        """
        number = object_id(entity)
        if not self.may_read(entity):
            what = entity.WhichOneof("entity") if number is None else f"object {number:#010x}"
            raise denied(f"{what} is not in the scope of the role; see its role.config")
        if number in others:
            raise denied(f"object {number:#010x} belongs to another role exclusively")

    def visible(self, response: p4r.StreamMessageResponse) -> p4r.StreamMessageResponse | None:
        """Return the part of a notification that concerns the role, None if nothing does."""
        kind = response.WhichOneof("update")
        if kind == "packet":
            return response if self._wants(response.packet) else None
        if self.objects is None:
            return response
        if kind == "digest":
            return response if response.digest.digest_id in self.objects else None
        if kind == "idle_timeout_notification":
            return self._idle(response, self.objects)
        return response

    def _wants(self, packet: p4r.PacketIn) -> bool:
        if not self.packets or self.packet_filter is None:
            return self.packets
        return self.packet_filter in (
            (item.metadata_id, int.from_bytes(item.value, "big")) for item in packet.metadata
        )

    @staticmethod
    def _idle(
        response: p4r.StreamMessageResponse, objects: frozenset[int]
    ) -> p4r.StreamMessageResponse | None:
        notice = response.idle_timeout_notification
        own = [entry for entry in notice.table_entry if entry.table_id in objects]
        if not own:
            return None
        part = p4r.IdleTimeoutNotification(timestamp=notice.timestamp, table_entry=own)
        return p4r.StreamMessageResponse(idle_timeout_notification=part)


FULL_ACCESS = Access()


def object_id(entity: p4r.Entity) -> int | None:
    """Return the id of the P4Info object that an entity belongs to; None if there is none."""
    name: str | None = entity.WhichOneof("entity")
    if name not in _OBJECT_IDS:
        return None
    return _OBJECT_IDS[name](getattr(entity, name))


def readable(access: Access, entities: Iterator[p4r.Entity]) -> Iterator[p4r.Entity]:
    """Return the entities that belong to a role."""
    if access.objects is None:
        return entities
    return filter(access.may_read, entities)


def read_config(role: p4r.Role) -> tuple[any_pb2.Any | None, Access]:
    """Return the config of a role as it was given, and what it means; raises P4RuntimeError."""
    if role.ByteSize() > MAX_CONFIG_BYTES:
        raise invalid(f"role of {role.ByteSize()} bytes; at most {MAX_CONFIG_BYTES} are remembered")
    if not role.HasField("config"):
        return None, FULL_ACCESS
    if not role.name:
        raise invalid("the default role has full access and takes no role.config; name the role")
    config = any_pb2.Any()
    config.CopyFrom(role.config)
    if not config.Is(stratum.P4RoleConfig.DESCRIPTOR):
        return config, FULL_ACCESS
    scheme = stratum.P4RoleConfig()
    try:
        config.Unpack(scheme)
    except DecodeError:
        raise invalid("role.config is not a valid stratum.P4RoleConfig") from None
    return config, _access(scheme)


def _access(scheme: stratum.P4RoleConfig) -> Access:
    exclusive = frozenset(scheme.exclusive_p4_ids)
    shared = frozenset(scheme.shared_p4_ids)
    if exclusive & shared:
        both = min(exclusive & shared)
        raise invalid(f"role.config: object {both:#010x} is both exclusive and shared")
    wanted = None
    if scheme.HasField("packet_in_filter"):
        given = scheme.packet_in_filter
        wanted = (given.metadata_id, int.from_bytes(given.value, "big"))
    return Access(
        objects=exclusive | shared,
        exclusive=exclusive,
        packets=scheme.receives_packet_ins,
        packet_filter=wanted,
        pipeline=scheme.can_push_pipeline,
    )
