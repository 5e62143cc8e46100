"""Packing: which gradient of a push travels in which packet (sections 4 and 6 of the design).

The n-th key of each lane goes into the n-th packet, so that a push needs as many packets as its
fullest lane holds keys. Keys with two cells are first spread over their lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_stack.codec import Index
from host_stack.fixedpoint import IntArray, MaskArray

MAX_SWEEPS = 4
"""Passes over the row pairs; what is not level after these stays a packet longer."""


@dataclass(frozen=True)
class Packing:
    """Where each gradient of a push travels.

    Attributes:
        packets: intp[n], the packet of each key; a lane occurs at most once in a packet.
        lanes: int64[n].
        rows: int64[n].
        count: number of packets.
    """

    packets: Index
    lanes: IntArray
    rows: IntArray
    count: int


def ideal_packets(keys: int, lanes: int) -> int:
    """The fewest packets that `keys` gradients can travel in."""
    return -(-keys // lanes)


def nth_of_lane(lanes: NDArray[np.unsignedinteger], num_lanes: int) -> tuple[Index, int]:
    """Of each of n keys, how many before it are in the same lane; and the most keys of a lane.

    `lanes` is uint8[n]: numpy sorts one byte by radix, in linear time, and wider ones do not.
    """
    order = np.argsort(lanes, kind="stable")
    per_lane = np.bincount(lanes, minlength=num_lanes)
    starts = np.cumsum(per_lane) - per_lane
    nth = np.empty(len(lanes), np.intp)
    nth[order] = np.arange(len(lanes)) - np.repeat(starts, per_lane)
    return nth, int(per_lane.max(initial=0))


def spread(load: IntArray, present: MaskArray, masks: IntArray) -> MaskArray:
    """Choose which keys with two cells use their second one, so that the fullest lane is low.

    A key of pair i in lane l can use lane l ^ masks[i] instead. One pair after the other is gone
    through, all of its lanes at once: a key leaves a lane that is above the ideal for one that
    holds at least two fewer. Pairs that come first are used first, so that the second rows of the
    last ones are often not touched at all, by any worker.

    Args:
        load: int64[L], keys of the push in each lane, all of them in their first cells.
        present: bool[m, L], which keys of the m pairs are in the push, by their first lane.
        masks: int64[m].

    Returns:
        bool[m, L], the keys that use their second cell; a subset of `present`.
    """
    first, second = present.copy(), np.zeros_like(present)
    load = load.copy()
    ideal = ideal_packets(int(load.sum()), len(load))
    others = np.arange(len(load)) ^ masks[:, np.newaxis]
    for _ in range(MAX_SWEEPS):
        stirred = False
        for pair, other in enumerate(others):
            if load.max() <= ideal:
                return second
            change = _step(load, other, first[pair], second[pair], ideal)
            if change is not None:
                load += change[other] - change
                stirred = True
        if not stirred:
            break
    return second


def _step(
    load: IntArray, other: IntArray, first: MaskArray, second: MaskArray, ideal: int
) -> IntArray | None:
    """Move keys of one pair; `first` and `second` (bool[L]) say which cell each uses, in place.

    Returns int64[L], 1 for a key that left its first lane and -1 for one that came back to it, or
    None if none did.
    """
    over = load > ideal
    surplus = load - load[other]
    leave = first & over & (surplus >= 2)
    back = second & over[other] & (surplus <= -2)
    if back.any():
        # Two keys may leave one lane for the other: one from its first cell, one from its second.
        leave &= ~back[other] | (surplus >= 4)
    elif not leave.any():
        return None
    changed = leave | back
    first ^= changed
    second ^= changed
    return leave.astype(np.int64) - back
