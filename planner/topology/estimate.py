"""A quick estimate of an iteration, for searches that try thousands of strategies.

Phases follow each other: forward computation, activations, backward computation, gradients of
activations; the AllReduce overlaps the backward half. What a phase takes is what its busiest
server or link takes. Waiting within a phase is left out, and overlap across them: the estimate
ranks strategies, the fluid simulator times them.
"""

from __future__ import annotations

import numpy as np

from planner.topology.fabrics import Fabric
from planner.topology.finder import AllReduceDemand
from planner.topology.maxmin import Floats
from planner.topology.operators import Workload
from planner.topology.strategy import Placement, Strategy, owners


class Estimator:
    """Estimates iterations of a workload on one fabric; it remembers what repeats."""

    def __init__(self, workload: Workload, fabric: Fabric) -> None:
        self._workload = workload
        self._fabric = fabric
        self._ring_loads: dict[Placement, Floats] = {}
        self._owners: dict[Placement, tuple[np.ndarray, Floats]] = {}

    def __call__(self, strategy: Strategy) -> float:
        """Milliseconds of an iteration under a strategy."""
        forward, backward, transfers = self._sums(strategy)
        reduced = self._reduced(strategy)
        capacity = self._fabric.capacity
        there = self._fabric.transfer_loads(transfers)
        back = self._fabric.transfer_loads(transfers.T)
        ahead = forward.max() + (there / capacity).max()
        behind = backward.max() + (back / capacity).max()
        return float(ahead + max(behind, ((back + reduced) / capacity).max()))

    def _sums(self, strategy: Strategy) -> tuple[Floats, Floats, Floats]:
        """Times of each server, forward and backward, and bytes of activations between them."""
        servers = self._workload.servers
        forward, backward = np.zeros(servers), np.zeros(servers)
        transfers = np.zeros(servers * servers)
        operators = self._workload.operators
        placed = [self._owner(each) for each in strategy.placements]
        for operator, (owner, blocks) in zip(operators, placed, strict=True):
            forward += operator.forward_ms * blocks
            backward += operator.backward_ms * blocks
            for each in operator.inputs:
                source = placed[each][0]
                if source is not owner:
                    np.add.at(transfers, source * servers + owner, operators[each].output_bytes)
        return forward, backward, transfers.reshape(servers, servers)

    def _owner(self, placement: Placement) -> tuple[np.ndarray, Floats]:
        if placement not in self._owners:
            owner = owners(placement, self._workload.servers)
            blocks = np.bincount(owner, minlength=self._workload.servers).astype(float)
            self._owners[placement] = (owner, blocks)
        return self._owners[placement]

    def _reduced(self, strategy: Strategy) -> Floats:
        """Bytes of AllReduces on each link."""
        sizes: dict[Placement, float] = {}
        for operator, placement in zip(self._workload.operators, strategy.placements, strict=True):
            if len(placement) > 1:
                size = operator.reduced_bytes(len(placement))
                sizes[placement] = sizes.get(placement, 0.0) + size
        loads = np.zeros(len(self._fabric.capacity))
        for placement, size in sizes.items():
            loads += size * self._ring_load(placement)
        return loads

    def _ring_load(self, placement: Placement) -> Floats:
        """Bytes on each link for an AllReduce of one byte."""
        if placement not in self._ring_loads:
            loads = np.zeros(len(self._fabric.capacity))
            for flow in self._fabric.flows(AllReduceDemand(placement, 1.0)):
                loads[flow.way.links] += flow.size_bytes * flow.way.shares
            self._ring_loads[placement] = loads
        return self._ring_loads[placement]
