"""`libra bench switch`: the embedded switch against bmv2 and a bare reflector, and its costs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.conditions import conditions
from bench.contenders import bmv2_is_installed
from bench.job import BenchJob
from bench.loading import load_times
from bench.lookups import table_costs
from bench.processing import Grads, aggregation_cost, forwarding_cost, switch_in_memory
from bench.throughput import Turns, measure, ratio
from controller.artifacts import PROGRAMS, Artifact
from softswitch.dataplane import DataPlane

Say = Callable[[str], None]
SCHEMA = 1


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    turns: Turns
    runs: int
    lanes: tuple[int, ...]
    ports: tuple[int, ...]
    sizes: tuple[int, ...]
    tables: dict[str, list[int]]


FULL = Extent(
    turns=Turns(repetitions=9, seconds=1.0, window=128),
    runs=200,
    lanes=(8, 16, 32, 64),
    ports=(1, 4, 16, 64),
    sizes=(64, 128, 256, 512, 1024, 1500, 9000),
    tables={
        "exact": [1_000, 100_000, 1_000_000],
        "lpm": [1_000, 10_000, 100_000],
        "ternary, 16 masks": [100, 1_000, 10_000],
        "ternary, 400 masks": [1_000, 10_000],
        "ternary, 400 scattered masks": [1_000, 10_000],
    },
)
QUICK = Extent(
    turns=Turns(repetitions=3, seconds=0.3, window=128),
    runs=20,
    lanes=(8, 32),
    ports=(1, 4),
    sizes=(64, 1500),
    tables={"exact": [1_000, 10_000], "lpm": [1_000], "ternary, 16 masks": [1_000]},
)


def artifacts() -> list[Artifact]:
    """The compiled programs, by their lanes."""
    return [Artifact.load(name) for name in PROGRAMS]


def run(name: str, extent: Extent, logs: Path, say: Say) -> dict[str, Any]:
    """Measure everything with the program `name`; must be called inside an emulation.

    Returns a record for JSON (docs/speed.md has its fields).
    """
    artifact = Artifact.load(name)
    job = BenchJob(artifact)
    DataPlane.load(artifact.device_config).close()  # so that no contender waits for the compiler
    names = ["soft", "reflector", *(["bmv2"] if bmv2_is_installed() else [])]
    if "bmv2" not in names:
        say("simple_switch_grpc is not on PATH: no ratio against bmv2")
    rates = measure(names, job, extent.turns, logs, say)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "ratio_vs_bmv2": ratio(rates["soft"], rates.get("bmv2")),
        "ratio_vs_reflector": ratio(rates["soft"], rates["reflector"]),
        "packets_per_s": rates["soft"].median,
        "contenders": {each: rates[each].record() for each in names},
        "conditions": {
            **conditions(),
            "program": artifact.name,
            "lanes": artifact.layout.lanes,
            "p4_compiler": artifact.compiler,
            "packet_bytes": int(job.frames(0, 1).shape[1]),
            "rows": job.rows,
            "window": extent.turns.window,
            "seconds": extent.turns.seconds,
            "repetitions": extent.turns.repetitions,
        },
    }
    record["by_ports"] = _by_ports(artifact, extent, logs, say)
    record |= _in_memory(artifact, extent, say)
    return record


def _by_ports(artifact: Artifact, extent: Extent, logs: Path, say: Say) -> list[dict[str, Any]]:
    """Packets per second through several ports at once."""
    found = []
    turns = Turns(max(extent.turns.repetitions // 3, 1), extent.turns.seconds, 0)
    for ports in extent.ports:
        # The same number of packets in flight, whatever the ports.
        each = Turns(turns.repetitions, turns.seconds, max(extent.turns.window // ports, 1))
        with tempfile.TemporaryDirectory(dir=logs) as folder:
            job = BenchJob(artifact, workers=ports)
            rates = measure(["soft"], job, each, Path(folder), lambda _: None)["soft"]
        say(f"{ports} ports: {rates.median:,.0f} packets/s")
        found.append({"ports": ports, **rates.record()})
    return found


def _in_memory(artifact: Artifact, extent: Extent, say: Say) -> dict[str, Any]:
    """Costs without interfaces: aggregation, lanes, packet sizes, tables, load times."""
    job = BenchJob(artifact)
    with switch_in_memory(job) as dataplane:
        grads = Grads(job)
        cost = aggregation_cost(dataplane, grads, extent.runs)
        say(f"processing: {cost.median_ns:.0f} ns a packet of {artifact.layout.lanes} lanes")
        by_size = [
            {"bytes": size, **forwarding_cost(dataplane, job, size, extent.runs).record()}
            for size in extent.sizes
        ]
    tables = []
    for record in table_costs(extent.tables, extent.runs):
        tables.append(record)
        say(
            f"{record['kind']}, {record['entries']:,} entries: {record['median_ns']:.0f} ns a "
            f"packet, filled in {record['load_s']:.1f} s"
        )
    loads = [load_times(each) for each in artifacts()]
    for load in loads:
        say(
            f"{load['lanes']} lanes: loads in {load['first_s']:.1f} s, "
            f"from the cache in {load['cached_s']:.2f} s"
        )
    return {
        "processing": cost.record(),
        "by_lanes": _by_lanes(extent, say),
        "by_size": by_size,
        "by_table": tables,
        "load": loads,
    }


def _by_lanes(extent: Extent, say: Say) -> list[dict[str, Any]]:
    """Cost of GRADs that use some of the lanes that a program has."""
    found = []
    for artifact in artifacts():
        job = BenchJob(artifact)
        with switch_in_memory(job) as dataplane:
            first = 1
            for lanes in (n for n in extent.lanes if n <= artifact.layout.lanes):
                grads = Grads(job, lanes, first)
                cost = aggregation_cost(dataplane, grads, extent.runs)
                first = grads.next
                found.append({"program": artifact.name, "lanes_used": lanes, **cost.record()})
                say(f"{artifact.name}, {lanes} lanes in use: {cost.median_ns:.0f} ns a packet")
    return found
