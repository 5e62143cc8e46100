"""Max-min fair rates of flows that each use several links, vectorised.

A flow of rate x takes c · x of a link that it uses with coefficient c. Rates grow together until
a link is full; its flows keep theirs, the others grow on (progressive filling).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.topology.taskgraph import runs

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
EXACT = 1e-9


@dataclass(frozen=True)
class Uses:
    """Which links flows use, in compressed form.

    Attributes:
        first: int64, (f + 1,): those of flow i are at `first[i]:first[i + 1]`; one at least.
        link: int64, (u,), links.
        share: float64, (u,), coefficients above zero.

    """

    first: Ints
    link: Ints
    share: Floats

    def of(self, flows: Ints, counts: Ints) -> Uses:
        """The uses of some flows, in their order, each standing for `counts` that are alike."""
        where = runs(self.first[flows], self.first[flows + 1])
        lengths = self.first[flows + 1] - self.first[flows]
        first = np.concatenate([[0], np.cumsum(lengths)])
        return Uses(first, self.link[where], self.share[where] * np.repeat(counts, lengths))


def max_min_rates(uses: Uses, capacity: Floats, *, slack: float = EXACT) -> Floats:
    """Rates of all flows: float64, (f,), in the capacities' unit.

    A link is settled as soon as none of its flows could be held back elsewhere, many links at
    once: the same rates as one link at a time, in fewer passes.

    Args:
        uses: of the flows.
        capacity: float64, (l,), of the links.
        slack: by which share a flow may be held back by another link all the same; what links
            carry is never above their capacity.

    """
    flows = len(uses.first) - 1
    rates = np.zeros(flows)
    left = capacity.astype(np.float64)
    active = np.arange(flows)
    owner = np.repeat(active, np.diff(uses.first))
    while len(active):
        weight = np.bincount(uses.link, uses.share, minlength=len(left))
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(weight > 0, np.maximum(left, 0.0) / weight, np.inf)
        levels = level[uses.link]
        held = np.minimum.reduceat(levels, uses.first[:-1])
        held_of_use = held[owner]
        lowest = np.full(len(left), np.inf)
        np.minimum.at(lowest, uses.link, held_of_use)
        full = lowest * (1 + slack) >= level
        settled = np.logical_or.reduceat(full[uses.link], uses.first[:-1])
        rates[active[settled]] = held[settled]
        taken = settled[owner]
        left -= np.bincount(
            uses.link[taken], uses.share[taken] * held_of_use[taken], minlength=len(left)
        )
        active = active[~settled]
        uses, owner = _without(uses, settled, taken)
    return rates


def _without(
    uses: Uses, settled: npt.NDArray[np.bool_], taken: npt.NDArray[np.bool_]
) -> tuple[Uses, Ints]:
    """What is left of uses without settled flows, and the flow of each use."""
    kept = ~taken
    lengths = np.diff(uses.first)[~settled]
    first = np.concatenate([[0], np.cumsum(lengths)])
    left = Uses(first, uses.link[kept], uses.share[kept])
    return left, np.repeat(np.arange(len(lengths)), lengths)
