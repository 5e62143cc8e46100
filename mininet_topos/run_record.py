"""The record of a run (`run.json`, schema 1), checked field by field before anything is drawn."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from host_stack.fixedpoint import MIN_FRACTION_BITS
from mininet_topos.job_processes import is_server
from mininet_topos.json_node import JsonNode, ReportError

SCHEMA = 1
DIRECTIONS = ("to_switch", "from_switch")

Traffic = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Quality:
    """Metrics on the test part: after `rounds[i]` rounds, `elapsed_s[i]` seconds into training."""

    rounds: list[float]
    elapsed_s: list[float]
    metrics: dict[str, list[float]]


@dataclass(frozen=True)
class PacketsPerPush:
    """Packets that a worker's hot gradients take in a round; `ratio` is to the least possible."""

    mean: float
    ratio: float


@dataclass(frozen=True)
class Timeline:
    """At `at_s[i]` seconds of training `committed[i]` rounds were committed.

    They grow, but where a server goes back to its checkpoint.
    """

    at_s: list[float]
    committed: list[float]


@dataclass(frozen=True)
class Processors:
    """What the processors did while a mode trained; None where the kernel did not count it.

    Attributes:
        count: of processors.
        watched_s: seconds that are counted.
        busy_s: of all processors together, whoever used them.
        some_s: during which some task waited for a processor.
        used_s: process → seconds on a processor, and ready but waiting for one.
    """

    count: int
    watched_s: float
    busy_s: float | None
    some_s: float | None
    used_s: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class FaultRecord:
    """Something that was killed or cut; `recovery_s` None where the training ended before."""

    action: str
    target: str
    round: int
    phase: str | None
    at_s: float
    recovery_s: float | None


@dataclass(frozen=True)
class ModeRecord:
    """One training run in one mode; absent fields are None or empty.

    `traffic_bytes` and `traffic_packets` map a link (`server`, `worker1`, …) to its total over the
    run in each of `DIRECTIONS`; `phases_s` maps a phase to its seconds in each round,
    `server_phases_s` in each commit at the server; `…busy_s` and `…waited_s` are those of them on
    a processor, and ready but waiting for one; `phases_least_s` and `phases_most_s` are those of
    the workers for which the phase took least and most.
    """

    model_sha256: str
    round_s: list[float]
    round_s_median: float
    phases_s: dict[str, list[float]]
    phases_busy_s: dict[str, list[float]]
    phases_waited_s: dict[str, list[float]]
    phases_least_s: dict[str, list[float]]
    phases_most_s: dict[str, list[float]]
    server_phases_s: dict[str, list[float]]
    server_phases_busy_s: dict[str, list[float]]
    server_phases_waited_s: dict[str, list[float]]
    processors: Processors | None
    traffic_bytes: Traffic
    traffic_packets: Traffic
    quality: Quality | None
    counters: dict[str, int]
    server_counters: dict[str, int]
    retransmissions: int | None
    packets_per_push: PacketsPerPush | None
    timeline: Timeline | None
    faults: list[FaultRecord]
    missed_faults: int
    conserved: bool | None

    @property
    def server_link(self) -> str | None:
        """The busiest link of a server; None where links were not counted."""
        servers = [name for name in self.traffic_bytes if is_server(name)]
        return max(servers, key=lambda name: sum(self.traffic_bytes[name].values()), default=None)


@dataclass(frozen=True)
class Setup:
    """What all modes of an experiment have in common; absent fields are None."""

    dataset: str
    model: str
    workers: int
    servers: int
    rounds: int
    consistency: str
    framework: str
    libra_version: str | None
    started: str | None
    target: str | None
    optimizer: str | None
    batch: int | None
    seed: int | None
    lanes: int | None
    rows: int | None
    hot_keys: int | None
    num_keys: int | None
    fraction_bits: int | None
    link_mbps: float | None
    links_mbps: dict[str, float]


@dataclass(frozen=True)
class RunRecord:
    """An experiment: its setup, its modes by name, and what was measured across them.

    `hot_coverage` is the share of pushed gradients that were hot, `speedup` that of Libra over
    server-only, `bound` its predicted upper bound from link bytes; `update_shares` holds
    (rank, cumulative share of updates) of the keys from the most to the least updated.
    """

    setup: Setup
    modes: dict[str, ModeRecord]
    hot_coverage: float | None
    speedup: float | None
    bound: float | None
    update_shares: list[tuple[int, float]]
    versions: dict[str, str]


def parse_run(run: Mapping[str, Any]) -> RunRecord:
    """Check a decoded `run.json` and give its fields names.

    Required are the schema, dataset, model, workers, rounds, and at least one mode with its model
    hash and round times. Fields that are not known are ignored. Raises `ReportError`, which names
    the field as a path, what was found there and what is needed.
    """
    root = JsonNode("run", run)
    schema = root.get("schema").integer()
    if schema != SCHEMA:
        raise ReportError(f"run.schema is {schema}; this version reads schema {SCHEMA}")
    modes = {name: _mode(node) for name, node in root.get("modes").fields().items()}
    if not modes:
        raise ReportError("run.modes is empty; need at least one mode")
    shares = root.optional("update_shares")
    versions = root.optional("versions")
    return RunRecord(
        setup=_setup(root),
        modes=modes,
        hot_coverage=_number(root, "hot_coverage", 1.0),
        speedup=_number(root, "speedup"),
        bound=_number(root, "bound"),
        update_shares=[
            (node.get("rank").integer(1), node.get("share").number(1.0))
            for node in (shares.elements() if shares else [])
        ],
        versions={name: node.text() for name, node in versions.fields().items()}
        if versions
        else {},
    )


