"""A what-if question at one point, and its answer in figures and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.collectives import SCHEMES
from planner.reach import smallest_coverage, smallest_rate_bps, smallest_ratio
from planner.simulation import Job, Passage, passage, scaling_factor
from planner.units import at_least, milliseconds, rate_text

TARGET = 0.95
"""A scaling factor below which the network is called the bottleneck."""
_ENDLESS_BPS = 1e18


@dataclass(frozen=True)
class Question:
    """A job on some links.

    Attributes:
        job: its profile and how it communicates.
        rate_bps: of the links.
        workers: N.
        ratio: of compression.
        target: the scaling factor that would do.
    """

    job: Job
    rate_bps: float
    workers: int
    ratio: float = 1.0
    target: float = TARGET


@dataclass(frozen=True, eq=False)
class Answer:
    """What was found.

    Attributes:
        question: that was asked.
        passage: how the messages of an iteration pass.
        utilization: what the transport reaches of the rate.
        without_network: scaling factor if links took no time: what additions alone cost.
        schemes: scaling factor with each scheme, everything else being the same.
        ratio: the least compression ratio that reaches the target, None if none does.
        rate_bps: the least link rate that does.
        coverage: the least share of hot gradients with which Libra does.
        libra_best: scaling factor of Libra if all gradients are hot.
    """

    question: Question
    passage: Passage
    utilization: float
    without_network: float
    schemes: Mapping[str, float]
    ratio: float | None
    rate_bps: float | None
    coverage: float | None
    libra_best: float

    @property
    def is_bottleneck(self) -> bool:
        """Whether the job misses the target."""
        return self.passage.scaling_factor < self.question.target


def ask(question: Question) -> Answer:
    """Answer a question.

    Raises `PlanError` for workers, ratios and targets outside of what is allowed.
    """
    job, rate, workers = question.job, question.rate_bps, question.workers
    at = job.conditions(rate, workers, question.ratio)
    endless = replace(at, goodput_bps=_ENDLESS_BPS, server_goodput_bps=_ENDLESS_BPS)
    all_hot = replace(job.scheme, name="libra", hot_cold=job.scheme.hot_cold.covering(1.0))
    uncompressed = job.conditions(rate, workers)
    return Answer(
        question=question,
        passage=passage(job, at),
        utilization=float(job.transport.utilization(rate)),
        without_network=float(scaling_factor(job, endless)),
        schemes={
            name: float(scaling_factor(job, at, replace(job.scheme, name=name))) for name in SCHEMES
        },
        ratio=smallest_ratio(job, rate, workers, question.target),
        rate_bps=smallest_rate_bps(job, workers, question.ratio, question.target),
        coverage=smallest_coverage(job, job.scheme, rate, workers, question.target),
        libra_best=float(scaling_factor(job, uncompressed, all_hot)),
    )


def as_fields(answer: Answer) -> dict[str, Any]:
    """The answer for JSON; fields are documented in docs/plan.md."""
    question, passed = answer.question, answer.passage
    job, messages = question.job, passed.messages
    return {
        **job_fields(job),
        "bandwidth_bps": question.rate_bps,
        "workers": question.workers,
        "compression": question.ratio,
        "utilization": answer.utilization,
        "utilization_source": job.transport.source,
        "scaling_factor": passed.scaling_factor,
        "overhead_s": passed.overhead_s,
        "first_flush_bytes": int(messages.size_bytes[0]),
        "first_flush_s": float(messages.ready_s[0]),
        "passage": {
            "size_bytes": messages.size_bytes.astype(int).tolist(),
            "ready_s": messages.ready_s.tolist(),
            "begin_s": passed.begin_s.tolist(),
            "end_s": passed.end_s.tolist(),
        },
        "scaling_factor_without_network": answer.without_network,
        "schemes": dict(answer.schemes),
        "target": question.target,
        "bottleneck": answer.is_bottleneck,
        "needed": {
            "compression": answer.ratio,
            "bandwidth_bps": answer.rate_bps,
            "hot_coverage": answer.coverage,
        },
        "libra_all_hot": answer.libra_best,
        "answer": in_words(answer),
    }


def job_fields(job: Job) -> dict[str, Any]:
    """What is the same at all points of a job, for JSON."""
    return {
        "profile": job.profile.name,
        "scheme": job.scheme.name,
        "iteration_s": job.profile.iteration.seconds,
        "iteration_source": job.profile.iteration.source,
        "additions_source": job.scheme.adds.source,
        "backward_s": job.profile.backward_s,
        "gradient_bytes": job.profile.total_bytes,
        "messages": len(job.messages()),
    }


def in_words(answer: Answer) -> list[str]:
    """The answer in sentences."""
    question, passed = answer.question, answer.passage
    alone_s = question.job.profile.iteration.seconds
    how = question.job.scheme.name
    if question.ratio > 1:
        how += f", gradients compressed {question.ratio:g}×"
    if question.job.slowest_bps < question.rate_bps:
        how += f", the slowest worker at {rate_text(question.job.slowest_bps)}"
    lines = [
        f"At {rate_text(question.rate_bps)} with {_count(question.workers, 'worker')} "
        f"({how}) the scaling factor is "
        f"{passed.scaling_factor:.4f}: an iteration of {milliseconds(alone_s)} takes "
        f"{milliseconds(passed.overhead_s)} more.",
        _verdict(answer),
    ]
    if answer.is_bottleneck:
        lines += [_remedies(answer), _libra(answer)]
    return lines


def _verdict(answer: Answer) -> str:
    target = answer.question.target
    if not answer.is_bottleneck:
        return f"The network is no bottleneck: {target:g} is reached."
    if answer.without_network < target:
        return (
            f"The network is not all: with endless links it would be {answer.without_network:.4f}, "
            f"below {target:g}, because {_beside_links(answer.question)} take their time too."
        )
    full = ""
    if answer.utilization < 0.99:
        full = f", of which the transport fills {100 * answer.utilization:.2g}%,"
    return f"The links{full} are the bottleneck: {target:g} is missed."


def _beside_links(question: Question) -> str:
    """What takes time however fast links are."""
    also = ""
    if question.job.latency_s > 0:
        also += " and latency"
    if question.ratio > 1 and question.job.scheme.compression_s_per_byte > 0:
        also += " and compression"
    return "sums" + also


def _remedies(answer: Answer) -> str:
    """Rounded up: what is said does reach the target."""
    ways = []
    if answer.ratio is not None:
        ways.append(f"{at_least(answer.ratio, 3):,.6g}× compression")
    if answer.rate_bps is not None:
        ways.append(f"links of {rate_text(at_least(answer.rate_bps, 4))}")
    known = ("libra", answer.question.job.scheme.name)
    others = [
        name
        for name, factor in answer.schemes.items()
        if factor >= answer.question.target and name not in known
    ]
    if others:
        ways.append(f"the scheme{'s' * (len(others) > 1)} {', '.join(others)}")
    if not ways:
        return "Neither compression, faster links nor another scheme reaches it."
    return f"{answer.question.target:g} is reached by {', or '.join(ways)}."


def _libra(answer: Answer) -> str:
    scheme = answer.question.job.scheme
    servers = _count(scheme.servers, "server")
    if answer.coverage is None:
        return (
            f"Libra with {servers} does not reach it: {answer.libra_best:.4f} if all gradients "
            "are hot."
        )
    tenths = math.ceil(1000 * answer.coverage)
    return f"Libra with {servers} reaches it with {tenths / 10:g}% of the gradients hot, or more."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("s" if number != 1 else "")
