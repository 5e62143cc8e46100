"""What a message costs with each way of summing it over all workers.

A scheme splits the way of a message in *stages*, each with one queue: what the links carry in both
directions at once is one stage; where sums come back only after the last contribution, up and
down are two, and the next message goes up while this one comes down. Times are seconds; sizes are
bytes of one worker's gradients, which the compression ratio divides on the links, not in sums.

Workers on one host share its link. Rings, trees and halving-doubling run over all workers, with
the neighbours on one host beside each other, so that the link carries what it would carry for one
of them; the schemes with a server or a switch first sum within a host.

Sources: the cost of a ring is that of the what-if study (NetAI 2020); trees and
halving-doubling as in Thakur, Rabenseifner, Gropp (IJHPCA 2005); servers as in ps-lite (OSDI
2014); a switch that streams sums back as in SwitchML (NSDI 2021); Libra as in docs/wire.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.adding import V100_ADDS, AddTable
from planner.errors import PlanError
from planner.hot_cold import HotCold

Array = NDArray[np.float64]
Stages = tuple[Array, ...]
MAX_WORKERS = 1 << 20
MAX_LATENCY_S = 60.0


@dataclass(frozen=True)
class Conditions:
    """What a message meets: arrays of one shape, or numbers, an element for each point.

    Attributes:
        workers: N.
        goodput_bps: of the slowest worker's link, each way.
        ratio: of compression; 1 is none.
        server_goodput_bps: of a parameter server's link, each way; None if as the workers'.
        latency_s: from one host to another.
        per_host: workers on one host.
    """

    workers: Any
    goodput_bps: Any
    ratio: Any = 1.0
    server_goodput_bps: Any = None
    latency_s: float = 0.0
    per_host: int = 1

    def __post_init__(self) -> None:
        workers, ratio = np.asarray(self.workers), np.asarray(self.ratio)
        if workers.size and not (workers.min() >= 1 and workers.max() <= MAX_WORKERS):
            wrong = workers.min() if workers.min() < 1 else workers.max()
            raise PlanError(f"workers {wrong:.7g}: allowed are 1 to {MAX_WORKERS}")
        if ratio.size and not ratio.min() >= 1:
            raise PlanError(f"compression ratio {ratio.min():g}: allowed are ratios from 1 on")
        if not (np.asarray(self.goodput_bps) > 0).all():
            raise PlanError("goodput: need numbers above 0")
        if not 0 <= self.latency_s <= MAX_LATENCY_S:
            raise PlanError(f"latency {self.latency_s:g} s: allowed are 0 to {MAX_LATENCY_S:g} s")
        if not 1 <= self.per_host <= MAX_WORKERS:
            raise PlanError(f"{self.per_host} workers a host: allowed are 1 to {MAX_WORKERS}")

    @property
    def n(self) -> Array:
        """Workers as floats."""
        return np.asarray(self.workers, np.float64)

    @property
    def hosts(self) -> Array:
        """Hosts that the workers fill."""
        return np.ceil(self.n / self.per_host)

    def worker_link_s(self, size_bytes: Any) -> Array:
        """Seconds that bytes of gradients take on a worker's link, compressed."""
        return np.asarray(8.0 * size_bytes / (np.asarray(self.goodput_bps) * self.ratio))

    def server_link_s(self, size_bytes: Any) -> Array:
        """Seconds that bytes of gradients take on a server's link, compressed."""
        rate = self.goodput_bps if self.server_goodput_bps is None else self.server_goodput_bps
        return np.asarray(8.0 * size_bytes / (np.asarray(rate) * self.ratio))


