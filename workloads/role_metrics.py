"""What a worker or a server tells Prometheus, where it is asked to: `--metrics HOST:PORT`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from host_stack.commit import Commit
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.push import HotPush
from host_stack.sharded import JobWorker, push_stats
from host_stack.shards import Shards
from host_stack.socket_queue import SocketQueue, socket_queue
from host_stack.stopwatch import RoundTimes
from host_stack.transport import Transport

_WAITED = "Of the seconds in each phase, those that the process was ready and had no processor."


def serve(registry: CollectorRegistry, address: str) -> None:
    """Serve http://HOST:PORT/metrics as long as the process lives.

    Raises `BadInput` if the address is none or is taken.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 0xFFFF:
        raise BadInput(f"metrics at {address!r}: HOST:PORT is needed")
    try:
        start_http_server(int(port), host, registry)
    except OSError as error:
        raise BadInput(f"cannot serve metrics at {address}: {error.strerror}") from error


class WorkerMetrics:
    """Of one worker: rounds, phases, gradients by path, packets, round trips, and its window."""

    def __init__(self, job: Shards, rank: int) -> None:
        """A job with several servers is counted under the number of its first shard.

        Epoch, round trip and window are those of each shard, under its number.
        """
        self.registry = CollectorRegistry()
        self._labels = (str(job.job(0).job), str(rank))
        self._steps = self._counter("steps", "Steps that were pushed and let go on.")
        self._seconds = self._counter("seconds", "Seconds in each phase of a round.", "phase")
        self._waited = self._counter("waited_seconds", _WAITED, "phase")
        self._gradients = self._counter("gradients", "Gradients pushed, hot and cold.", "path")
        self._packets = self._counter("packets", "GRADs by what became of them.", "fate")
        self._fetched = self._counter("fetched_rows", "Rows whose UPDATE was missed.")
        self._replays = self._counter("replays", "Pushes again in another epoch.")
        self._round = self._gauge("round", "Step that is pushed next.")
        self._epoch = self._gauge("epoch", "Epoch of the last push.")
        self._rtt = self._gauge("rtt_seconds", "Smoothed round-trip time of GRADs.")
        self._window = self._gauge("window_packets", "GRADs that may be in flight.")
        self._counted: dict[str, int] = {}
        self._queues = _Queues("worker", self._labels)
        self.registry.register(self._queues)

    def watch(self, worker: JobWorker) -> None:
        """Tell, from now on, what is in flight and waits in sockets when it is asked for."""
        pushes = [shard.hot for shard in worker.shards]
        self._queues.watch([push.transport for push in pushes], pushes)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        names = ("job", "worker", *labels)
        return Counter(f"libra_worker_{name}", text, names, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        names = ("job", "worker")
        return Gauge(f"libra_worker_{name}", text, names, registry=self.registry)

    def pushed(self, step: int, times: RoundTimes, worker: JobWorker) -> None:
        """Count a step that a worker has made."""
        at = self._labels
        self._steps.labels(*at).inc()
        for phase, seconds in times.phases.elapsed_s.items():
            self._seconds.labels(*at, phase).inc(seconds)
        for phase, seconds in times.phases.waited_s.items():
            self._waited.labels(*at, phase).inc(seconds)
        self._gradients.labels(*at, "hot").inc(times.hot_keys)
        self._gradients.labels(*at, "cold").inc(times.cold_keys)
        self._fetched.labels(*at).inc(times.fetched_rows)
        self._replays.labels(*at).inc(times.replays)
        self._round.labels(*at).set(step + 1)
        for shard in worker.shards:
            own = (str(shard.job), at[1])
            self._epoch.labels(*own).set(shard.incarnation.epoch)
            self._rtt.labels(*own).set(shard.hot.rtt.srtt_s or 0.0)
            self._window.labels(*own).set(shard.hot.congestion.window)
        stats = push_stats(worker)
        for fate, total in (
            ("sent", stats.packets),
            ("retransmitted", stats.retransmissions),
            ("by_server", stats.by_server),
            ("duplicate", stats.duplicates),
        ):
            self._packets.labels(*at, fate).inc(total - self._counted.get(fate, 0))
            self._counted[fate] = total


class ServerMetrics:
    """Of the server of a job: rounds, phases, rows and keys, and its counters by reason."""

    def __init__(self, job: Job) -> None:
        self.registry = CollectorRegistry()
        self._job = str(job.job)
        self._rounds = self._counter("rounds", "Rounds that were committed.")
        self._seconds = self._counter("seconds", "Seconds in each phase of a commit.", "phase")
        self._waited = self._counter("waited_seconds", _WAITED, "phase")
        self._rows = self._counter("rows", "Rows that were drained, and such that changed.", "kind")
        self._keys = self._counter("keys", "Keys that commits have touched.")
        names = ("job",)
        self._round = Gauge(
            "libra_server_round", "Lowest round that is open.", names, registry=self.registry
        )
        self._epoch = Gauge(
            "libra_server_epoch", "Epoch of the last commit.", names, registry=self.registry
        )
        self._reasons = _Reasons(self._job)
        self.registry.register(self._reasons)
        self._queues = _Queues("server", (self._job,))
        self.registry.register(self._queues)

    def watch(self, transport: Transport) -> None:
        """Tell, from now on, what waits in its sockets when it is asked for."""
        self._queues.watch([transport], [])

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"libra_server_{name}", text, ("job", *labels), registry=self.registry)

    def committed(self, commit: Commit, statistics: Mapping[str, int]) -> None:
        """Count a commit; `statistics` are those of `Server.statistics`."""
        self._rounds.labels(self._job).inc()
        for phase, seconds in commit.phases.elapsed_s.items():
            self._seconds.labels(self._job, phase).inc(seconds)
        for phase, seconds in commit.phases.waited_s.items():
            self._waited.labels(self._job, phase).inc(seconds)
        self._rows.labels(self._job, "drained").inc(commit.drained_rows)
        self._rows.labels(self._job, "changed").inc(commit.changed_rows)
        self._keys.labels(self._job).inc(commit.keys)
        self._round.labels(self._job).set(commit.round + 1)
        self._epoch.labels(self._job).set(commit.epoch)
        self._reasons.counts = dict(statistics)


