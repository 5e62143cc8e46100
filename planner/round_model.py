"""What a round of `libra run` takes on links of some rates, from its bytes and its processes.

Bytes are those that the links of a run counted (`RoundBytes`); of a process, the run measured how
long it was on a processor in a phase, and how long it was ready and waited for one. A part of a
round takes as long as its link or its process, whichever is slower. Seconds of a round under BSP:

    update + values + compute + push + overlap + drain + apply

- update: UPDATE packets, which the network copies, at least what the server does to send them, and
  what a worker does until it may go on, which is to take them;
- values: answers to the pulls of all workers, at the server's link, and what a worker does with
  its own, which comes last;
- push: what the server's link receives, requests for the next values among it, at least what a
  worker's link sends, what a worker does for it, and what the server does until it has everything;
- drain: DRAINs one way and DRAINED packets the other, at least what the server does, and what
  neither explains;
- overlap, below 0: what passes at the same time.

A link carries what it has to one after the other, and no link waits for another. So everybody has
the new values when the server's link has sent UPDATEs and values, or the slowest worker's link has
brought it its own, whichever is later; then this worker's link sends what it has to push. A worker
that has its values goes on at once, and asks for the next ones when its push is acknowledged, while
others still push: pushes and requests reach the server since a share f of the time of all values.
The later of both ends the push. If answers leave one after the other, f = 1/N; if links are shared
fairly, all end at once and f = 1. Both are given as bounds. In between, f follows from how long
the first worker of the run waited for its values, and how far apart workers got them.

Every round is predicted twice: with what processes waited for a processor in the run, and `free`,
as if each had one.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from mininet_topos.run_record import ModeRecord, RunRecord
from planner.errors import PlanError
from planner.round_bytes import RoundBytes
from planner.units import is_rate_bps

WORKER_PHASES = ("compute", "push", "commit", "update")
SERVER_PHASES = ("gather", "drain", "apply", "update")
_DEFAULT_LANES = 32
_FRAMEWORK = "numpy"


@dataclass(frozen=True)
class LinkRates:
    """The rates that count, bit/s: of the server's link, and of the slowest worker's."""

    server_bps: float
    worker_bps: float

    def __post_init__(self) -> None:
        for whose, rate_bps in (("server's", self.server_bps), ("workers'", self.worker_bps)):
            if not is_rate_bps(rate_bps):
                raise PlanError(f"rate of the {whose} links {rate_bps:g} bit/s: need 1e3 to 1e14")

    @classmethod
    def all(cls, rate_bps: float) -> LinkRates:
        """Of links that are all alike."""
        return cls(rate_bps, rate_bps)

    @classmethod
    def of(cls, record: RunRecord) -> LinkRates:
        """Those of a run. Raises `PlanError` if it does not say them."""
        setup = record.setup
        rates = {name: 1e6 * mbps for name, mbps in setup.links_mbps.items()}
        if not rates and setup.link_mbps:
            return cls.all(1e6 * setup.link_mbps)
        if "server" not in rates or len(rates) < 2:
            raise PlanError("this run does not say the rate of its links")
        return cls(rates.pop("server"), min(rates.values()))


@dataclass(frozen=True)
class Work:
    """Seconds of a process in a phase: on a processor, and ready but waiting for one."""

    busy_s: float = 0.0
    waited_s: float = 0.0

    def seconds(self, *, free: bool) -> float:
        """Both, or if processors are `free` the first alone."""
        return self.busy_s if free else self.busy_s + self.waited_s


@dataclass(frozen=True)
class RoundProfile:
    """What a round needs of links and processes.

    Attributes:
        traffic: its bytes.
        worker: what a worker does to `compute`, `push`, `commit` and `update`, its phases.
        server: what the server does to `gather`, `drain`, `apply` and `update`.
        drain_rest_s: of the server's drain, what neither its bytes nor its work explain.
        spread_s: from the first worker that has its values until the last; None if not measured.
        first_s: how long the first one waited for them, at least.
        rates: of the links on which all of this was measured.
    """

    traffic: RoundBytes
    worker: Mapping[str, Work]
    server: Mapping[str, Work]
    drain_rest_s: float
    spread_s: float | None
    rates: LinkRates
    first_s: float = 0.0

    @classmethod
    def of(cls, mode: ModeRecord, lanes: int, rates: LinkRates) -> RoundProfile:
        """The profile of a mode that ran on links of `rates`: medians of its rounds.

        Raises `PlanError` if the run lacks bytes of its links, or times of some rounds.
        """
        traffic = RoundBytes.of(mode, lanes)
        server = {
            "gather": _work(mode.server_phases_busy_s, mode.server_phases_waited_s, "gather"),
            "drain": _work(mode.server_phases_busy_s, mode.server_phases_waited_s, "drain"),
            "apply": _all_of(mode.server_phases_s, mode.server_phases_waited_s, "apply"),
            "update": _work(mode.server_phases_busy_s, mode.server_phases_waited_s, "update"),
        }
        drain_s = _median(mode.server_phases_s, "drain")
        link_s = 8 * max(traffic.drained, traffic.requests) / rates.server_bps
        least_s, most_s = (
            mode.phases_least_s.get("update", ()),
            mode.phases_most_s.get("update", ()),
        )
        if len(least_s) != len(most_s):
            raise PlanError(
                f"this run has {len(least_s)} least and {len(most_s)} longest times of updates; "
                "need one of each a round"
            )
        spreads_s = [most - least for least, most in zip(least_s, most_s, strict=True)]
        return cls(
            traffic,
            worker={
                "compute": _all_of(mode.phases_s, mode.phases_waited_s, "compute"),
                "push": _work(mode.phases_busy_s, mode.phases_waited_s, "push"),
                "commit": _work(mode.phases_busy_s, mode.phases_waited_s, "commit"),
                "update": _work(mode.phases_busy_s, mode.phases_waited_s, "update"),
            },
            server=server,
            drain_rest_s=max(drain_s - max(link_s, server["drain"].seconds(free=False)), 0.0),
            spread_s=statistics.median(spreads_s) if spreads_s else None,
            rates=rates,
            first_s=_median(mode.phases_least_s, "update"),
        )

    @property
    def first_share(self) -> float:
        """f: after which share of the time of all values the first worker has its own.

        A worker that is last for reasons of its own, or hears late that it may go on, makes one of
        two measures too small: the larger one counts. The middle of what it may be where neither
        was measured.
        """
        least = 1 / self.traffic.workers
        if self.spread_s is None:
            return (1 + least) / 2
        all_s = 8 * self.traffic.values / self.rates.server_bps
        if not all_s:
            return 1.0
        first_s = max(_values_s(self.traffic, self.rates) - self.spread_s, self.first_s)
        return min(max(first_s / all_s, least), 1.0)


@dataclass(frozen=True)
class RoundTime:
    """A predicted round.

    Attributes:
        rates: of the links.
        round_s: predicted, with what processes waited.
        free_s: predicted as if each process had a processor.
        links_s: predicted as if processes took no time at all.
        low_s, high_s: if values reach workers one after the other, or all at once.
        parts_s: what `round_s` is made of; `overlap` is what passes meanwhile.
        waits_s: by how much of each part `round_s` exceeds `free_s`.
    """

    rates: LinkRates
    round_s: float
    free_s: float
    links_s: float
    low_s: float
    high_s: float
    parts_s: Mapping[str, float]
    waits_s: Mapping[str, float]

    def as_fields(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "link_mbps": self.rates.server_bps / 1e6,
            "slowest_worker_mbps": self.rates.worker_bps / 1e6,
            "predicted_s": self.round_s,
            "predicted_free_s": self.free_s,
            "predicted_links_s": self.links_s,
            "predicted_low_s": self.low_s,
            "predicted_high_s": self.high_s,
            "parts_s": dict(self.parts_s),
            "waits_s": dict(self.waits_s),
        }


def predict(profile: RoundProfile, rates: LinkRates) -> RoundTime:
    """The time of a round on links of these rates, both ways."""
    share = profile.first_share
    parts = _parts(profile, rates, share, free=False)
    free = _parts(profile, rates, share, free=True)
    idle = replace(profile, worker={}, server={}, drain_rest_s=0.0)
    links = _parts(idle, rates, share, free=True)

    def with_share(first_share: float) -> float:
        return sum(_parts(profile, rates, first_share, free=False).values())

    return RoundTime(
        rates,
        round_s=sum(parts.values()),
        free_s=sum(free.values()),
        links_s=sum(links.values()),
        low_s=with_share(1 / profile.traffic.workers),
        high_s=with_share(1.0),
        parts_s=parts,
        waits_s={name: parts[name] - free[name] for name in parts if name != "overlap"},
    )


def _parts(
    profile: RoundProfile, rates: LinkRates, first_share: float, *, free: bool
) -> dict[str, float]:
    """Seconds of each part of a round by itself; `overlap`, below 0, is what they save together."""
    traffic = profile.traffic
    worker, server = (
        {phase: works.get(phase, Work()).seconds(free=free) for phase in phases}
        for works, phases in ((profile.worker, WORKER_PHASES), (profile.server, SERVER_PHASES))
    )

    def at_server_s(size_bytes: float) -> float:
        return 8 * size_bytes / rates.server_bps

    def at_worker_s(size_bytes: float) -> float:
        return 8 * size_bytes / rates.worker_bps

    taken_s = worker["commit"] if traffic.update else 0.0
    update_s = max(at_server_s(traffic.update), server["update"], taken_s)
    each_s = at_worker_s(traffic.update + traffic.cold_down)
    first_s = update_s + first_share * at_server_s(traffic.values)
    last_s = max(update_s + at_server_s(traffic.values), each_s)
    shared_s = max(at_server_s(traffic.push), server["gather"])
    own_s = max(at_worker_s(traffic.own), worker["push"])
    pushed_s = max(first_s + shared_s, last_s + own_s)
    alone_s = {
        "update": max(update_s, at_worker_s(traffic.update)),
        "values": _values_s(traffic, rates),
        "push": max(shared_s, own_s),
    }
    drained_s = at_server_s(max(traffic.drained, traffic.requests))
    return {
        **alone_s,
        "compute": worker["compute"],
        "values": alone_s["values"] + worker["update"],
        "overlap": pushed_s - sum(alone_s.values()),
        "drain": max(drained_s, server["drain"]) + profile.drain_rest_s,
        "apply": server["apply"],
    }


def _values_s(traffic: RoundBytes, rates: LinkRates) -> float:
    """Seconds in which the values of all workers pass."""
    return 8 * max(traffic.values / rates.server_bps, traffic.cold_down / rates.worker_bps)


def unpredictable(record: RunRecord) -> str | None:
    """Why the rounds of a run are none of those that are modelled; None if they are."""
    setup = record.setup
    if setup.consistency != "bsp":
        return (
            f"workers of this run were kept in step by {setup.consistency}: only rounds that end "
            "with a barrier (bsp) can be predicted"
        )
    if setup.servers > 1:
        return (
            f"the keys of this run were sharded over {setup.servers} servers: only rounds with one "
            "can be predicted"
        )
    if setup.framework != _FRAMEWORK:
        return (
            f"workers of this run computed with {setup.framework}: what they reduce among "
            f"themselves is not modelled; runs with {_FRAMEWORK} can be predicted"
        )
    return None


def predict_mode(record: RunRecord, mode: ModeRecord) -> tuple[RoundProfile, RoundTime]:
    """The profile of a mode, and the prediction for the links that its run had.

    Raises `PlanError` if the run lacks the rates or the bytes of its links.
    """
    rates = LinkRates.of(record)
    profile = RoundProfile.of(mode, record.setup.lanes or _DEFAULT_LANES, rates)
    return profile, predict(profile, rates)


def measured_s(mode: ModeRecord) -> float:
    """Median seconds from one commit to the next, or of rounds where commits were not timed.

    A round is timed at the worker for which it took longest; as different workers are last in
    different rounds, these times add up to more than the training took.
    """
    times = mode.timeline.at_s if mode.timeline else []
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return statistics.median(gaps) if gaps else mode.round_s_median


Rounds = Mapping[str, Sequence[float]]


def _work(busy_s: Rounds, waited_s: Rounds, phase: str) -> Work:
    return Work(_median(busy_s, phase), _median(waited_s, phase))


def _all_of(elapsed_s: Rounds, waited_s: Rounds, phase: str) -> Work:
    """A phase without a network: what is not waiting is work."""
    waits_s = _median(waited_s, phase)
    return Work(max(_median(elapsed_s, phase) - waits_s, 0.0), waits_s)


def _median(phases: Rounds, name: str) -> float:
    return statistics.median(phases[name]) if phases.get(name) else 0.0
