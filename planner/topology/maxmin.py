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
_SAME = 1 + 1e-9


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

    def of(self, flows: Ints) -> Uses:
        """The uses of some flows, in their order."""
        where = runs(self.first[flows], self.first[flows + 1])
        lengths = self.first[flows + 1] - self.first[flows]
        first = np.concatenate([[0], np.cumsum(lengths)])
        return Uses(first, self.link[where], self.share[where])


def max_min_rates(uses: Uses, capacity: Floats) -> Floats:
    """Rates of all flows: float64, (f,), in the capacities' unit.

    A link is settled as soon as none of its flows could be held back elsewhere, many links at
    once: the same rates as one link at a time, in fewer passes.

    Args:
        uses: of the flows.
        capacity: float64, (l,), of the links.

    """
    flows = len(uses.first) - 1
    rates = np.zeros(flows)
    if not flows:
        return rates
    left = capacity.astype(np.float64)
    links = len(capacity)
    active = np.arange(flows)
    while len(active):
        part = uses if len(active) == flows else uses.of(active)
        owner = np.repeat(np.arange(len(active)), np.diff(part.first))
        weight = np.bincount(part.link, part.share, minlength=links)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.where(weight > 0, np.maximum(left, 0.0) / weight, np.inf)
        held = np.minimum.reduceat(level[part.link], part.first[:-1])
        lowest = np.full(links, np.inf)
        np.minimum.at(lowest, part.link, held[owner])
        full = lowest * _SAME >= level
        settled = np.logical_or.reduceat(full[part.link], part.first[:-1])
        rates[active[settled]] = held[settled]
        taken = settled[owner]
        left -= np.bincount(
            part.link[taken], part.share[taken] * held[owner[taken]], minlength=links
        )
        active = active[~settled]
    return rates
