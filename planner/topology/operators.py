"""What of a job is placed on servers: its operators, with their times and sizes.

A *block* is what the devices of one server train on in an iteration; there are as many blocks as
servers, and block i belongs to server i.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from planner.description import JobDescription
from planner.errors import PlanError
from planner.layers import BACKWARD_PER_FORWARD, VALUE_BYTES, Kind, Layer

_ABSORBED = (Kind.NORMALISATION, Kind.JOIN)


@dataclass(frozen=True)
class Operator:
    """Layers that stay together.

    Attributes:
        name: of its first layer.
        is_table: whether it is an embedding, which can be placed but not computed with.
        inputs: indices of the operators whose outputs it takes.
        forward_ms, backward_ms: for one block.
        output_bytes: of one block.
        parameter_bytes: that a server with it holds.
        touched_bytes: of its gradient's rows for one block where the gradient is sparse, else 0.

    """

    name: str
    is_table: bool
    inputs: tuple[int, ...]
    forward_ms: float
    backward_ms: float
    output_bytes: float
    parameter_bytes: float
    touched_bytes: float = 0.0

    def reduced_bytes(self, replicas: int) -> float:
        """The size of the AllReduce of its gradient among replicas.

        Sparse gradients are gathered: each replica's rows pass g − 1 links of the ring, as an
        AllReduce of g / 2 times as many bytes does.
        """
        if self.touched_bytes:
            return min(self.touched_bytes * replicas / 2, self.parameter_bytes)
        return self.parameter_bytes


@dataclass(frozen=True)
class Workload:
    """The operators of a job, in the order of the forward pass, and its servers."""

    name: str
    servers: int
    operators: tuple[Operator, ...]

    @property
    def compute_ms(self) -> float:
        """Of a server that computes its own block alone."""
        return sum(each.forward_ms + each.backward_ms for each in self.operators)

    def consumers(self) -> list[list[int]]:
        """Which operators take the outputs of each."""
        found: list[list[int]] = [[] for _ in self.operators]
        for index, operator in enumerate(self.operators):
            for each in operator.inputs:
                found[each].append(index)
        return found


def workload_of(job: JobDescription) -> Workload:
    """Make operators of a job's layers.

    Layers without parameters, and normalisations, belong to the operator whose output they alone
    take. If the job's iteration was measured, times are scaled to it.

    Raises PlanError for a job whose iteration takes no time, or that has one server.
    """
    servers = job.cluster.servers
    if servers < 2:
        raise PlanError(f"{servers} servers: 2 or more have a network between them")
    forward_s = job.forward_s
    estimated_s = sum(forward_s.values()) * (1 + BACKWARD_PER_FORWARD)
    if not estimated_s:
        raise PlanError(f"job {job.name}: its layers compute nothing, an iteration has no time")
    to_ms = 1e3 * (job.iteration_s / estimated_s if job.iteration_s else 1.0)
    taken = Counter(name for layer in job.model for name in layer.inputs)
    operators: list[Operator] = []
    home: dict[str, int] = {}
    for layer in job.model:
        made = _operator(layer, job, home, forward_s[layer.name] * to_ms)
        alone = layer.inputs[0] if len(layer.inputs) == 1 else None
        if layer.kind in _ABSORBED and alone and taken[alone] == 1:
            home[layer.name] = home[alone]
            operators[home[alone]] = _joined(operators[home[alone]], made)
        else:
            home[layer.name] = len(operators)
            operators.append(made)
    return Workload(job.name, job.cluster.servers, tuple(operators))


def _operator(
    layer: Layer, job: JobDescription, home: dict[str, int], forward_ms: float
) -> Operator:
    devices = job.cluster.devices_per_server
    examples = job.batch * devices
    touched = sum(layer.gradient_values(examples)) if layer.lookups else 0
    return Operator(
        name=layer.name,
        is_table=layer.kind is Kind.EMBEDDING,
        inputs=tuple(dict.fromkeys(home[name] for name in layer.inputs)),
        forward_ms=forward_ms,
        backward_ms=forward_ms * BACKWARD_PER_FORWARD,
        output_bytes=float(layer.outputs * examples * VALUE_BYTES),
        parameter_bytes=float(layer.parameters * VALUE_BYTES),
        touched_bytes=float(touched * VALUE_BYTES),
    )


def _joined(first: Operator, then: Operator) -> Operator:
    """Two operators in one, which hands on what the second does."""
    return replace(
        first,
        forward_ms=first.forward_ms + then.forward_ms,
        backward_ms=first.backward_ms + then.backward_ms,
        output_bytes=then.output_bytes,
        parameter_bytes=first.parameter_bytes + then.parameter_bytes,
    )
