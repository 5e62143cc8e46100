"""A P4Runtime server that takes what a Tofino's would, and refuses what it would refuse.

It serves the committed description of libra_tna.p4: tables, actions, counters and groups are held
by the embedded switch's server, which checks ids, kinds of match, widths, priorities and sizes;
behind it there is no data plane. What the servers of a Tofino check besides, or lack, is here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any
from unittest import mock

import grpc
from finsy.proto import p4i, p4r
from google.protobuf.message import DecodeError

from controller.targets import device_config_pb2 as pb
from controller.targets.ports import CHIPS
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.errors import P4RuntimeError, invalid, unimplemented
from softswitch.p4runtime.roles import Access
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService
from tests.tofino_output import object_names, read_p4info
from tests.tofino_program import stand_in

NO_PORT = 511
"""Stands for the switch itself, as the port of an address."""

SOURCES = "LibraIngress.sources.sources"
LAPS = {"LibraIngress.laps", "LibraIngress.pipes"}
"""Tables whose ports are those that lead back into a pipe."""


@dataclass(frozen=True)
class Wiring:
    """Of the ports of a pipe, those with a cable and the one that leads back.

    A device port is pipe · 128 + port.
    """

    panel: range
    recirculation: int

    def has_cable(self, port: int) -> bool:
        """Whether a device port leads out."""
        return port < NO_PORT and port % 128 in self.panel

    def recirculates(self, port: int) -> bool:
        """Whether it leads back into its pipe."""
        return port < NO_PORT and port % 128 == self.recirculation


WIRINGS = {"tna": Wiring(range(64), 68), "t2na": Wiring(range(8, 72), 6)}
"""By architecture."""


@dataclass(frozen=True)
class Pipeline:
    """What a device configuration has for some pipes."""

    name: str
    binary: bytes
    context: bytes
    bfrt: bytes
    pipes: tuple[int, ...]


def unpack_stratum(source: bytes) -> tuple[str, list[Pipeline]]:
    """Program name and pipelines of a `BfPipelineConfig`."""
    config = pb.BfPipelineConfig.FromString(source)
    config.DiscardUnknownFields()
    if config.SerializeToString(deterministic=True) != source:
        raise ValueError("there is more in it than its fields")
    return config.p4_name, [
        Pipeline(
            each.profile_name,
            each.binary,
            each.context,
            config.bfruntime_info,
            tuple(each.pipe_scope),
        )
        for each in config.profiles
    ]


def unpack_p4rt(source: bytes) -> tuple[str, list[Pipeline]]:
    """The same of what bf_switchd's server takes: five chunks and nothing behind them."""
    config = pb.P4DeviceConfig.FromString(source)
    config.DiscardUnknownFields()
    if config.SerializeToString(deterministic=True) != source or not config.reassign:
        raise ValueError("it has `reassign` and `device_data`")
    data, chunks = config.device_data, []
    while data:
        (size,) = struct.unpack_from("<I", data)
        if size > len(data) - 4:
            raise ValueError("a chunk is longer than the configuration")
        chunks.append(data[4 : 4 + size])
        data = data[4 + size :]
    name, binary, context, pipeline, bfrt = chunks
    return name.decode(), [Pipeline(pipeline.decode(), binary, context, bfrt, (0,))]


@dataclass(frozen=True)
class Kind:
    """What tells the two servers apart.

    Attributes:
        unpack: what it makes of a device configuration.
        max_group: the highest number of a multicast group. PI keeps the upper half for the groups
            of clone sessions (its pre_mc_mgr.h); the chip has 16 bits.
        has_registers: Stratum reads and writes those of one value; PI none.
    """

    unpack: Callable[[bytes], tuple[str, list[Pipeline]]]
    max_group: int
    has_registers: bool


STRATUM = Kind(unpack_stratum, 0xFFFF, has_registers=True)
P4RT = Kind(unpack_p4rt, 0x7FFF, has_registers=False)
KINDS = {
    "tofino-stratum": STRATUM,
    "tofino-p4rt": P4RT,
    "tofino2-stratum": STRATUM,
    "tofino2-p4rt": P4RT,
}


