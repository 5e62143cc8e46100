"""What workers and servers tell Prometheus."""

from __future__ import annotations

import socket
import time
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from host_stack.codec import Codec
from host_stack.commit import Commit
from host_stack.errors import BadInput
from host_stack.push import HotPush
from host_stack.shards import Shards
from host_stack.stopwatch import Phases, RoundTimes
from host_stack.transport import BatchTransport, ipv4, open_udp
from tests.controller_process import free_port
from tests.host_support import ScriptedTransport
from tests.job_in_memory import make_job
from workloads.role_metrics import ServerMetrics, WorkerMetrics, serve

JOB = make_job(4, 100, 40, 9)
OWN = ("queue", "phase", "path", "fate", "kind", "reason", "worker", "job")
"""The label that tells samples of one name apart comes first."""


def scraped(address: str) -> dict[tuple[str, str], float]:
    """(name, label) to value, as Prometheus reads them."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, next(sample.labels[own] for own in OWN if own in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_a_worker_tells_its_rounds_and_packets() -> None:
    """Totals grow by what each step adds, also those that its push counts itself."""
    metrics, address = WorkerMetrics(Shards((JOB,)), 3), f"127.0.0.1:{free_port()}"
    serve(metrics.registry, address)
    hot = HotPush(ScriptedTransport(lambda *_: []), 1, 256)
    hot.rtt.sample(np.array([0.25]))
    shard = SimpleNamespace(job=1, incarnation=SimpleNamespace(epoch=5), hot=hot)
    worker = SimpleNamespace(shards=(shard,))
    for step in range(2):
        hot.stats.packets += 10
        hot.stats.retransmissions += 1
        phases = Phases({"compute": 0.5, "push": 1.0}, {}, {"push": 0.25})
        metrics.pushed(step, RoundTimes(phases, hot_keys=30, cold_keys=10), worker)
    found = scraped(address)
    assert found["libra_worker_steps_total", "3"] == 2
    assert found["libra_worker_seconds_total", "compute"] == 1.0
    assert found["libra_worker_seconds_total", "push"] == 2.0
    assert found["libra_worker_waited_seconds_total", "push"] == 0.5
    assert found["libra_worker_gradients_total", "hot"] == 60
    assert found["libra_worker_gradients_total", "cold"] == 20
    assert found["libra_worker_packets_total", "sent"] == 20
    assert found["libra_worker_packets_total", "retransmitted"] == 2
    assert found["libra_worker_rtt_seconds", "3"] == 0.25
    assert found["libra_worker_window_packets", "3"] == hot.congestion.window
    assert (found["libra_worker_round", "3"], found["libra_worker_epoch", "3"]) == (2, 5)


def test_a_server_tells_its_commits_and_counters() -> None:
    """Phases of commits, rows, and the counters by reason."""
    metrics, address = ServerMetrics(JOB), f"127.0.0.1:{free_port()}"
    serve(metrics.registry, address)
    for round_ in range(3):
        phases = Phases({"drain": 0.5, "apply": 0.25, "update": 0.125}, {}, {"drain": 0.125})
        commit = Commit(round_, 2, phases, 7, 6, 50, (1, 1, 1, 1), 40)
        metrics.committed(commit, {"cold_keys": 9 * (round_ + 1)})
    found = scraped(address)
    assert found["libra_server_rounds_total", "1"] == 3
    assert found["libra_server_seconds_total", "drain"] == 1.5
    assert found["libra_server_waited_seconds_total", "drain"] == 0.375
    assert found["libra_server_rows_total", "drained"] == 21
    assert found["libra_server_keys_total", "1"] == 150
    assert found["libra_server_events_total", "cold_keys"] == 27
    assert (found["libra_server_round", "1"], found["libra_server_epoch", "1"]) == (3, 2)


def test_what_is_in_flight_and_waits_is_told_as_it_is() -> None:
    """Not as it was at the end of a step: between two of them nothing is in flight."""
    metrics, address = WorkerMetrics(Shards((JOB,)), 0), f"127.0.0.1:{free_port()}"
    serve(metrics.registry, address)
    assert scraped(address)["libra_worker_in_flight_packets", "0"] == 0
    codec = Codec(JOB.layout)
    with (
        open_udp("127.0.0.1", port=0) as own,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.bind(("127.0.0.1", 0))
        transport = BatchTransport(own, codec.max_bytes, other.getsockname()[1])
        hot = HotPush(transport, ipv4("127.0.0.1"), 256)
        metrics.watch(SimpleNamespace(shards=(SimpleNamespace(hot=hot),)))
        found = scraped(address)
        assert found["libra_worker_in_flight_packets", "0"] == 0
        assert found["libra_worker_socket_bytes", "receive"] == 0
        hot.begin(np.zeros(5, codec.grad))
        hot.transmit(time.monotonic())
        other.sendto(bytes(100), own.getsockname())
        found = scraped(address)
        assert found["libra_worker_in_flight_packets", "0"] == 5
        assert found["libra_worker_socket_bytes", "receive"] >= 100
        assert found["libra_worker_socket_drops_total", "0"] == 0
    assert ("libra_worker_socket_bytes", "receive") not in scraped(address)  # the process ends


def test_addresses_that_cannot_be_served() -> None:
    """What is no address, and one that another process has."""
    registry = WorkerMetrics(Shards((JOB,)), 0).registry
    for address in ("", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"):
        with pytest.raises(BadInput, match="HOST:PORT is needed"):
            serve(registry, address)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"cannot serve metrics at 127.0.0.1:{port}"):
            serve(registry, f"127.0.0.1:{port}")
