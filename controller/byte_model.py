"""The bytes that a round costs on the server's link, which is the bottleneck (section 6).

Cold, each worker that touches a key pays for a push and a pull over the ps-lite protocol. Hot, all
of them share one cell of a DRAINED and of an UPDATE, and rows pay for the headers; GRADs of hot
keys never get as far as the server. From this follows how many keys are worth a cell.

Bytes are those that a counter of the link sees: Ethernet headers included, checksums of frames not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.identify import Heat
from host_stack.codec import DRAIN, Codec
from host_stack.drain import MAX_RUN
from host_stack.layout import Layout

KEY_BYTES = 8
VALUE_BYTES = 4
PUSH_BYTES = KEY_BYTES + VALUE_BYTES
"""A cold key in a push."""
PULL_BYTES = 2 * KEY_BYTES + VALUE_BYTES
"""A cold key in a pull: the key asked for, key and value answered."""
FLOAT_BYTES = 4
"""A cell in a DRAINED or an UPDATE."""

UDP_FRAME_BYTES = 14 + 20 + 8
"""Ethernet, IPv4 and UDP."""
TCP_FRAME_BYTES = 14 + 20 + 32
"""Ethernet, IPv4 and TCP with time stamps."""
TCP_SEGMENT_BYTES = 1448
"""What a full frame carries of a TCP stream."""
TCP_OVERHEAD = 1 + (TCP_FRAME_BYTES + TCP_FRAME_BYTES / 2) / TCP_SEGMENT_BYTES
"""Bytes on the link, both ways, for one byte of a stream; every second segment is acknowledged."""


@dataclass(frozen=True)
class RowCosts:
    """What a row costs beside its cells, in bytes.

    Attributes:
        request: of a DRAIN, which asks for up to `MAX_RUN` rows.
        drained: of a DRAINED.
        update: of an UPDATE.
    """

    request: int
    drained: int
    update: int

    @classmethod
    def of(cls, layout: Layout) -> RowCosts:
        """The costs with packets of a layout."""
        codec = Codec(layout)
        return cls(
            UDP_FRAME_BYTES + DRAIN.itemsize,
            UDP_FRAME_BYTES + codec.drained_prefix,
            UDP_FRAME_BYTES + codec.update_prefix,
        )

    @property
    def both(self) -> float:
        """Of a row that is drained and updated, one of `MAX_RUN` that are asked for at once."""
        return self.request / MAX_RUN + self.drained + self.update


def cold_bytes(keys: float) -> float:
    """Bytes of a round, both ways, for `keys` cold keys, counted once for each of their workers."""
    return keys * (PUSH_BYTES + PULL_BYTES) * TCP_OVERHEAD


def touch_share(share: NDArray[np.float64], draws: float) -> NDArray[np.float64]:
    """The chance that any of `draws` sees a key that each sees with chance `share`, float64[n]."""
    touched: NDArray[np.float64] = -np.expm1(draws * np.log1p(-np.minimum(share, 1 - 1e-12)))
    return touched


def saved_bytes(heat: Heat, workers: int, layout: Layout) -> NDArray[np.float64]:
    """Bytes per round that a hot set of the first 1…n keys saves on the server's link, float64[n].

    Workers are taken to draw their batches independently, and rows to hold keys of equal heat.
    """
    touched = touch_share(heat.share, workers)
    cold = workers * heat.share * cold_bytes(1)
    hot = touched * 2 * FLOAT_BYTES
    # A row is left alone where each of its keys is.
    untouched = np.cumsum(np.log1p(-np.minimum(touched, 1 - 1e-9)))
    starts = np.arange(len(touched)) // layout.lanes * layout.lanes
    before = np.concatenate([[0.0], untouched])[starts]
    ends = np.minimum(starts + layout.lanes, len(touched)) - 1
    row_touched = 1 - np.exp(untouched[ends] - before)
    row = row_touched * RowCosts.of(layout).both / layout.lanes
    saved: NDArray[np.float64] = np.cumsum(cold - hot - row)
    return saved


def hot_set_size(heat: Heat, workers: int, layout: Layout) -> int:
    """How many of the hottest keys to place, so that the server's link carries fewest bytes."""
    saved = saved_bytes(heat, workers, layout)[: layout.cells]
    if not len(saved) or saved.max() <= 0:
        return 0
    return int(np.argmax(saved)) + 1


@dataclass(frozen=True)
class SizeCurve:
    """Bytes of a round on the server's link against the size of the hot set.

    Attributes:
        lanes: LANES.
        sizes: int64[n], from 0.
        server_bytes: float64[n].
        best: the size that `hot_set_size` chooses.
        best_bytes: of that size.
    """

    lanes: int
    sizes: NDArray[np.int64]
    server_bytes: NDArray[np.float64]
    best: int
    best_bytes: float

    @classmethod
    def of(
        cls, heat: Heat, cold_keys: float, workers: int, layout: Layout, points: int = 120
    ) -> SizeCurve:
        """The curve of a job whose pushes have `cold_keys` keys if none is hot."""
        nothing = workers * cold_bytes(cold_keys)
        saved = np.concatenate([[0.0], saved_bytes(heat, workers, layout)[: layout.cells]])
        sizes = np.unique(np.linspace(0, len(saved) - 1, points).astype(np.int64))
        best = hot_set_size(heat, workers, layout)
        return cls(layout.lanes, sizes, nothing - saved[sizes], best, nothing - float(saved[best]))

    @property
    def bound(self) -> float:
        """How many times fewer bytes the best size takes than no hot set."""
        return float(self.server_bytes[0]) / self.best_bytes