def check_config(target: str, source: bytes, p4info: p4i.P4Info) -> None:
    """Raise `P4RuntimeError` unless a device configuration is whole, and of this program."""
    try:
        name, pipelines = KINDS[target].unpack(source)
        documents = [json.loads(part) for each in pipelines for part in (each.context, each.bfrt)]
        tables = [
            {each["id"]: each["name"].removeprefix("pipe.") for each in document["tables"]}
            for document in documents[1::2]
        ]
    except (DecodeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise invalid(f"not a device configuration of {target}: {error!r}") from error
    if not name or not pipelines or not all(each.name and each.binary for each in pipelines):
        raise invalid("names and binaries are needed")
    pipes = [pipe for each in pipelines for pipe in each.pipes]
    if not all(each.pipes for each in pipelines) or len(set(pipes)) < len(pipes) or max(pipes) > 3:
        raise invalid(f"pipes {pipes}: each has one pipeline")
    if any(found != object_names(p4info) for found in tables):
        raise invalid("bf-rt.json does not have the objects of the P4Info")


@dataclass(frozen=True)
class ChipAccess(Access):
    """What a controller may write, as far as the chip has it."""

    check: Callable[[p4r.Entity], None] = lambda entity: None

    def check_write(self, entity: p4r.Entity, others: frozenset[int]) -> None:
        """As the role's, and the chip's."""
        super().check_write(entity, others)
        self.check(entity)


class EntityCheck:
    """What the chip and its servers say to an entity, beside what its P4Info says."""

    def __init__(self, kind: Kind, p4info: p4i.P4Info) -> None:
        self._kind = kind
        self._wiring = WIRINGS[p4info.pkg_info.arch]
        self._tables = {table.preamble.id: table for table in p4info.tables}
        self._actions = {action.preamble.id: action for action in p4info.actions}

    def __call__(self, entity: p4r.Entity) -> None:
        """Raise `P4RuntimeError` for an entity that the chip does not take."""
        which = entity.WhichOneof("entity")
        if which == "register_entry" and not self._kind.has_registers:
            raise unimplemented("registers are not implemented")
        if which == "packet_replication_engine_entry":
            self._check_group(entity.packet_replication_engine_entry.multicast_group_entry)
        elif which == "table_entry" and entity.table_entry.table_id in self._tables:
            self._check_entry(entity.table_entry)

    def _check_group(self, group: p4r.MulticastGroupEntry) -> None:
        if group.multicast_group_id > self._kind.max_group:
            raise P4RuntimeError(
                grpc.StatusCode.OUT_OF_RANGE,
                f"group {group.multicast_group_id} is above {self._kind.max_group}",
            )
        for replica in group.replicas:
            port = replica.egress_port
            if not (self._wiring.has_cable(port) or self._wiring.recirculates(port)):
                raise invalid(f"port {port} leads nowhere")

    def _check_entry(self, entry: p4r.TableEntry) -> None:
        table = self._tables[entry.table_id]
        name = table.preamble.name
        matches = {field.id: field.name for field in table.match_fields}
        for match in entry.match:
            for _, part in match.ListFields()[1:]:
                _check_canonical([value for _, value in part.ListFields()])
            if matches.get(match.field_id, "").endswith("ingress_port"):
                self._check_port(name, int.from_bytes(match.exact.value, "big"))
        action = entry.action.action
        known = self._actions.get(action.action_id, p4i.Action())
        params = {param.id: param.name for param in known.params}
        for param in action.params:
            _check_canonical([param.value])
            if params.get(param.param_id) == "port":
                self._check_port(name, int.from_bytes(param.value, "big"))

    def _check_port(self, table: str, port: int) -> None:
        if table in LAPS:
            if not self._wiring.recirculates(port):
                raise invalid(f"port {port} does not lead back into its pipe")
        elif not self._wiring.has_cable(port) and (table, port) != (SOURCES, NO_PORT):
            raise invalid(f"no cable leads to {port}")


def _check_canonical(values: list[Any]) -> None:
    """Byte strings of a good client are as short as can be."""
    for value in values:
        if isinstance(value, bytes) and len(value) > 1 and not value[0]:
            raise invalid(f"the byte string {value.hex()} is not canonical")


def service(kind: Kind, p4info: p4i.P4Info) -> type[P4RuntimeService]:
    """The service of such a server."""
    check = EntityCheck(kind, p4info)

    class TofinoService(P4RuntimeService):
        """Checks, then does what the embedded switch does."""

        def Write(self, request: p4r.WriteRequest, context: Any) -> p4r.WriteResponse:
            if request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "batches are not atomic")
            return super().Write(request, context)

        def Read(self, request: p4r.ReadRequest, context: Any) -> Iterator[p4r.ReadResponse]:
            if not kind.has_registers and any(
                entity.HasField("register_entry") for entity in request.entities
            ):
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "registers are not implemented")
            return super().Read(request, context)

        def _check_primary(
            self, request: p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest
        ) -> Access:
            access = super()._check_primary(request)
            own = {each.name: getattr(access, each.name) for each in fields(access)}
            return ChipAccess(**own, check=check)

    return TofinoService


@contextmanager
def tofino_server(target: str, address: str = "127.0.0.1:0") -> Iterator[P4RuntimeServer]:
    """A server of that kind on a port of loopback, which is empty at first."""
    p4info = read_p4info(CHIPS[target.partition("-")[0]])
    program = stand_in(p4info)
    # Compiled beforehand, for a client does not wait as long as a slow machine needs.
    DataPlane.load(program).close()

    def load(source: bytes) -> DataPlane:
        check_config(target, source, p4info)
        return DataPlane.load(program)

    with (
        mock.patch("softswitch.p4runtime.server.P4RuntimeService", service(KINDS[target], p4info)),
        P4RuntimeServer(address, load=load) as server,
    ):
        yield server
