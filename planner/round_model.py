"""What a round of `libra run` takes on links of a rate, from its bytes and its processor time.

Bytes are those that the links of a run counted. Seconds of a round under BSP, N workers:

    compute + max(f·values + push, values + own) + drain + apply + update

- push: what the server's link receives while gradients are pushed; own: what a worker's link sends;
- drain: DRAINED packets, and what the server's drain took beyond its bytes;
- update: UPDATE packets, which the network copies;
- values: answers to the pulls of all workers, at the server's link. A worker that has its own goes
  on at once. If answers leave one after the other, the first one has them after a share f = 1/N of
  the time; if links are shared fairly, all have them at its end, f = 1. Both are given as bounds.
  Answers alone come in between, and the middle is taken. UPDATEs, which the server paces, hold all
  answers up alike: as far as they last as long as an answer, f = 1.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from controller.byte_model import UDP_FRAME_BYTES
from host_stack.codec import HEADER, Codec
from host_stack.layout import BITMAP_LANES, Layout
from mininet_topos.run_record import ModeRecord, RunRecord
from planner.errors import PlanError
from planner.units import above_0

_DEFAULT_LANES = 32


@dataclass(frozen=True)
class RoundBytes:
    """Bytes of a round, headers included, and who sends them.

    Attributes:
        workers: N.
        own: what a worker's link sends while gradients are pushed: GRADs, pushes, pull requests.
        push: what of it the server's link receives, of all workers.
        drained: sums that the switch gives the server.
        update: new values of hot keys, sent once.
        cold_down: new values of cold keys, to one worker.
    """

    workers: int
    own: float
    push: float
    drained: float
    update: float
    cold_down: float

    @property
    def values(self) -> float:
        """Answers to the pulls of all workers."""
        return self.workers * self.cold_down

    @classmethod
    def of(cls, mode: ModeRecord, lanes: int) -> RoundBytes:
        """The bytes of a mode of a run, as its links counted them.

        GRADs, which a switch that knows the job keeps, are told from cold pushes by their number,
        values from UPDATEs by the difference between the server's link and a worker's. Nobody
        asks for values after the last round, which the mean of the others makes good.

        Raises:
            PlanError: the run has not counted the bytes of its links.
        """
        rounds = len(mode.round_s)
        links = dict(mode.traffic_bytes)
        if "server2" in links:
            raise PlanError("this run has several servers: the model of a round knows one")
        server = links.pop("server", None)
        if server is None or not links:
            raise PlanError("this run has no bytes of the links of server and workers")
        workers = len(links)
        up, down = (
            statistics.fmean(link[way] for link in links.values()) / rounds
            for way in ("to_switch", "from_switch")
        )
        received, sent = server["from_switch"] / rounds, server["to_switch"] / rounds
        packets = mode.packets_per_push.mean if mode.packets_per_push else 0.0
        resent = (mode.retransmissions or 0) / (workers * rounds)
        grads = (packets + resent) * _grad_bytes(lanes)
        acks = packets * (UDP_FRAME_BYTES + HEADER.itemsize)
        at_server = packets > 0 and not mode.counters.get("aggregated", 0)
        if at_server:
            sent -= workers * acks
        pushed = workers * (up if at_server else max(up - grads, 0.0))
        keeps = packets > 0 and not at_server
        values = max(sent - (down - acks), 0.0) / (workers - 1) if workers > 1 else 0.0
        return cls(
            workers=workers,
            own=up,
            # What a full queue dropped has left a worker, and was never received.
            push=min(pushed, received),
            drained=max(received - pushed, 0.0) if keeps else 0.0,
            update=max(sent - workers * values, 0.0),
            cold_down=values * rounds / max(rounds - 1, 1),
        )


@dataclass(frozen=True)
class RoundProfile:
    """What a round needs of links and processors.

    Attributes:
        traffic: its bytes.
        compute_s: of a worker, the gradient.
        apply_s: of the server, the optimiser.
        drain_s: of the server's drain beyond what its bytes take.
    """

    traffic: RoundBytes
    compute_s: float
    apply_s: float
    drain_s: float

    @classmethod
    def of(cls, mode: ModeRecord, lanes: int, rate_bps: float) -> RoundProfile:
        """The profile of a mode that ran on links of `rate_bps`: medians of its rounds."""
        traffic = RoundBytes.of(mode, lanes)
        link_s = 8 * traffic.drained / rate_bps
        return cls(
            traffic,
            compute_s=_median(mode.phases_s, "compute"),
            apply_s=_median(mode.server_phases_s, "apply"),
            drain_s=max(_median(mode.server_phases_s, "drain") - link_s, 0.0),
        )


@dataclass(frozen=True)
class RoundTime:
    """A predicted round.

    Attributes:
        rate_bps: of the links.
        round_s: predicted.
        low_s, high_s: if values reach workers one after the other, or all at once.
        parts_s: what it is made of; `overlap` is what the workers that go on early save.
    """

    rate_bps: float
    round_s: float
    low_s: float
    high_s: float
    parts_s: Mapping[str, float]

    def as_fields(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "link_mbps": self.rate_bps / 1e6,
            "predicted_s": self.round_s,
            "predicted_low_s": self.low_s,
            "predicted_high_s": self.high_s,
            "parts_s": dict(self.parts_s),
        }


def predict(profile: RoundProfile, rate_bps: float) -> RoundTime:
    """The time of a round on links of a rate, all the same, both ways."""
    above_0("link rate", rate_bps)
    traffic = profile.traffic

    def seconds(size_bytes: float) -> float:
        return 8 * size_bytes / rate_bps

    values_s, push_s, own_s = (
        seconds(each) for each in (traffic.values, traffic.push, traffic.own)
    )
    parts = {
        "compute": profile.compute_s,
        "values": values_s,
        "push": max(push_s, own_s),
        "drain": seconds(traffic.drained) + profile.drain_s,
        "apply": profile.apply_s,
        "update": seconds(traffic.update),
    }
    barrier_s = sum(parts.values())

    def round_s(first_share: float) -> float:
        pushed_s = max(first_share * values_s + parts["push"], values_s + own_s)
        return barrier_s - (values_s + parts["push"]) + pushed_s

    first = 1 / traffic.workers
    expected_s = round_s(_first_share(traffic))
    return RoundTime(
        rate_bps,
        expected_s,
        low_s=round_s(first),
        high_s=barrier_s,
        parts_s={**parts, "overlap": expected_s - barrier_s},
    )


def _first_share(traffic: RoundBytes) -> float:
    """f: after which share of the time of all values the first worker goes on."""
    alone = (1 + 1 / traffic.workers) / 2
    if traffic.update >= traffic.cold_down:
        return 1.0
    return alone + (1 - alone) * traffic.update / traffic.cold_down


def predict_mode(record: RunRecord, mode: ModeRecord) -> tuple[RoundProfile, RoundTime]:
    """The profile of a mode, and the prediction for the links that its run had.

    Raises `PlanError` if the run lacks the rate or the bytes of its links.
    """
    rate_bps = 1e6 * above_0("rate of the run's links", record.setup.link_mbps or 0.0)
    profile = RoundProfile.of(mode, record.setup.lanes or _DEFAULT_LANES, rate_bps)
    return profile, predict(profile, rate_bps)


def measured_s(mode: ModeRecord) -> float:
    """Median seconds from one commit to the next, or of rounds where commits were not timed.

    A round is timed at the worker for which it took longest; as different workers are last in
    different rounds, these times add up to more than the training took.
    """
    times = mode.timeline.at_s if mode.timeline else []
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return statistics.median(gaps) if gaps else mode.round_s_median


def _median(phases: Mapping[str, list[float]], name: str) -> float:
    return statistics.median(phases[name]) if phases.get(name) else 0.0


def _grad_bytes(lanes: int) -> int:
    if lanes not in BITMAP_LANES:
        raise PlanError(f"{lanes} lanes: allowed are {', '.join(map(str, BITMAP_LANES))}")
    return UDP_FRAME_BYTES + Codec(Layout(lanes, 1, 1, 0)).grad.itemsize
