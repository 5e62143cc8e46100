"""The methods of placing, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from controller.placing.cooccurrence import by_cooccurrence
from controller.placing.documents import Documents
from controller.placing.pairs import with_second_cells
from host_stack.errors import BadInput
from host_stack.layout import Layout
from host_stack.packing import nth_of_lane
from host_stack.placement import Keys, Placement, heat_based, require_fit


@dataclass(frozen=True)
class Data:
    """What is known of a job's pushes when its keys are placed.

    Attributes:
        documents: uint64[m] each, the keys of an example or a push; unique.
        draws: documents of a push.
        workers: pushes of a round.
        seed: of what a method draws at random.
    """

    documents: list[Keys] = field(default_factory=list)
    draws: int = 1
    workers: int = 8
    seed: int = 1


Method = Callable[[Keys, Layout, Data], Placement]


def hashed(hot: Keys, layout: Layout, _data: Data) -> Placement:
    """A key's lane is a hash of it; its row is the next free one of the lane."""
    require_fit(len(hot), layout)
    lanes = (_mixed(hot) % np.uint64(layout.lanes)).astype(np.uint8)
    rows, fullest = nth_of_lane(lanes, layout.lanes)
    if fullest > layout.rows:
        raise BadInput(
            f"a lane gets {fullest} keys by their hashes, and has {layout.rows} rows; place fewer "
            "keys, or by another method"
        )
    return Placement(hot, lanes.astype(np.int64), rows.astype(np.int64), layout)


def _mixed(keys: Keys) -> Keys:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    mixed = keys.copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def sequential(hot: Keys, layout: Layout, _data: Data) -> Placement:
    """The i-th smallest key goes to lane i mod LANES, row i div LANES."""
    return heat_based(np.sort(hot), layout)


def heat(hot: Keys, layout: Layout, _data: Data) -> Placement:
    """The paper's: the i-th hottest key goes to lane i mod LANES, row i div LANES."""
    return heat_based(hot, layout)


def cooccurrence(hot: Keys, layout: Layout, data: Data) -> Placement:
    """Keys that occur together share rows; lanes are balanced over documents."""
    return by_cooccurrence(Documents.of(hot, data.documents), data.draws, data.workers, layout)


def two_cells(hot: Keys, layout: Layout, data: Data) -> Placement:
    """By co-occurrence, and the hottest keys own a second cell."""
    return with_second_cells(hot, data.documents, data.draws, data.workers, layout, data.seed)


METHODS: dict[str, Method] = {
    "hash": hashed,
    "sequential": sequential,
    "heat": heat,
    "cooccurrence": cooccurrence,
    "two-cells": two_cells,
}
BEST = "two-cells"
NEED_DOCUMENTS = ("cooccurrence", "two-cells")


def check_method(method: str) -> None:
    """Raise `BadInput` for an unknown method."""
    if method not in METHODS:
        raise BadInput(f"unknown method {method!r} of placing; known are {', '.join(METHODS)}")


def place(method: str, hot: Keys, layout: Layout, data: Data) -> Placement:
    """Place keys (uint64[n], hottest first) by the method of a name.

    Raises `BadInput` for an unknown method, keys that do not fit or occur twice, and for a method
    that needs documents and has none.
    """
    check_method(method)
    if method in NEED_DOCUMENTS and len(hot) and not data.documents:
        raise BadInput(
            f"method {method} needs a data set or a trace to see which keys meet; `libra identify "
            "--save-traces` writes one, and method heat needs none"
        )
    return METHODS[method](hot, layout, data)
