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

PATIENCE = 3
"""So many passes over the masks of row pairs may lower no lane before it is left at that."""


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


@dataclass(frozen=True)
class Exchanges:
    """Row pairs by their masks: which lanes exchange load over the keys of which pairs.

    Attributes:
        order: intp[m], the pairs, those of the same mask together.
        starts: intp[g], where in `order` each mask begins.
        groups: intp[m], the mask of each pair in `order`.
        others: intp[g, L], the lane that each lane exchanges with.
    """

    order: Index
    starts: Index
    groups: Index
    others: Index

    @classmethod
    def of(cls, masks: IntArray, lanes: int) -> Exchanges:
        """Those of pairs with int64[m] masks; there is at least one."""
        order = np.argsort(masks, kind="stable")
        distinct, starts, groups = np.unique(masks[order], return_index=True, return_inverse=True)
        return cls(order, starts, groups, np.arange(lanes) ^ distinct[:, np.newaxis])


def spread(load: IntArray, present: MaskArray, exchanges: Exchanges) -> MaskArray:
    """Choose which keys with two cells use their second one, so that the fullest lane is low.

    Two lanes whose keys may change to each other share their load evenly, as far as these keys
    suffice; so it goes through the masks, which are as the dimensions of a hypercube (dimension
    exchange: Cybenko, 1989). Of an odd difference the smaller part moves. From the second pass on
    the larger part leaves a lane above the ideal: so what is too much moves on until it finds a
    lane with room.

    Args:
        load: int64[L], keys of the push in each lane, all of them in their first cells.
        present: bool[m, L], which keys of the m pairs are in the push, by their first lane; pairs
            in the order of `exchanges`.
        exchanges: of the pairs.

    Returns:
        bool[m, L], the keys that use their second cell; a subset of `present`.
    """
    counts = np.cumsum(present, axis=0)
    before: IntArray = counts[exchanges.starts] - present[exchanges.starts]
    ends = np.append(exchanges.starts[1:], len(present)) - 1
    leaving = _level(load, counts[ends] - before, exchanges.others)
    moved: MaskArray = counts <= (before + leaving)[exchanges.groups]
    return moved & present


def _level(load: IntArray, movable: IntArray, others: Index) -> IntArray:
    """How many of int64[g, L] movable keys leave each lane over each mask, int64[g, L]."""
    load = load.copy()
    ideal = ideal_packets(int(load.sum()), len(load))
    leaving = np.zeros_like(movable)
    arriving = np.take_along_axis(movable, others, axis=1)
    order = [*range(len(others))]
    lowest, waited = int(load.max()), 0
    bound = lowest  # above which the larger part of an odd difference moves; no lane is at first
    while lowest > ideal and waited < PATIENCE:
        for mask in order:
            theirs = load.take(others[mask])
            surplus = load - theirs
            above = np.maximum(load, theirs) > bound
            half = (surplus + ((surplus > 0) == above)) >> 1
            total = np.minimum(np.maximum(leaving[mask] + half, -arriving[mask]), movable[mask])
            load -= total - leaving[mask]
            leaving[mask] = total
        # What is too much takes another way the next time.
        order.append(order.pop(0))
        bound = ideal
        fullest = int(load.max())
        waited = 0 if fullest < lowest else waited + 1
        lowest = min(lowest, fullest)
    return np.maximum(leaving, 0)
