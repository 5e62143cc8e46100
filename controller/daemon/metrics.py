"""What a controller tells Prometheus: switches, jobs, packets by reason.

Counters of switches are read every few seconds, whoever asks; a scrape gets what was read last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import finsy as fy
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller.counters import read_all_reasons
from controller.daemon.access import Access
from controller.daemon.controller import Controller
from controller.daemon.job_keeper import JobKeeper
from controller.daemon.queues import read_port_queues
from host_stack.errors import BadInput

PERIOD_S = 2.0
READ_S = 5.0
"""How long a switch may take to say its counters."""

Labels: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Snapshot:
    """Values by metric and labels, as they were last."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict)


_GAUGES = {
    "libra_switch_ready": ("The switch is connected and holds what it should.", ["switch"]),
    "libra_switch_free_rows": ("Rows that no job has.", ["switch"]),
    "libra_switch_fragmentation": ("1 - largest free block / free rows.", ["switch"]),
    "libra_switch_queue_packets": (
        "Packets that wait at a port: before its interface, or on a link with faults.",
        ["switch", "port", "queue"],
    ),
    "libra_job_round": ("Lowest round that is not committed.", ["job"]),
    "libra_job_epoch": ("Newest installed epoch.", ["job"]),
    "libra_job_fraction_bits": ("Scale F.", ["job"]),
    "libra_job_hot_keys": ("Keys on the switch.", ["job"]),
    "libra_job_goodput_bps": ("Committed gradients, in bits a second.", ["job"]),
    "libra_jobs": ("Jobs of the controller.", []),
}
_COUNTERS = {
    "libra_packets": ("Packets by reason; job 0 is none.", ["switch", "job", "reason"]),
    "libra_switch_queue_drops": (
        "Packets that found a queue full.",
        ["switch", "port", "queue"],
    ),
    "libra_entities_written": ("Updates sent to the switch.", ["switch"]),
    "libra_job_gradients": ("Gradients that were committed.", ["job"]),
    "libra_job_escaped_gradients": ("Those that did not fit in fixed point.", ["job"]),
    "libra_refused_calls": ("Calls of clients that may not make them.", []),
}


class ControllerCollector(Collector):
    """Hands the newest snapshot to Prometheus."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()

    def collect(self) -> Iterable[Metric]:
        """Called by a scrape, in a thread of the HTTP server."""
        values = self.snapshot.values
        for name, (text, labels) in _GAUGES.items():
            yield from _filled(GaugeMetricFamily(name, text, labels=labels), values.get(name, {}))
        for name, (text, labels) in _COUNTERS.items():
            family = CounterMetricFamily(name, text, labels=labels)
            yield from _filled(family, values.get(name, {}))


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, values: dict[Labels, float]
) -> Iterator[Metric]:
    for labels, value in values.items():
        family.add_metric(labels, value)
    yield family


async def take(controller: Controller, access: Access) -> Snapshot:
    """Look at everything, reading the counters of all switches that can be read."""
    values: dict[str, dict[Labels, float]] = {name: {} for name in (*_GAUGES, *_COUNTERS)}
    values["libra_jobs"][()] = len(controller.jobs)
    values["libra_refused_calls"][()] = access.refused
    for name, switch in controller.switches.items():
        rows = controller.rows_of(name)
        values["libra_switch_ready"][name,] = switch.is_ready
        values["libra_switch_free_rows"][name,] = rows.free_rows
        values["libra_switch_fragmentation"][name,] = rows.fragmentation
        values["libra_entities_written"][name,] = switch.written
        owners = switch.owners()
        for (slot, reason), packets in (await _reasons(switch.connection)).items():
            if slot == 0 or slot in owners:
                owner = str(owners.get(slot, 0))
                values["libra_packets"][name, owner, reason] = packets
        if (control := switch.spec.control) is not None:
            for queue in await asyncio.to_thread(read_port_queues, control):
                labels = (name, str(queue.port), queue.queue)
                values["libra_switch_queue_packets"][labels] = queue.packets
                values["libra_switch_queue_drops"][labels] = queue.drops
    for job in controller.jobs.values():
        _add_job(values, job)
    return Snapshot(values)


def _add_job(values: dict[str, dict[Labels, float]], job: JobKeeper) -> None:
    labels = (str(job.record.job),)
    values["libra_job_round"][labels] = job.round
    values["libra_job_hot_keys"][labels] = len(job.placement)
    if job.current is not None:
        values["libra_job_epoch"][labels] = job.current.epoch
        values["libra_job_fraction_bits"][labels] = job.current.fraction_bits
    if job.standing is not None:
        _, standing = job.standing
        values["libra_job_goodput_bps"][labels] = standing.goodput_bps
        values["libra_job_gradients"][labels] = standing.gradients
        values["libra_job_escaped_gradients"][labels] = standing.escaped


async def _reasons(connection: fy.Switch | None) -> dict[tuple[int, str], int]:
    if connection is None:
        return {}
    try:
        async with asyncio.timeout(READ_S):
            return await read_all_reasons(connection)
    except (TimeoutError, fy.P4ClientError):
        return {}


async def serve_metrics(
    controller: Controller, access: Access, host: str, port: int
) -> asyncio.Task[None]:
    """Serve http://HOST:PORT/metrics until the task is cancelled.

    Raises `BadInput` if the port is taken.
    """
    collector = ControllerCollector()
    collector.snapshot = await take(controller, access)
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise BadInput(f"cannot serve metrics at {host}:{port}: {error.strerror}") from error

    async def refresh() -> None:
        try:
            while True:
                await asyncio.sleep(PERIOD_S)
                collector.snapshot = await take(controller, access)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    return asyncio.create_task(refresh())
