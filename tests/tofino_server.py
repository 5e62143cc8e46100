"""A P4Runtime server that takes what a Tofino's would, and refuses what it would refuse.

It is the embedded switch's server behind the checks of a Tofino: the device configuration must be
in the form of the server that it stands for, ports must be device ports that a cable can lead to,
and bf_switchd's server knows no registers. Behind it runs the v1model program, whose tables have
the names and fields that the controller writes on every target.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import grpc
from finsy.proto import p4r
from google.protobuf.message import DecodeError

from controller.artifacts import Artifact
from controller.targets import device_config_pb2 as pb
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService

PANEL_PORTS = 64
"""Of a pipe; a device port is pipe · 128 + port."""


def unpack_stratum(source: bytes) -> tuple[str, list[tuple[bytes, bytes, bytes]]]:
    """Program name, and (binary, context, bf-rt.json) of each pipeline."""
    config = pb.BfPipelineConfig.FromString(source)
    for profile in config.profiles:
        if not profile.profile_name or not profile.pipe_scope or max(profile.pipe_scope) > 3:
            raise invalid("a profile needs a name and pipes of the chip")
    return config.p4_name, [
        (each.binary, each.context, config.bfruntime_info) for each in config.profiles
    ]


def unpack_p4rt(source: bytes) -> tuple[str, list[tuple[bytes, bytes, bytes]]]:
    """The same of what bf_switchd's server takes."""
    data = pb.P4DeviceConfig.FromString(source).device_data
    chunks = []
    while data:
        (size,) = struct.unpack_from("<I", data)
        if size > len(data) - 4:
            raise invalid("a chunk is longer than the configuration")
        chunks.append(data[4 : 4 + size])
        data = data[4 + size :]
    name, binary, context, _, bfrt = chunks
    return name.decode(), [(binary, context, bfrt)]


UNPACK = {"tofino-stratum": unpack_stratum, "tofino-p4rt": unpack_p4rt}


def loader(target: str, program: Artifact) -> Callable[[bytes], DataPlane]:
    """What such a server does with a device configuration."""

    def load(source: bytes) -> DataPlane:
        try:
            name, pipelines = UNPACK[target](source)
            documents = [json.loads(part) for _, *rest in pipelines for part in rest]
        except (DecodeError, ValueError, struct.error) as error:
            raise invalid(f"not a device configuration of {target}: {error}") from error
        if not name or not pipelines or not all(binary for binary, *_ in pipelines):
            raise invalid("name and binary are needed")
        if not all(isinstance(document, dict) for document in documents):
            raise invalid("context.json and bf-rt.json are objects")
        return DataPlane.load(program.device_config)

    return load


def service(target: str) -> type[P4RuntimeService]:
    """The service of such a server."""

    class TofinoService(P4RuntimeService):
        """Checks, then does what the embedded switch does."""

        def Write(self, request: p4r.WriteRequest, context: Any) -> p4r.WriteResponse:
            for update in request.updates:
                for port in self._ports(update.entity):
                    if port > 511 or port % 128 >= PANEL_PORTS:
                        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no cable leads to {port}")
            return super().Write(request, context)

        def Read(self, request: p4r.ReadRequest, context: Any) -> Iterator[p4r.ReadResponse]:
            if target == "tofino-p4rt" and any(
                entity.HasField("register_entry") for entity in request.entities
            ):
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "registers are not implemented")
            return super().Read(request, context)

        def _ports(self, entity: p4r.Entity) -> Iterator[int]:
            """All ports that an entity names."""
            group = entity.packet_replication_engine_entry.multicast_group_entry
            yield from (replica.egress_port for replica in group.replicas)
            info = self._device.pipeline().config.p4info
            entry = entity.table_entry
            for table in info.tables:
                if table.preamble.id == entry.table_id:
                    names = {field.id: field.name for field in table.match_fields}
                    for match in entry.match:
                        if names[match.field_id].endswith("ingress_port"):
                            yield int.from_bytes(match.exact.value, "big")
            for action in info.actions:
                if action.preamble.id == entry.action.action.action_id:
                    params = {param.id: param.name for param in action.params}
                    for param in entry.action.action.params:
                        # Port 511 of `attached` stands for the switch itself.
                        value = int.from_bytes(param.value, "big")
                        if params[param.param_id] == "port" and value != 511:
                            yield value

    return TofinoService


@contextmanager
def tofino_server(target: str, program: Artifact) -> Iterator[P4RuntimeServer]:
    """A server of that kind on a port of loopback."""
    DataPlane.load(program.device_config).close()
    with (
        mock.patch("softswitch.p4runtime.server.P4RuntimeService", service(target)),
        P4RuntimeServer("127.0.0.1:0", load=loader(target, program)) as server,
    ):
        yield server
