"""Targets: what differs between the switches that the same controller code drives."""

from __future__ import annotations

from dataclasses import dataclass

from controller.artifacts import Artifact
from host_stack.errors import BadInput


@dataclass(frozen=True)
class Target:
    """A kind of switch.

    Attributes:
        name: as `--target` takes it.
        description: for people.
    """

    name: str
    description: str

    def device_config(self, artifact: Artifact) -> bytes:
        """What SetForwardingPipelineConfig carries: both v1model targets take the bmv2 JSON."""
        return artifact.device_config


TARGETS = {
    target.name: target
    for target in (
        Target("soft", "embedded switch of this project"),
        Target("bmv2", "simple_switch_grpc of behavioral-model"),
    )
}


def find_target(name: str) -> Target:
    """The target called `name`; `BadInput` lists those that exist."""
    try:
        return TARGETS[name]
    except KeyError:
        raise BadInput(f"unknown target {name!r}; known are {', '.join(TARGETS)}") from None
