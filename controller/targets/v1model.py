"""The v1model switches: the embedded one and bmv2, which run the same compiled program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.artifacts import Artifact
from controller.targets.base import Capabilities, Program, Target
from controller.targets.ports import CHIPS
from host_stack.errors import BadInput
from host_stack.layout import JOBS_PER_SWITCH, MAX_WORKERS
from host_stack.wire import DrainFormat

MAX_PORT = 510
"""Ports have 9 bits; 511 drops."""

CAPABILITIES = Capabilities(
    formats=frozenset(DrainFormat),
    reads_registers=True,
    reads_replication=True,
    chains=True,
    emulated=True,
    slots=JOBS_PER_SWITCH + 1,
    workers=MAX_WORKERS,
)


class V1Model(Target):
    """A switch that takes the bmv2 JSON as it is."""

    def __init__(
        self, name: str, description: str, capabilities: Capabilities = CAPABILITIES
    ) -> None:
        self.name = name
        self.description = description
        self.capabilities = capabilities

    def load(self, program: str) -> Artifact:
        """Read an artifact of `p4src/build/`; `BadInput` for a Tofino's, which is none."""
        if (chip := CHIPS.get(program)) is not None:
            raise BadInput(
                f"program {program} is for {chip.title}, and target {self.name} is none: set the "
                f"switch's target to {chip.name}-stratum or {chip.name}-p4rt"
            )
        return Artifact.load(program)

    def device_config(self, program: Program) -> bytes:
        """The bmv2 JSON."""
        if not isinstance(program, Artifact):
            raise BadInput(
                f"target {self.name} takes programs that p4c made for bmv2; {program.name} is "
                "none: compile it with `make p4`"
            )
        return program.device_config

    def check_ports(self, ports: Iterable[int]) -> None:
        """Ports count from 1."""
        for port in ports:
            if not 0 < port <= MAX_PORT:
                raise BadInput(f"port {port}: {self.name} allows 1 to {MAX_PORT}")


SOFT = V1Model("soft", "embedded switch of this project")
BMV2 = V1Model(
    "bmv2",
    "simple_switch_grpc of behavioral-model",
    replace(CAPABILITIES, reads_replication=False),
)
