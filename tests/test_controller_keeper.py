"""The keeper as a process of its own, around the embedded switch in memory."""

from __future__ import annotations

import json
import queue
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.jobapi import job_pb2, job_pb2_grpc
from controller.jobapi.ask import change_placement, read_status
from controller.jobapi.client import JobIncarnations, NoController
from controller.keeper.config import KeeperConfig, Placed
from controller.keeper.epochs import EpochFile, Taken
from controller.tables import Attachment
from host_stack.errors import BadInput
from host_stack.incarnation import Incarnation
from host_stack.layout import MAX_EPOCH
from host_stack.placement import heat_based
from host_stack.standing import Standing
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.server import P4RuntimeServer
from tests.job_in_memory import LAYOUT, SERVER, make_job, ports

needs_switch = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]
WORKERS = 2
WAIT_S = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job's folder; the socket is elsewhere, for its path must be short."""
    make_job(WORKERS, 4000, 33, 9).save(tmp_path / "job.json")
    heat_based(np.arange(100, dtype=np.uint64), LAYOUT).save(tmp_path / "placement-1.npz")
    return tmp_path


def config(socket: Path, address: str = "127.0.0.1:9", placed: Placed = Placed.JOB) -> KeeperConfig:
    """The configuration of a keeper of `make_job`."""
    hosts = tuple(
        Attachment(host, "02:00:00:00:00:01", port) for host, port in ports(WORKERS).items()
    )
    return KeeperConfig(
        str(socket), address, "soft", 1, "libra", "02:00:00:00:00:fe", hosts, placed, 1, 0, 4, 1
    )


