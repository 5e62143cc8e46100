"""Profiles: when the gradients of one backward pass become ready, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from planner.description import ASSUMED_DEVICE
from planner.errors import PlanError
from planner.layers import BACKWARD_PER_FORWARD, VALUE_BYTES, Layer, Model
from planner.models import make_model
from planner.units import above_0

PUBLISHED_ITERATION_S: Mapping[str, float] = MappingProxyType(
    {"resnet50": 0.128086, "resnet101": 0.192006, "vgg16": 0.194524}
)
"""Of one V100, as the what-if study (NetAI 2020) has them."""
PUBLISHED_BATCH = 32
MAX_ITERATION_S = 1e6
MAX_GRADIENT_BYTES = 1 << 50


@dataclass(frozen=True)
class Iteration:
    """Time of an iteration on one device, without communication, and where it is from."""

    seconds: float
    source: str


@dataclass(frozen=True, eq=False)
class Profile:
    """Gradient-ready events of one backward pass, in their order: usually the last layer first.

    Attributes:
        name: what was profiled.
        wait_s: seconds since the event before, or since the pass began, float64[n].
        size_bytes: of each gradient, int64[n].
        iteration: time of an iteration on one device.

    Raises:
        PlanError: no event, lengths that differ, a time or a size that is negative or larger than
            any iteration or gradient.
    """

    name: str
    wait_s: NDArray[np.float64]
    size_bytes: NDArray[np.int64]
    iteration: Iteration

    def __post_init__(self) -> None:
        if not len(self.wait_s) or len(self.wait_s) != len(self.size_bytes):
            raise PlanError(
                f"profile {self.name} has {len(self.wait_s)} times and {len(self.size_bytes)} "
                "sizes; need one of each per gradient"
            )
        above_0(f"profile {self.name}: time of an iteration", self.iteration.seconds)
        longest_s = max(self.iteration.seconds, self.backward_s)
        if not ((self.wait_s >= 0).all() and longest_s <= MAX_ITERATION_S):
            raise PlanError(
                f"profile {self.name}: times must not be negative, nor an iteration longer than "
                f"{MAX_ITERATION_S:,.0f} s"
            )
        if not 0 <= self.size_bytes.min() <= self.size_bytes.max() < MAX_GRADIENT_BYTES:
            raise PlanError(
                f"profile {self.name}: sizes must be from 0 to {MAX_GRADIENT_BYTES:,} bytes"
            )

    @property
    def ready_s(self) -> NDArray[np.float64]:
        """When each gradient is ready, from the begin of the backward pass, float64[n]."""
        ready: NDArray[np.float64] = np.cumsum(self.wait_s)
        return ready

    @property
    def backward_s(self) -> float:
        """When the last gradient is ready."""
        return float(self.wait_s.sum())

    @property
    def total_bytes(self) -> int:
        """Of all gradients."""
        return sum(self.size_bytes.tolist())

    def with_iteration(self, seconds: float) -> Profile:
        """The same events with another time of an iteration, given by the user."""
        return replace(self, iteration=Iteration(seconds, "given"))


def measured_profile(
    name: str,
    wait_s: NDArray[np.float64],
    size_bytes: NDArray[np.int64],
    iteration_s: float | None,
) -> Profile:
    """A profile of measured events.

    Where nobody measured the time of an iteration, it is the published one if sizes and order of
    the gradients are those of a model that has one; else it is estimated from the backward pass.
    """
    if iteration_s is not None:
        iteration = Iteration(iteration_s, "measured")
    elif (known := recognise(size_bytes)) is not None:
        iteration = _published(known)
    else:
        share = BACKWARD_PER_FORWARD / (1 + BACKWARD_PER_FORWARD)
        iteration = Iteration(
            float(wait_s.sum()) / share,
            "estimated: a forward pass takes half as long as the backward pass",
        )
    return Profile(name, wait_s, size_bytes, iteration)


def _published(name: str) -> Iteration:
    source = f"published for {name}, {PUBLISHED_BATCH} images on a V100"
    return Iteration(PUBLISHED_ITERATION_S[name], source)


def recognise(size_bytes: NDArray[np.int64]) -> str | None:
    """The model with a published time whose gradients, last first, have these sizes."""
    for name in PUBLISHED_ITERATION_S:
        layers = reversed(make_model(name).layers)
        sizes = [VALUE_BYTES * size for layer in layers for size in reversed(layer.tensors)]
        if np.array_equal(size_bytes, sizes):
            return name
    return None


def model_profile(
    model: Model, batch: int, flops_per_s: float | None = None, iteration_s: float | None = None
) -> Profile:
    """A profile of a layer table, whose times come from the operations of its layers.

    A layer's gradients are ready together, when its backward pass ends; a backward pass takes
    twice as long as a forward pass. What an iteration takes is, in this order: given, what
    follows from `flops_per_s`, published, or what an assumed device would take.
    """
    if iteration_s is not None:
        iteration = Iteration(above_0("time of an iteration", iteration_s), "given")
    elif flops_per_s is None and model.name in PUBLISHED_ITERATION_S and batch == PUBLISHED_BATCH:
        iteration = _published(model.name)
    else:
        given = ASSUMED_DEVICE.flops_per_s if flops_per_s is None else flops_per_s
        rate = above_0("operations a second", given)
        iteration = Iteration(
            model.flops * batch / rate * (1 + BACKWARD_PER_FORWARD),
            f"estimated: {model.flops * batch:.3g} operations forward at {rate:.3g} a second",
        )
    second_per_flop = iteration.seconds / (1 + BACKWARD_PER_FORWARD) / max(model.flops, 1.0)
    waits, sizes, waited = [], [], 0.0
    for layer in reversed(model.layers):
        waited += layer.flops * BACKWARD_PER_FORWARD * second_per_flop
        for size in _gradients(layer, batch):
            waits.append(waited)
            sizes.append(size)
            waited = 0.0
    return Profile(model.name, np.array(waits, np.float64), np.array(sizes, np.int64), iteration)


def _gradients(layer: Layer, batch: int) -> list[int]:
    return [VALUE_BYTES * size for size in reversed(layer.gradient_values(batch))]