class _Queues(Collector):
    """What waits at a host, as it is at the time of a scrape."""

    def __init__(self, role: str, labels: Sequence[str]) -> None:
        self._role = role
        self._labels = labels
        self._transports: Sequence[Transport] = ()
        self._pushes: Sequence[HotPush] = ()

    def watch(self, transports: Sequence[Transport], pushes: Sequence[HotPush]) -> None:
        """Sum up these."""
        self._transports, self._pushes = transports, pushes

    def collect(self) -> Iterator[Metric]:
        """Called by a scrape, in a thread of the HTTP server."""
        name, names = f"libra_{self._role}", ["job", "worker"][: len(self._labels)]
        waiting = GaugeMetricFamily(
            f"{name}_socket_bytes", "Bytes that wait in UDP sockets.", labels=[*names, "queue"]
        )
        dropped = CounterMetricFamily(
            f"{name}_socket_drops", "Datagrams that found no room in a UDP socket.", labels=names
        )
        if queues := self._queues():
            received = sum(each.receive_bytes for each in queues)
            waiting.add_metric([*self._labels, "receive"], received)
            waiting.add_metric([*self._labels, "send"], sum(each.send_bytes for each in queues))
            dropped.add_metric(self._labels, sum(each.drops for each in queues))
        yield waiting
        yield dropped
        if self._role == "worker":
            flying = GaugeMetricFamily(
                f"{name}_in_flight_packets", "GRADs that are not acknowledged.", labels=names
            )
            flying.add_metric(self._labels, sum(push.in_flight for push in self._pushes))
            yield flying

    def _queues(self) -> list[SocketQueue]:
        sockets = [each for transport in self._transports for each in transport.sockets()]
        try:
            return [socket_queue(each) for each in sockets]
        except OSError:  # closed: the process ends
            return []


class _Reasons(Collector):
    """The counters of the server by reason, as they were at the last commit."""

    def __init__(self, job: str) -> None:
        self._job = job
        self.counts: dict[str, int] = {}

    def collect(self) -> list[Metric]:
        """Called by a scrape, in a thread of the HTTP server."""
        family = CounterMetricFamily(
            "libra_server_events", "Counters of docs/wire.md.", labels=["job", "reason"]
        )
        for reason, count in self.counts.items():
            family.add_metric([self._job, reason], count)
        return [family]
