"""What a placement costs on given pushes: packets, write conflicts, rows, bytes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from controller.byte_model import FLOAT_BYTES, RowCosts, cold_bytes
from host_stack.distinct import distinct
from host_stack.drain import runs
from host_stack.fixedpoint import IntArray
from host_stack.packing import ideal_packets
from host_stack.placement import Keys, Placement

Round = list[Keys]
"""The keys that each worker pushes in a round, uint64[n] each, ascending and unique."""


@dataclass(frozen=True)
class Cost:
    """Means over pushes or rounds.

    Attributes:
        hot_keys, cold_keys: of a push.
        packets, ideal: of a push; the ideal is ⌈hot keys / LANES⌉.
        conflicts: of a push as it is packed.
        arrival_conflicts: of a push that is packed in the order of its keys, LANES at a time.
        rows_touched: rows that a round drains, and of which it sends an UPDATE.
        requests: DRAINs of a round, if none is sent again.
        hot_bytes: of a round on the server's link, for drains and UPDATEs.
        server_bytes: the same, and those of the cold keys.
    """

    hot_keys: float
    cold_keys: float
    packets: float
    ideal: float
    conflicts: float
    arrival_conflicts: float
    rows_touched: float
    requests: float
    hot_bytes: float
    server_bytes: float

    @property
    def packets_ratio(self) -> float:
        """Packets of a push as a multiple of the ideal."""
        return self.packets / self.ideal if self.ideal else 1.0


def conflicts(packets: IntArray, lanes: IntArray, num_lanes: int) -> int:
    """Write conflicts of n gradients: their packets are int64[n], their lanes int64[n].

    Counted as in the paper: of the gradients of a packet that want the same lane, all but one.
    """
    return len(lanes) - len(np.unique(packets * num_lanes + lanes))


def measure(placement: Placement, rounds: list[Round]) -> Cost:
    """What `placement` costs over rounds of pushes, as every worker packs them."""
    each = [_of_round(placement, pushes) for pushes in rounds]
    return Cost(*np.mean(each, axis=0).tolist())


def _of_round(placement: Placement, pushes: Round) -> tuple[float, ...]:
    """The attributes of `Cost`, of one round."""
    lanes = placement.layout.lanes
    sums = np.zeros(6)
    indices = []
    for keys in pushes:
        _, index = placement.find(keys)
        packing = placement.pack(index)
        indices.append(index)
        hot = len(index)
        packed = conflicts(packing.packets, packing.lanes, lanes)
        arrival = conflicts(np.arange(hot) // lanes, placement.lanes[index], lanes)
        ideal = ideal_packets(hot, lanes)
        sums += (hot, len(keys) - hot, packing.count, ideal, packed, arrival)
    changed = distinct(np.concatenate(indices))
    rows = distinct(placement.rows[changed])
    seconds = placement.second_cells(rows)
    begins, _ = runs(rows, seconds, np.zeros(len(rows), np.bool_), placement.layout)
    costs = RowCosts.of(placement.layout)
    hot_bytes = (
        len(begins) * costs.request
        + len(rows) * (costs.drained + costs.update)
        + len(changed) * 2 * FLOAT_BYTES
    )
    return (
        *(sums / len(pushes)).tolist(),
        len(rows),
        len(begins),
        hot_bytes,
        hot_bytes + cold_bytes(sums[1]),
    )


def rounds_of(pushes: list[Keys], workers: int) -> list[Round]:
    """Rounds of `workers` pushes each; what is left after the last whole one is left out."""
    ends = range(0, len(pushes) + 1, workers)
    return [pushes[start:end] for start, end in pairwise(ends)]
