"""One forwarding pipeline: the configuration a controller gave and the data plane made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import grpc
from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.errors import SoftSwitchError
from softswitch.p4runtime.action_profiles import ActionProfiles
from softswitch.p4runtime.digests import Digests
from softswitch.p4runtime.direct_entries import DirectEntries
from softswitch.p4runtime.errors import P4RuntimeError, invalid
from softswitch.p4runtime.idle import IdleTimeouts
from softswitch.p4runtime.replication import Replication
from softswitch.p4runtime.schema import Schema, build_schema
from softswitch.p4runtime.table_entries import TableEntries

Loader = Callable[[bytes], DataPlane]
"""Makes a data plane of a bmv2 JSON; `DataPlane.load` in all but special cases."""


@dataclass(frozen=True)
class Pipeline:
    """A verified configuration, its data plane and the state that controllers wrote into it."""

    config: p4r.ForwardingPipelineConfig
    schema: Schema
    dataplane: DataPlane
    profiles: ActionProfiles
    tables: TableEntries
    direct: DirectEntries
    replication: Replication
    digests: Digests
    idle: IdleTimeouts

    def close(self) -> None:
        """Free the data plane."""
        self.dataplane.close()


def verify(
    config: p4r.ForwardingPipelineConfig,
    load: Loader,
    cpu_port: int | None,
    ports: Mapping[int, str],
) -> Pipeline:
    """Compile and load a configuration, without ports; `ports` only tells their names.

    Raises P4RuntimeError if P4Info and program disagree, and the engine's SoftSwitchError if the
    program is bad, uses something unsupported, or cannot be compiled here.
    """
    if not config.HasField("p4info"):
        raise invalid("the pipeline config has no p4info")
    if not config.p4_device_config:
        raise invalid("the pipeline config has no p4_device_config; give the program's bmv2 JSON")
    dataplane = load(config.p4_device_config)
    try:
        schema = build_schema(
            config.p4info, dataplane.program, {name: port for port, name in ports.items()}
        )
        profiles = ActionProfiles(schema, dataplane)
        idle = IdleTimeouts(dataplane)
        tables = TableEntries(schema, dataplane, profiles, idle)
        return Pipeline(
            config=config,
            schema=schema,
            dataplane=dataplane,
            profiles=profiles,
            tables=tables,
            direct=DirectEntries(schema, tables),
            replication=Replication(dataplane, cpu_port),
            digests=Digests(schema, dataplane),
            idle=idle,
        )
    except SoftSwitchError as error:
        dataplane.close()
        if isinstance(error, P4RuntimeError) and error.code is grpc.StatusCode.UNIMPLEMENTED:
            raise invalid(error.message) from None  # a config that cannot be realized
        raise
