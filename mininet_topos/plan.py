"""Before a run: identify the hot keys of the workload, place them, choose F."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.artifacts import Artifact
from controller.identify import Heat, hot_set_size
from controller.key_counts import KeyCounts
from host_stack.errors import BadInput
from host_stack.fixedpoint import choose_fraction_bits
from host_stack.placement import Placement, heat_based
from mininet_topos.options import RunOptions
from workloads.workload import Workload


@dataclass(frozen=True)
class Plan:
    """What the controller decided from the sample."""

    heat: Heat
    placement: Placement
    fraction_bits: int


def make_plan(options: RunOptions, workload: Workload, artifact: Artifact) -> Plan:
    """Sample the workload and decide; `BadInput` if the hot set does not fit the switch."""
    counts = KeyCounts.of(*workload.sample_counts(options.sample, options.seed))
    heat = counts.heat(options.batch)
    hot = options.hot
    if hot is None:
        hot = hot_set_size(heat, options.workers, artifact.layout)
    if hot > artifact.layout.cells:
        raise BadInput(
            f"hot set of {hot} keys: the switch has {artifact.layout.lanes} lanes of "
            f"{artifact.layout.rows} rows, {artifact.layout.cells} cells"
        )
    ranked = counts.top(hot).keys
    fraction_bits = options.fraction_bits
    if fraction_bits is None:
        fraction_bits = choose_fraction_bits(sample_gradients(options, workload))
    return Plan(heat, heat_based(ranked, artifact.layout), fraction_bits)


def sample_gradients(options: RunOptions, workload: Workload) -> np.ndarray:
    """float32 gradients of the first batch of every worker at the initial parameters."""
    parameters = workload.model.initial_params(options.seed)
    parts = []
    for worker in range(options.workers):
        keys = workload.keys(worker, 0)
        gradient, _ = workload.gradient(worker, 0, keys, parameters[keys.astype(np.int64)])
        parts.append(gradient)
    return np.concatenate(parts)
