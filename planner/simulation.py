"""The what-if analysis: a backward pass, its messages, and queues that they pass in order.

Each stage of a scheme serves one message at a time, first come first served. A message enters the
first stage when it is ready and the next one when it leaves the stage before:

    leave[m, s] = max(leave[m − 1, s], leave[m, s − 1]) + cost[m, s]

What is left when the backward pass has ended is overhead. Messages are looped over, points are
arrays: a sweep costs little more than one point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.collectives import Conditions, Scheme
from planner.fusion import Fusion, Messages
from planner.profile import Profile
from planner.transport import Transport

FULL = Transport.constant(1.0)


@dataclass(frozen=True)
class Job:
    """What is asked about: everything but the points of a sweep.

    Attributes:
        profile: gradient-ready events and the time of an iteration.
        fusion: how gradients become messages.
        scheme: how they are summed.
        transport: what it reaches of a link's rate.
        overlap: whether messages leave during the backward pass, or all at its end.
        latency_s: from one host to another.
        per_host: workers on one host.
        slowest_bps: the rate of the slowest worker's link where that is not the common one.
    """

    profile: Profile
    fusion: Fusion = field(default_factory=Fusion)
    scheme: Scheme = field(default_factory=Scheme)
    transport: Transport = FULL
    overlap: bool = True
    latency_s: float = 0.0
    per_host: int = 1
    slowest_bps: float = np.inf

    def messages(self) -> Messages:
        """The messages of an iteration."""
        messages = self.fusion.messages(self.profile)
        if self.overlap:
            return messages
        at_end = np.full(len(messages), self.profile.backward_s)
        return Messages(at_end, messages.size_bytes)

    def conditions(self, rate_bps: Any, workers: Any, ratio: Any = 1.0) -> Conditions:
        """The conditions of points: link rates, numbers of workers, compression ratios."""
        rate = np.asarray(rate_bps, np.float64)
        return Conditions(
            workers=workers,
            goodput_bps=self.transport.goodput(np.minimum(rate, self.slowest_bps)),
            ratio=ratio,
            server_goodput_bps=self.transport.goodput(rate),
            latency_s=self.latency_s,
            per_host=self.per_host,
        )


@dataclass(frozen=True, eq=False)
class Passage:
    """How the messages of an iteration passed at one point.

    Attributes:
        messages: when they were ready, and their sizes.
        begin_s: when each was taken on, float64[m].
        end_s: when its sum was back, float64[m]; both from the begin of the backward pass.
        overhead_s: what the iteration takes longer than on one device.
        scaling_factor: T1 ÷ (T1 + overhead).
    """

    messages: Messages
    begin_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    overhead_s: float
    scaling_factor: float


def overhead_s(job: Job, at: Conditions, scheme: Scheme | None = None) -> NDArray[np.float64]:
    """Seconds that communication adds to an iteration, at every point of the conditions.

    `scheme` stands in for that of the job.
    """
    messages, scheme = job.messages(), scheme or job.scheme
    left: list[NDArray[np.float64]] = []
    for ready_s, size in zip(messages.ready_s, messages.size_bytes, strict=True):
        _, left = _pass(left, ready_s, scheme, float(size), at)
    return np.maximum(left[-1] - job.profile.backward_s, 0.0)


def scaling_factor(job: Job, at: Conditions, scheme: Scheme | None = None) -> NDArray[np.float64]:
    """T1 ÷ (T1 + overhead) at every point of the conditions."""
    alone_s = job.profile.iteration.seconds
    return np.asarray(alone_s / (alone_s + overhead_s(job, at, scheme)))


def passage(job: Job, at: Conditions) -> Passage:
    """What happens at one point, message by message."""
    messages = job.messages()
    left: list[NDArray[np.float64]] = []
    begins, ends = [], []
    for ready_s, size in zip(messages.ready_s, messages.size_bytes, strict=True):
        begin, left = _pass(left, ready_s, job.scheme, float(size), at)
        begins.append(float(begin))
        ends.append(float(left[-1]))
    late_s = max(ends[-1] - job.profile.backward_s, 0.0)
    alone_s = job.profile.iteration.seconds
    return Passage(messages, np.array(begins), np.array(ends), late_s, alone_s / (alone_s + late_s))


def _pass(
    left: list[NDArray[np.float64]], ready_s: float, scheme: Scheme, size: float, at: Conditions
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Let a message pass all stages: when the first takes it on, and when it leaves each."""
    costs = scheme.stages(size, at)
    before = left or [np.asarray(0.0)] * len(costs)
    begin = np.maximum(before[0], ready_s)
    arrived, now = begin, []
    for free_s, cost_s in zip(before, costs, strict=True):
        arrived = np.maximum(free_s, arrived) + cost_s
        now.append(arrived)
    return begin, now
