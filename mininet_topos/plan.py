"""Before a run: identify the hot keys of the workload, place them, choose F."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.artifacts import Artifact
from controller.byte_model import hot_set_size
from controller.identify import Heat
from controller.key_counts import KeyCounts
from controller.placing.documents import training_documents
from controller.placing.methods import NEED_DOCUMENTS, Data, place
from host_stack.errors import BadInput
from host_stack.fixedpoint import choose_fraction_bits
from host_stack.layout import Layout
from host_stack.placement import Keys, Placement
from host_stack.shards import shard_sizes
from mininet_topos.options import RunOptions
from workloads.workload import Workload


@dataclass(frozen=True)
class Plan:
    """What the controller decided from the sample.

    Attributes:
        heat: of the keys of the sample.
        placements: of each server's share of the hot keys, which are numbered as it does.
        fraction_bits: F.
    """

    heat: Heat
    placements: tuple[Placement, ...]
    fraction_bits: int

    @property
    def hot_keys(self) -> int:
        """How many keys are hot."""
        return sum(map(len, self.placements))


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
    return Plan(heat, place_keys(options, workload, ranked, artifact.layout), fraction_bits)


def place_keys(
    options: RunOptions, workload: Workload, hot: Keys, layout: Layout
) -> tuple[Placement, ...]:
    """Place the hot keys (uint64[n], hottest first) of each server by the method of the options.

    Raises `BadInput` if the blocks of rows of all servers do not fit the switch.
    """
    documents = []
    if options.placement in NEED_DOCUMENTS and len(hot):
        documents = training_documents(workload, options.seed)
    data = Data(documents, options.batch, options.workers, options.seed)
    ends = np.cumsum(shard_sizes(workload.model.num_keys, options.servers)).tolist()
    placements = []
    for first, end in zip([0, *ends], ends, strict=False):
        placed = place(options.placement, hot[(hot >= first) & (hot < end)], layout, data)
        keys = placed.keys - np.uint64(first)
        placements.append(Placement(keys, placed.lanes, placed.rows, layout, placed.pairs))
    rows = sum(rows_of_block(placed) for placed in placements)
    if rows > layout.rows:
        raise BadInput(
            f"hot keys of {options.servers} servers need {rows} rows in blocks of powers of two, "
            f"the switch has {layout.rows}: give fewer hot keys (--hot) or servers"
        )
    return tuple(placements)


def rows_of_block(placement: Placement) -> int:
    """Rows of the block that a job with a placement gets: a power of two."""
    return 1 << max(0, placement.used_rows - 1).bit_length()


def sample_gradients(options: RunOptions, workload: Workload) -> np.ndarray:
    """float32 gradients of the first batch of every worker at the initial parameters."""
    parameters = workload.model.initial_params(options.seed)
    parts = []
    for worker in range(options.workers):
        keys = workload.keys(worker, 0)
        gradient, _ = workload.gradient(worker, 0, keys, parameters[keys.astype(np.int64)])
        parts.append(gradient)
    return np.concatenate(parts)
