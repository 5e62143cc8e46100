"""What Prometheus is told."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.daemon.access import Access
from controller.daemon.controller import Controller
from controller.daemon.messages import read_ask
from controller.daemon.metrics import _COUNTERS, _GAUGES, serve_metrics, take
from controller.daemon.store import Store
from controller.jobapi.operator import Operator, spec_of
from host_stack.errors import BadInput
from host_stack.placement import heat_based
from host_stack.shards import Shards
from host_stack.standing import Standing
from softswitch.control import ControlServer
from softswitch.wiring import Wiring
from tests.controller_process import (
    WAIT_S,
    controller_process,
    embedded_switch,
    free_port,
    socket_path,
    star,
    write_star,
)
from tests.job_in_memory import SERVER, addresses, make_job, ports
from tests.memory_network import frame
from tests.test_controller_control_api import ARTIFACT, HOSTS, creation
from workloads.role_metrics import ServerMetrics, WorkerMetrics

DASHBOARD = Path(__file__).parent.parent / "docs" / "grafana" / "libra.json"


def test_jobs_and_rooms(tmp_path: Path) -> None:
    """Of switches that are down, too."""
    store = Store(tmp_path / "state.sqlite")
    access = Access()
    access.refused = 3

    async def use() -> dict[str, dict[tuple[str, ...], float]]:
        controller = Controller(star("127.0.0.1:9", HOSTS), store)
        job = controller.create(read_ask(creation(7, hot=100)))
        job.take("a test")
        job.settle("s1")
        counts = np.zeros(256, np.int64)
        job.report(Standing(5, 1000, 20, 2.5e6, counts))
        return (await take(controller, access)).values

    values = asyncio.run(use())
    store.close()
    assert values["libra_switch_ready"] == {("s1",): 0}
    assert values["libra_switch_free_rows"] == {("s1",): ARTIFACT.layout.rows - 4}
    assert values["libra_job_round"] == {("7",): 5}
    assert values["libra_job_epoch"] == {("7",): 1}
    assert values["libra_job_goodput_bps"] == {("7",): 2.5e6}
    assert values["libra_job_escaped_gradients"] == {("7",): 20}
    assert values["libra_refused_calls"] == {(): 3}
    assert values["libra_packets"] == {}


class TellingWiring(Wiring):
    """Around the ports of no data plane."""

    def stats(self) -> dict[str, object]:
        """What a switch with one port, and a link with faults, would tell."""
        counts = {"queue_packets": 7, "queue_bytes": 700, "queue_drops": 2}
        link = {"direction": "tx", "queue_full": 3, "overflow": 1, "waiting": 5}
        return {"ports": [{"port": 2, **counts}], "links": [{"port": 4, **link}]}


def test_queues_of_an_embedded_switch(tmp_path: Path) -> None:
    """Of a switch whose control socket the inventory names; none of one that does not answer."""
    store = Store(tmp_path / "state.sqlite")
    control = tmp_path / "control"

    async def use() -> dict[str, dict[tuple[str, ...], float]]:
        controller = Controller(star("127.0.0.1:9", HOSTS, control=control), store)
        return (await take(controller, Access())).values

    with ControlServer(control, TellingWiring([2, 4])):
        values = asyncio.run(use())
    assert values["libra_switch_queue_packets"] == {
        ("s1", "2", "interface"): 7,
        ("s1", "4", "tx"): 5,
    }
    assert values["libra_switch_queue_drops"] == {("s1", "2", "interface"): 2, ("s1", "4", "tx"): 4}
    assert asyncio.run(use())["libra_switch_queue_packets"] == {}
    with ControlServer(control, Wiring([2])):  # no pipeline yet
        assert asyncio.run(use())["libra_switch_queue_packets"] == {}
    store.close()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """It is named."""
    store = Store(tmp_path / "state.sqlite")

    async def use() -> None:
        controller = Controller(star("127.0.0.1:9", HOSTS), store)
        port = free_port()
        task = await serve_metrics(controller, Access(), "127.0.0.1", port)
        with pytest.raises(BadInput, match=f"127.0.0.1:{port}"):
            await serve_metrics(controller, Access(), "127.0.0.1", port)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(use())
    store.close()


@pytest.mark.compiler
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
def test_a_scrape(tmp_path: Path) -> None:
    """Packets that the switch counted are told, with their job and reason."""
    port = free_port()
    options = ("--metrics-port", str(port))
    with embedded_switch() as switch, socket_path() as socket:
        write_star(tmp_path, switch.address, 2)
        with controller_process(tmp_path, socket, *options) as process:
            process.event("switch-ready")
            operator = Operator(process.address, WAIT_S)
            placement = heat_based(np.arange(10, dtype=np.uint64), ARTIFACT.layout)
            operator.create(spec_of(make_job(2, 100, 30, 9)), placement)
            operator.wait_ready(1, 1, WAIT_S)
            worker = addresses(2)[0]
            short_grad = bytes([0x11, 0, 0, 1]) + bytes(12)
            switch.dataplane.inject(ports(2)[worker], frame(worker, SERVER, short_grad))
            _await(port, "libra_packets_total", 1, job="1", reason="malformed")
            _await(port, "libra_job_epoch", 1, job="1")
            _await(port, "libra_switch_ready", 1, switch="s1")


def _await(port: int, name: str, value: float, **labels: str) -> None:
    """Scrape until a sample has a value."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S) as page:
            text = page.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                is_it = sample.name == name and labels.items() <= sample.labels.items()
                if is_it and sample.value == value:
                    return
        time.sleep(0.2)
    raise AssertionError(f"{name} with {labels} is not {value}")


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    """Every expression names metrics of the endpoints, with labels that they have."""
    known = {name: labels for name, (_, labels) in _GAUGES.items()}
    known |= {f"{name}_total": labels for name, (_, labels) in _COUNTERS.items()}
    known |= {name: ["job", "worker", "queue"] for name in names_of_roles()}
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) >= 10
    for expression in expressions:
        found = re.findall(r"(libra_\w+)(?:\{([^}]*)\})?", expression)
        assert found
        for name, selector in found:
            labels = re.findall(r"(\w+)=", selector)
            assert set(labels) <= set(known[name]), expression


def test_the_documentation_names_every_metric() -> None:
    """And no other."""
    text = (DASHBOARD.parent.parent / "metrics.md").read_text()
    told = set(re.findall(r"`(libra_\w+)`", text))
    assert told == {*_GAUGES, *(f"{name}_total" for name in _COUNTERS)} | names_of_roles()


def names_of_roles() -> set[str]:
    """The metrics of workers and servers."""
    job = make_job(1, 10, 40, 9)
    return {
        family.name + ("_total" if family.type == "counter" else "")
        for registry in (WorkerMetrics(Shards((job,)), 0).registry, ServerMetrics(job).registry)
        for family in registry.collect()
    }
