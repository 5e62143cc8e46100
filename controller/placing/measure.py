"""What a placement costs on given pushes: packets, write conflicts, rows, bytes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from controller.byte_model import DIGITS_BYTES, FLOAT_BYTES, RowCosts, cold_bytes
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
        arrival_conflicts: of a push that is packed in the order of its keys, LANES at a time.
        rows_touched: rows that a round drains.
        rows_changed: rows of which a round sends an UPDATE.
        hot_bytes: of a round on the server's link, for drains and UPDATEs.
        server_bytes: the same, and those of the cold keys.
    """

    hot_keys: float
    cold_keys: float
    packets: float
    ideal: float
    arrival_conflicts: float
    rows_touched: float
    rows_changed: float
    hot_bytes: float
    server_bytes: float

    @property
    def packets_ratio(self) -> float:
        """Packets of a push as a multiple of the ideal."""
        return self.packets / self.ideal if self.ideal else 1.0


def conflicts(lanes: IntArray, num_lanes: int) -> int:
    """Write conflicts of gradients (int64[n], their lanes) that fill packets as they come.

    Counted as in the paper: of the gradients of a packet that want the same lane, all but one.
    """
    packets = np.arange(len(lanes)) // num_lanes
    return len(lanes) - len(np.unique(packets * num_lanes + lanes))


def measure(placement: Placement, rounds: list[Round]) -> Cost:
    """What `placement` costs over rounds of pushes, as every worker packs them."""
    each = [_of_round(placement, pushes) for pushes in rounds]
    return Cost(*np.mean(each, axis=0).tolist())


def _of_round(placement: Placement, pushes: Round) -> tuple[float, ...]:
    """The attributes of `Cost`, of one round."""
    lanes = placement.layout.lanes
    touched = np.zeros((max(1, placement.used_rows), lanes), np.bool_)
    sums = np.zeros(5)
    indices = []
    for keys in pushes:
        _, index = placement.find(keys)
        packing = placement.pack(index)
        touched[packing.rows, packing.lanes] = True
        indices.append(index)
        hot = len(index)
        arrival = conflicts(placement.lanes[index], lanes)
        sums += (hot, len(keys) - hot, packing.count, ideal_packets(hot, lanes), arrival)
    changed = np.unique(np.concatenate(indices))
    changed_rows = len(np.unique(placement.rows[changed]))
    rows, hot_bytes = _drained(placement, touched)
    hot_bytes += len(changed) * FLOAT_BYTES + changed_rows * RowCosts.of(placement.layout).update
    return (
        *(sums / len(pushes)).tolist(),
        rows,
        changed_rows,
        hot_bytes,
        hot_bytes + cold_bytes(sums[1]),
    )


def _drained(placement: Placement, touched: np.ndarray) -> tuple[int, float]:
    """How many rows a round drains, and the bytes of it; `touched` is bool[rows, lanes]."""
    rows = np.flatnonzero(touched.any(axis=1))
    cells = touched[rows].sum(axis=1)
    cell_bytes = np.where(placement.exact_rows(rows), DIGITS_BYTES, FLOAT_BYTES)
    row_bytes = len(rows) * RowCosts.of(placement.layout).drain
    return len(rows), float((cells * cell_bytes).sum()) + row_bytes


def rounds_of(pushes: list[Keys], workers: int) -> list[Round]:
    """Rounds of `workers` pushes each; what is left after the last whole one is left out."""
    ends = range(0, len(pushes) + 1, workers)
    return [pushes[start:end] for start, end in pairwise(ends)]