def _setup(root: JsonNode) -> Setup:
    return Setup(
        dataset=root.get("dataset").text(),
        model=root.get("model").text(),
        workers=root.get("workers").integer(1),
        servers=_integer(root, "servers") or 1,
        rounds=root.get("rounds").integer(1),
        consistency=_text(root, "consistency") or "bsp",
        framework=_text(root, "framework") or "numpy",
        libra_version=_text(root, "libra_version"),
        started=_text(root, "started"),
        target=_text(root, "target"),
        optimizer=_text(root, "optimizer"),
        batch=_integer(root, "batch"),
        seed=_integer(root, "seed"),
        lanes=_integer(root, "lanes"),
        rows=_integer(root, "rows"),
        hot_keys=_integer(root, "hot_keys"),
        num_keys=_integer(root, "num_keys"),
        fraction_bits=_integer(root, "fraction_bits", MIN_FRACTION_BITS),
        link_mbps=_number(root, "link_mbps"),
        links_mbps={name: rate.number() for name, rate in _fields(root, "links_mbps").items()},
    )


def _mode(node: JsonNode) -> ModeRecord:
    round_s = node.get("round_s").numbers()
    if not round_s:
        raise node.get("round_s").mismatch("the seconds of each round")
    median_s = _number(node, "round_s_median")
    quality = node.optional("quality")
    pushes = node.optional("packets_per_push")
    faults, audit = node.optional("faults"), node.optional("audit")
    missed = node.optional("faults_missed")
    return ModeRecord(
        model_sha256=node.get("model_sha256").sha256(),
        round_s=round_s,
        round_s_median=statistics.median(round_s) if median_s is None else median_s,
        phases_s=_phases(node, "phases_s"),
        phases_busy_s=_phases(node, "phases_busy_s"),
        phases_waited_s=_phases(node, "phases_waited_s"),
        phases_least_s=_phases(node, "phases_least_s"),
        phases_most_s=_phases(node, "phases_most_s"),
        server_phases_s=_phases(node, "server_phases_s"),
        server_phases_busy_s=_phases(node, "server_phases_busy_s"),
        server_phases_waited_s=_phases(node, "server_phases_waited_s"),
        processors=_processors(node.optional("processors")),
        traffic_bytes=_traffic(node, "bytes"),
        traffic_packets=_traffic(node, "packets"),
        quality=_quality(quality) if quality else None,
        counters=_counts(node, "counters"),
        server_counters=_counts(node, "server_counters"),
        retransmissions=_integer(node, "retransmissions"),
        packets_per_push=(
            PacketsPerPush(pushes.get("mean").number(), pushes.get("ratio").number())
            if pushes
            else None
        ),
        timeline=_timeline(node.optional("timeline")),
        faults=[_fault(each) for each in faults.elements()] if faults else [],
        missed_faults=len(list(missed.elements())) if missed else 0,
        conserved=audit.get("conserved").boolean() if audit else None,
    )


def _phases(node: JsonNode, name: str) -> dict[str, list[float]]:
    return {phase: times.numbers() for phase, times in _fields(node, name).items()}


def _processors(node: JsonNode | None) -> Processors | None:
    if node is None:
        return None
    pressure = node.optional("pressure")
    return Processors(
        count=node.get("count").integer(1),
        watched_s=node.get("watched_s").number(),
        busy_s=_number(node, "busy_s"),
        some_s=_number(pressure, "some_s") if pressure else None,
        used_s={
            name: (each.get("busy_s").number(), each.get("waited_s").number())
            for name, each in _fields(node, "processes").items()
        },
    )


def _timeline(node: JsonNode | None) -> Timeline | None:
    if node is None:
        return None
    timeline = Timeline(node.get("at_s").numbers(), node.get("committed").numbers())
    if len(timeline.at_s) != len(timeline.committed):
        raise ReportError(
            f"{node.path} has {len(timeline.at_s)} times and {len(timeline.committed)} numbers of "
            "rounds; need one of each per commit"
        )
    return timeline


def _fault(node: JsonNode) -> FaultRecord:
    return FaultRecord(
        action=node.get("action").text(),
        target=node.get("target").text(),
        round=node.get("round").integer(),
        phase=_text(node, "phase"),
        at_s=node.get("at_s").number(),
        recovery_s=_number(node, "recovery_s"),
    )


def _counts(node: JsonNode, name: str) -> dict[str, int]:
    return {each: count.integer() for each, count in _fields(node, name).items()}


def _traffic(node: JsonNode, name: str) -> Traffic:
    return {
        link: {direction: counts.get(direction).integer() for direction in DIRECTIONS}
        for link, counts in _fields(node, name).items()
    }


def _quality(node: JsonNode) -> Quality:
    quality = Quality(
        rounds=node.get("round").numbers(),
        elapsed_s=node.get("elapsed_s").numbers(),
        metrics={name: m.numbers() for name, m in node.get("metrics").fields().items()},
    )
    lengths = [len(quality.rounds), len(quality.elapsed_s), *map(len, quality.metrics.values())]
    if len(set(lengths)) > 1:
        raise ReportError(
            f"{node.path} has {lengths[0]} rounds, {lengths[1]} times and metrics of lengths "
            f"{lengths[2:]}; need one of each per evaluation"
        )
    return quality


def _fields(node: JsonNode, name: str) -> dict[str, JsonNode]:
    child = node.optional(name)
    return child.fields() if child else {}


def _text(node: JsonNode, name: str) -> str | None:
    child = node.optional(name)
    return child.text() if child else None


def _integer(node: JsonNode, name: str, low: int = 0) -> int | None:
    child = node.optional(name)
    return child.integer(low) if child else None


def _number(node: JsonNode, name: str, high: float = float("inf")) -> float | None:
    child = node.optional(name)
    return child.number(high) if child else None