class Process:
    """A running keeper and the events that it writes."""

    def __init__(self, folder: Path) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "controller.keeper", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._events: queue.Queue[dict | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        with self._popen.stdout as lines:
            for line in lines:
                self._events.put(json.loads(line))
        self._events.put(None)

    def event(self, kind: str) -> dict:
        """Wait for the next event of a kind."""
        deadline = time.monotonic() + WAIT_S
        while True:
            found = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            assert found is not None, "the keeper has ended"
            if found["event"] == kind:
                return found

    def go(self) -> None:
        """Say that what was asked for is done."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(b"go\n")
        self._popen.stdin.flush()

    def kill(self) -> None:
        """As `kill -9` does."""
        self._popen.kill()
        self._popen.wait()
        self._reader.join()
        assert self._popen.stdin is not None
        self._popen.stdin.close()


@contextmanager
def keeper(folder: Path) -> Iterator[Process]:
    """A keeper that ends with the block."""
    process = Process(folder)
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path for the socket."""
    with tempfile.TemporaryDirectory(prefix="libra-") as name:
        yield Path(name) / "job.sock"


@pytest.fixture
def client(socket: Path) -> Iterator[JobIncarnations]:
    """The server's side."""
    incarnations = JobIncarnations(socket, 1)
    yield incarnations
    incarnations.close()


def await_news(client: JobIncarnations, ask: Callable[[], None] = lambda: None) -> Incarnation:
    """Wait for the next incarnation as the server does, asking again every second."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        ask()
        if select.select([client.fileno()], [], [], 1.0)[0] and (news := client.news()):
            return news
    raise AssertionError("no incarnation")


@pytest.fixture
def switch() -> Iterator[P4RuntimeServer]:
    """An embedded switch without ports."""
    DataPlane.load(Artifact.load().device_config).close()
    with P4RuntimeServer("127.0.0.1:0") as server:
        yield server


@contextmanager
def restarted(switch: P4RuntimeServer) -> Iterator[P4RuntimeServer]:
    """The switch dies, and comes back empty."""
    switch.stop(0.0)
    with P4RuntimeServer(switch.address) as again:
        yield again


pytestmark = needs_switch


def test_a_switch_that_was_restarted_gets_a_new_epoch(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """The loss of the stream is noticed, the empty switch set up again, and the server told."""
    config(socket, switch.address).save(folder / "keeper.json")
    with keeper(folder) as process:
        process.event("ready")
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        assert (first.epoch, len(first.placement)) == (1, 100)
        with restarted(switch):
            assert process.event("switch")["state"] == "down"
            assert await_news(client).epoch == 2
            assert process.event("switch")["state"] == "ready"


def test_a_renewal_is_given_once(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """However often a server asks, one epoch comes of it; the pipeline stays."""
    config(socket, switch.address).save(folder / "keeper.json")
    with keeper(folder) as process:
        process.event("ready")
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        dataplane = switch.dataplane
        second = await_news(client, lambda: client.renew("a test", first, 5))
        for _ in range(3):
            client.renew("a test", first, 5)
        third = await_news(client, lambda: client.renew("a test", second, 6))
        assert (second.epoch, second.round, third.epoch, third.round) == (2, 5, 3, 6)
        assert switch.dataplane is dataplane


def test_a_restarted_keeper_leaves_a_healthy_switch_alone(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """It reads back its file and the switch; requests that were made meanwhile are answered."""
    config(socket, switch.address).save(folder / "keeper.json")
    with keeper(folder) as process:
        process.event("ready")
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        dataplane = switch.dataplane
    with pytest.raises(NoController, match="epoch"):
        client.begin(0, resumed=True, timeout_s=0.5)
    with keeper(folder) as process:
        assert process.event("ready")["epoch"] == 1
        assert switch.dataplane is dataplane
        assert await_news(client, lambda: client.renew("a test", first, 1)).epoch == 2
        assert switch.dataplane is dataplane


def test_keeper_and_switch_die_together(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """The epoch that the file holds is not used on the empty switch."""
    config(socket, switch.address).save(folder / "keeper.json")
    with keeper(folder) as process:
        process.event("ready")
        client.begin(0, resumed=False, timeout_s=WAIT_S)
    with restarted(switch), keeper(folder) as process:
        assert process.event("ready")["epoch"] == 2
        assert client.begin(7, resumed=True, timeout_s=WAIT_S).epoch == 3


def test_a_keeper_that_died_while_it_wrote_starts_over(
    folder: Path, socket: Path, switch: P4RuntimeServer
) -> None:
    """An epoch that was taken but not installed is not trusted, whatever the switch says."""
    config(socket, switch.address).save(folder / "keeper.json")
    with keeper(folder) as process:
        process.event("ready")
    dataplane = switch.dataplane
    file = EpochFile(folder / "epochs.json", 1)
    taken = file.load()
    assert taken is not None
    file.save(replace(taken, installed=False))
    with keeper(folder) as process:
        assert process.event("ready")["epoch"] == 2
        assert switch.dataplane is not dataplane


def test_epochs_wrap_on_an_emptied_switch_only(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """After 4095 comes 1, which the switch may have seen: its program is loaded anew."""
    config(socket, switch.address).save(folder / "keeper.json")
    EpochFile(folder / "epochs.json", 1).save(Taken(MAX_EPOCH - 1, 3, 33, 1, True))
    with keeper(folder) as process:
        assert process.event("ready")["epoch"] == MAX_EPOCH
        dataplane = switch.dataplane
        last = client.begin(4, resumed=False, timeout_s=WAIT_S)
        assert await_news(client, lambda: client.renew("a test", last, 5)).epoch == 1
        assert switch.dataplane is not dataplane


def test_a_suspected_switch_is_set_up_when_the_suspicion_stays(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """A switch that reads well is trusted for a while."""
    config(socket, switch.address).save(folder / "keeper.json")
    with keeper(folder) as process:
        process.event("ready")
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        dataplane = switch.dataplane
        second = await_news(client, lambda: client.suspect("a test", first, 5))
        assert (second.epoch, process.event("distrusted")["holds"]) == (2, True)
        assert switch.dataplane is not dataplane


@pytest.mark.parametrize("placed", [Placed.GROUP, Placed.NOTHING])
def test_without_the_job_on_the_switch_epochs_need_no_switch(
    placed: Placed, folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """The server gets its epoch while the switch is down, and none when it is back."""
    config(socket, switch.address, placed).save(folder / "keeper.json")
    with keeper(folder) as process:
        process.event("ready")
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        switch.stop(0.0)
        assert await_news(client, lambda: client.renew("a test", first, 5)).epoch == 2
        with P4RuntimeServer(switch.address):
            assert process.event("provisioned")["epoch"] == 2


def test_an_epoch_file_that_is_damaged_is_refused(folder: Path) -> None:
    """It is named, and what to do about it."""
    path = folder / "epochs.json"
    file = EpochFile(path, 1)
    assert file.load() is None
    for text in ("", "[]", "{}", '{"schema": 1, "job": 1, "epoch": "1"}'):
        path.write_text(text)
        with pytest.raises(BadInput, match="epoch file"):
            file.load()
    file.save(Taken(7, 3, 33, 1, True))
    assert file.load() == Taken(7, 3, 33, 1, True)
    with pytest.raises(BadInput, match="job 2"):
        EpochFile(path, 2).load()


def test_configurations_are_checked(folder: Path, socket: Path) -> None:
    """What is written is read; what is damaged is refused."""
    path = folder / "keeper.json"
    config(socket).save(path)
    assert KeeperConfig.load(path) == config(socket)
    path.write_text(path.read_text().replace('"soft"', '"hard"'))
    with pytest.raises(BadInput, match="hard"):
        KeeperConfig.load(path)
    with pytest.raises(BadInput, match="107"):
        config(Path("/" + "x" * 120))
    lonely = replace(config(socket), hosts=())
    with pytest.raises(BadInput, match=SERVER):
        lonely.membership(make_job(WORKERS, 10, 33, 9), 1, 33)


def test_packets_go_around_a_switch_that_is_down(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """Routes first, then an epoch without a switch; back in another one when it is set up."""
    replace(config(socket, switch.address), has_detour=True).save(folder / "keeper.json")
    with keeper(folder) as process:
        process.event("ready")
        client.begin(0, resumed=False, timeout_s=WAIT_S)
        switch.stop(0.0)
        assert process.event("route")["detour"] is True
        process.go()
        around = await_news(client)
        assert (around.epoch, len(around.placement)) == (2, 100)
        assert await_news(client, lambda: client.renew("a test", around, 5)).epoch == 3
        with P4RuntimeServer(switch.address):
            assert process.event("route")["detour"] is False
            process.go()
            assert await_news(client).epoch == 4
            assert process.event("switch")["state"] == "ready"


def test_a_placement_begins_with_an_epoch(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """A job is given one, on disk and on the switch; one that does not fit is refused."""
    config(socket, switch.address).save(folder / "keeper.json")
    other = heat_based(np.arange(50, 170, dtype=np.uint64), LAYOUT)
    with keeper(folder) as process:
        process.event("ready")
        client.begin(0, resumed=False, timeout_s=WAIT_S)
        dataplane = switch.dataplane
        assert change_placement(socket, 1, other, 33) == 2
        second = await_news(client)
        assert (second.epoch, second.version, second.fraction_bits) == (2, 2, 33)
        assert second.placement.keys.tolist() == list(range(50, 170))
        assert switch.dataplane is dataplane
        assert change_placement(socket, 1, other, 30) == 3
        third = await_news(client)
        assert (third.epoch, third.version, third.fraction_bits) == (3, 3, 30)
        assert switch.dataplane is not dataplane  # other tables for another F
        with pytest.raises(BadInput, match="rows"):
            change_placement(socket, 1, heat_based(np.arange(500, dtype=np.uint64), LAYOUT), 33)
        with pytest.raises(BadInput, match="job 7"):
            read_status(socket, 7)
        status = read_status(socket, 1)
        assert (status.epoch, status.version, status.hot_keys, status.switch) == (
            3,
            3,
            120,
            "ready",
        )
        assert status.changes[0] == (1, "the job begins")
    with keeper(folder) as process:
        assert process.event("ready")["epoch"] == 3
        assert len(client.begin(0, resumed=True, timeout_s=WAIT_S).placement) == 120


def test_what_the_server_reports_is_in_the_status(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """Round, goodput, escapes and exponents; what cannot be is refused and changes nothing."""
    config(socket, switch.address).save(folder / "keeper.json")
    counts = np.bincount([100, 100, 120], minlength=256)
    with keeper(folder) as process:
        process.event("ready")
        assert read_status(socket, 1).standing is None
        assert read_status(socket, 1).scale_fields() is None
        client.report(Standing(17, 1000, 3, 2.5e6, counts))
        client.settle()
        bad = job_pb2.ReportRequest(job=1, standing=job_pb2.Standing(exponents={256: 1}))
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            stub = job_pb2_grpc.JobServiceStub(channel)
            with pytest.raises(grpc.RpcError, match="exponent 256"):
                stub.Report(bad, timeout=WAIT_S)
        status = read_status(socket, 1)
    assert status.standing is not None
    assert (status.round, status.standing.goodput_bps) == (17, 2.5e6)
    assert status.standing.exponents.tolist() == counts.tolist()
    assert 0 <= status.reported_s_ago < WAIT_S
    scale = status.scale_fields()
    assert scale is not None
    assert (scale["gradients"], scale["escaped"]) == (1000, 3)
    assert scale["exponents"] == {100: 2, 120: 1}
