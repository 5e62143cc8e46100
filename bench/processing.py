"""Processing alone: packets through the pipeline in memory, without any interface."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.frames import datagrams, renumber
from bench.job import BenchJob, NotAggregated, host
from host_stack.codec import Bytes
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.server import P4RuntimeServer

BATCH = 256
"""Packets of one timed run: few enough to stay in the second-level cache."""


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of processor time per packet, over many runs."""

    median_ns: float
    lowest_ns: float
    runs: int

    @classmethod
    def of(cls, runs_ns: Sequence[float]) -> Cost:
        """Sum up the runs."""
        return cls(statistics.median(runs_ns), min(runs_ns), len(runs_ns))

    def record(self) -> dict[str, Any]:
        """The same for JSON."""
        return {"median_ns": self.median_ns, "lowest_ns": self.lowest_ns, "runs": self.runs}


@contextmanager
def switch_in_memory(job: BenchJob) -> Iterator[DataPlane]:
    """An embedded switch without ports, with the job installed through P4Runtime."""
    # Compiled beforehand: a controller does not wait as long as a slow machine needs.
    DataPlane.load(job.artifact.device_config).close()
    with P4RuntimeServer("127.0.0.1:0") as server:
        asyncio.run(job.install(server.address, "soft"))
        dataplane = server.dataplane
        if dataplane is None:
            raise NotAggregated("the embedded switch did not take the program")
        yield dataplane


class Grads:
    """GRADs of one worker, of which each run is new to the switch."""

    def __init__(self, job: BenchJob, lanes: int | None = None, first: int = 1) -> None:
        self.port = job.ports[0]
        self._frames = job.frames(0, BATCH, lanes)
        self.next = first

    def packets(self) -> list[bytes]:
        """BATCH packets with sequence numbers that were not used before."""
        renumber(self._frames, self.next)
        self.next += BATCH
        return [frame.tobytes() for frame in self._frames]


def aggregation_cost(dataplane: DataPlane, grads: Grads, runs: int) -> Cost:
    """What a GRAD costs that is added up; `NotAggregated` if fewer are answered than were sent."""
    costs = []
    for _ in range(runs + 1):
        ns, sent = dataplane.inject_batch(grads.port, grads.packets())
        if sent != BATCH:
            raise NotAggregated(f"{sent} answers to {BATCH} packets")
        costs.append(ns)
    return Cost.of(costs[1:])  # the first run warms up


def forwarding_cost(dataplane: DataPlane, job: BenchJob, size: int, runs: int) -> Cost:
    """What a datagram of `size` bytes costs that the switch only routes."""
    payload = np.zeros((BATCH, size - 42), np.uint8)
    near, far = host(job.ports[0]), host(1)
    frames = datagrams(payload, near.address, far.address, port=9)
    return repeated_cost(dataplane, job.ports[0], frames, runs)


def repeated_cost(dataplane: DataPlane, port: int, frames: Bytes, runs: int) -> Cost:
    """What frames cost that may be sent again and again."""
    packets = [frame.tobytes() for frame in frames]
    dataplane.inject_batch(port, packets)
    return Cost.of([dataplane.inject_batch(port, packets)[0] for _ in range(runs)])
