"""What the planner knows of a model: its layers, their parameters and their arithmetic.

Counts are those of the architecture; no framework is needed. One multiplication and one addition
are two operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from planner.errors import PlanError

VALUE_BYTES = 4
"""Of a float32: a parameter, a gradient, an activation."""
MAX_TENSOR_VALUES = 1 << 48
BACKWARD_PER_FORWARD = 2
"""A backward pass computes gradients of inputs and of parameters: twice a forward pass."""


class Kind(StrEnum):
    """What a layer does."""

    CONVOLUTION = "convolution"
    DENSE = "dense"
    NORMALISATION = "normalisation"
    EMBEDDING = "embedding"
    ATTENTION = "attention"
    JOIN = "join"
    """Adds, concatenates or pools; it has no parameters."""


@dataclass(frozen=True)
class Layer:
    """One layer of a model; counts are per example where an example is named.

    Attributes:
        name: unique in the model.
        kind: what it does.
        tensors: values of each parameter tensor, in the order of the forward pass.
        flops: operations of the forward pass per example.
        outputs: values per example that it hands on (activations).
        inputs: names of the layers whose outputs it takes; empty if it takes the example itself.
        lookups: rows of an embedding that an example looks up if its gradients are sparse, that
            is, hold the touched rows only; 0 for every other layer.
        rows: rows of an embedding, 0 for every other layer.

    Raises:
        PlanError: a count is negative, a tensor larger than any, or an embedding's rows do not
            divide its parameters.
    """

    name: str
    kind: Kind
    tensors: tuple[int, ...]
    flops: float
    outputs: int
    inputs: tuple[str, ...] = ()
    lookups: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        if min((*self.tensors, self.flops, self.outputs, self.lookups, self.rows)) < 0:
            raise PlanError(f"layer {self.name}: a count is negative; need counts from 0")
        if max(self.tensors, default=0) >= MAX_TENSOR_VALUES:
            raise PlanError(
                f"layer {self.name}: a tensor has {max(self.tensors):.3g} values; allowed are "
                f"fewer than {MAX_TENSOR_VALUES:.3g}"
            )
        if self.lookups and (not self.rows or self.parameters % self.rows):
            raise PlanError(
                f"layer {self.name}: {self.parameters} parameters are not {self.rows} rows of "
                "equal width; sparse gradients need rows"
            )

    @property
    def parameters(self) -> int:
        """Trainable values of all tensors."""
        return sum(self.tensors)

    def gradient_values(self, batch: int) -> tuple[int, ...]:
        """Values of the gradient of each tensor for a batch of examples.

        That of an embedding with sparse gradients has the rows that the batch looks up, each
        taken to be another one, but no more than there are.
        """
        if not self.lookups:
            return self.tensors
        touched = min(batch * self.lookups, self.rows)
        return tuple(size // self.rows * touched for size in self.tensors)


@dataclass(frozen=True)
class Model:
    """A model: layers in the order of the forward pass.

    Attributes:
        name: what it is called, with its options.
        batch: examples per device and iteration that it is usually trained with.
        layers: each takes outputs of earlier ones only.

    Raises:
        PlanError: no layer, a name twice, or an input that is no earlier layer.
    """

    name: str
    batch: int
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise PlanError(f"model {self.name} has no layer")
        seen: set[str] = set()
        for layer in self.layers:
            if layer.name in seen:
                raise PlanError(f"model {self.name}: two layers are called {layer.name}")
            unknown = set(layer.inputs) - seen
            if unknown:
                raise PlanError(
                    f"model {self.name}: layer {layer.name} takes {', '.join(sorted(unknown))}, "
                    "which is no earlier layer"
                )
            seen.add(layer.name)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __getitem__(self, name: str) -> Layer:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    @property
    def parameters(self) -> int:
        """Trainable values."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def parameter_bytes(self) -> int:
        """Of all parameters, float32."""
        return VALUE_BYTES * self.parameters

    @property
    def flops(self) -> float:
        """Operations of a forward pass, per example."""
        return sum(layer.flops for layer in self.layers)