@dataclass(frozen=True)
class Scheme:
    """A way of summing.

    Attributes:
        name: for people and programs.
        servers: parameter servers, among which gradients are spread evenly.
        adds: what an addition costs a worker or server.
        hot_cold: what of the gradients is hot, for Libra.
        compression_s_per_byte: compressing and decompressing, of one message after the other;
            only where the ratio is above 1.
    """

    name: str = "ring"
    servers: int = 1
    adds: AddTable = V100_ADDS
    hot_cold: HotCold = field(default_factory=HotCold)
    compression_s_per_byte: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in SCHEMES:
            raise PlanError(f"unknown scheme {self.name!r}; known are {', '.join(SCHEMES)}")
        if not 1 <= self.servers <= MAX_WORKERS:
            raise PlanError(f"servers {self.servers}: allowed are 1 to {MAX_WORKERS}")
        if not 0 <= self.compression_s_per_byte < 1:
            raise PlanError(
                f"compression takes {self.compression_s_per_byte:g} s a byte; allowed are 0 to 1"
            )

    def stages(self, size_bytes: float, at: Conditions) -> Stages:
        """Seconds of a message in each stage, at every point; 0 for a single worker."""
        alone = at.n <= 1
        compressing = np.where(
            np.asarray(at.ratio) > 1, self.compression_s_per_byte * size_bytes, 0
        )
        first, *others = SCHEMES[self.name](self, size_bytes, at)
        return tuple(np.where(alone, 0.0, seconds) for seconds in (first + compressing, *others))


def _ring(scheme: Scheme, size: float, at: Conditions) -> Stages:
    steps = at.n - 1
    part = size / at.n
    links = at.worker_link_s(2 * part * steps) + 2 * steps * at.latency_s
    return (np.asarray(links + steps * scheme.adds(part)),)


def _tree(scheme: Scheme, size: float, at: Conditions) -> Stages:
    """A binomial tree up and another down, whole messages at each level."""
    levels = np.ceil(np.log2(at.n))
    return (levels * (at.worker_link_s(2 * size) + 2 * at.latency_s + scheme.adds(size)),)


def _halving_doubling(scheme: Scheme, size: float, at: Conditions) -> Stages:
    """Of a number that is no power of two, the surplus first gives its gradients to neighbours."""
    levels = np.floor(np.log2(at.n))
    even = 2.0**levels
    links = at.worker_link_s(2 * size * (even - 1) / even) + 2 * levels * at.latency_s
    added = sum(
        np.where(level <= levels, scheme.adds(size / 2.0**level), 0.0)
        for level in range(1, int(levels.max(initial=0)) + 1)
    )
    surplus = at.worker_link_s(2 * size) + 2 * at.latency_s + scheme.adds(size)
    return (np.asarray(links + added + np.where(at.n > even, surplus, 0.0)),)


def _parameter_server(scheme: Scheme, size: float, at: Conditions) -> Stages:
    """Values without keys, as for dense gradients, where ranges name them."""
    share = size / scheme.servers
    link = np.maximum(at.worker_link_s(size), at.server_link_s(share * at.hosts)) + at.latency_s
    return (np.asarray(link + (at.hosts - 1) * scheme.adds(share)), np.asarray(link))


def _in_network(scheme: Scheme, size: float, at: Conditions) -> Stages:
    """Sums stream back while gradients go up; switches add at the rate of the links."""
    return (np.asarray(at.worker_link_s(size) + 2 * at.latency_s),)


def _libra(scheme: Scheme, size: float, at: Conditions) -> Stages:
    """Hot gradients to the switch, cold ones to the servers; then sums and values come back.

    The server adds what reaches it: cold gradients of all hosts.
    """
    mix = scheme.hot_cold
    share = size / scheme.servers
    up = np.maximum(
        at.worker_link_s(size * mix.worker_up),
        at.server_link_s(share * (mix.server_in_hot + at.hosts * mix.server_in_cold)),
    )
    down = np.maximum(
        at.worker_link_s(size * mix.worker_down),
        at.server_link_s(share * (mix.server_out_hot + at.hosts * mix.server_out_cold)),
    )
    added = (at.hosts - 1) * scheme.adds(share * mix.cold)
    # A drain is asked for and answered before values can be sent.
    return (np.asarray(up + at.latency_s + added), np.asarray(down + 3 * at.latency_s))


SCHEMES: Mapping[str, Callable[[Scheme, float, Conditions], Stages]] = {
    "ring": _ring,
    "tree": _tree,
    "halving-doubling": _halving_doubling,
    "parameter-server": _parameter_server,
    "in-network": _in_network,
    "libra": _libra,
}
