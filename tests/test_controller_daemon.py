"""The controller as a process of its own: epochs, reconciliation, restarts."""

from __future__ import annotations

import select
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.daemon.store import Store
from controller.errors import DamagedState, NotKnown
from controller.jobapi import job_pb2, job_pb2_grpc
from controller.jobapi.ask import read_status
from controller.jobapi.channel import ControllerAddress, NoController, calls
from controller.jobapi.client import JobIncarnations
from controller.jobapi.operator import Operator, spec_of
from host_stack.errors import BadInput
from host_stack.incarnation import Incarnation
from host_stack.layout import MAX_EPOCH
from host_stack.placement import heat_based
from host_stack.standing import Standing
from softswitch.p4runtime.server import P4RuntimeServer
from tests.controller_process import (
    WAIT_S,
    ControllerProcess,
    controller_process,
    embedded_switch,
    restarted,
    socket_path,
    start_controller,
    write_star,
)
from tests.job_in_memory import make_job

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]
WORKERS = 2
LAYOUT = Artifact.load().layout
F = 33
PLACEMENT = heat_based(np.arange(100, dtype=np.uint64), LAYOUT)


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path for the socket."""
    with socket_path() as path:
        yield path


@pytest.fixture
def client(socket: Path) -> Iterator[JobIncarnations]:
    """The server's side of job 1."""
    incarnations = JobIncarnations(ControllerAddress.at_socket(socket), 1)
    yield incarnations
    incarnations.close()


@pytest.fixture
def switch() -> Iterator[P4RuntimeServer]:
    """An embedded switch."""
    with embedded_switch() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, switch: P4RuntimeServer) -> Path:
    """A folder with the inventory of the switch."""
    write_star(tmp_path, switch.address, WORKERS)
    return tmp_path


def begin(process: ControllerProcess, placed: str = "job") -> None:
    """Create job 1 and wait until it is installed."""
    process.event("ready")
    spec = spec_of(make_job(WORKERS, 4000, F, 9), placed=placed)
    Operator(process.address, WAIT_S).create(spec, PLACEMENT)
    process.event("epoch", job=1)


def await_news(client: JobIncarnations, ask: Callable[[], None] = lambda: None) -> Incarnation:
    """Wait for the next incarnation as the server does, asking again every second."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        ask()
        if select.select([client.fileno()], [], [], 1.0)[0] and (news := client.news()):
            return news
    raise AssertionError("no incarnation")


def test_a_switch_that_was_restarted_gets_a_new_epoch(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """The loss of the stream is noticed, the empty switch set up again, and the server told."""
    with controller_process(folder, socket) as process:
        begin(process)
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        assert (first.epoch, len(first.placement)) == (1, 100)
        with restarted(switch):
            process.event("switch-down")
            assert await_news(client).epoch == 2
            process.event("switch-ready")


def test_a_renewal_is_given_once(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """However often a server asks, one epoch comes of it, by one update; the pipeline stays."""
    with controller_process(folder, socket) as process:
        begin(process)
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        (before,) = Operator(process.address).switches()
        dataplane = switch.dataplane
        second = await_news(client, lambda: client.renew("a test", first, 5))
        for _ in range(3):
            client.renew("a test", first, 5)
        third = await_news(client, lambda: client.renew("a test", second, 6))
        assert (second.epoch, second.round, third.epoch, third.round) == (2, 5, 3, 6)
        (after,) = Operator(process.address).switches()
        assert after.written - before.written == 2
        assert switch.dataplane is dataplane


def test_a_restarted_controller_leaves_a_healthy_switch_alone(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """It reads back its state and the switch, and writes nothing; requests are answered then."""
    with controller_process(folder, socket) as process:
        begin(process)
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        dataplane = switch.dataplane
    with pytest.raises(NoController, match="epoch"):
        client.begin(0, resumed=True, timeout_s=0.5)
    with controller_process(folder, socket) as process:
        assert process.event("provisioned")["text"] == "0 entities written"
        assert process.event("epoch")["text"] == "epoch 1: the controller was restarted"
        assert await_news(client, lambda: client.renew("a test", first, 1)).epoch == 2
        assert switch.dataplane is dataplane


def test_only_the_difference_is_written(
    folder: Path, socket: Path, switch: P4RuntimeServer
) -> None:
    """A host more in the inventory, while the controller was down, is a route and an address."""
    with controller_process(folder, socket) as process:
        begin(process)
    with (folder / "inventory.toml").open("a") as file:
        file.write('\n[[host]]\nname = "new"\nip = "127.0.1.99"\n')
        file.write('mac = "02:00:00:00:01:99"\nswitch = "s1"\nport = 99\n')
    with controller_process(folder, socket) as process:
        assert process.event("provisioned")["text"] == "2 entities written"
        assert process.event("epoch")["text"].startswith("epoch 1:")


def test_controller_and_switch_die_together(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """The epoch that is remembered is not used on the empty switch."""
    with controller_process(folder, socket) as process:
        begin(process)
        client.begin(0, resumed=False, timeout_s=WAIT_S)
    with restarted(switch), controller_process(folder, socket) as process:
        assert process.event("epoch")["text"] == "epoch 2: the switch was empty"
        assert await_news(client).epoch == 2
        assert client.begin(7, resumed=True, timeout_s=WAIT_S).epoch == 3


def test_a_restarted_controller_waits_for_a_switch_that_died_too(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """Attempts are counted for a switch that never was set up, in no life of the controller."""
    with controller_process(folder, socket) as process:
        begin(process)
    switch.stop(0.0)
    with controller_process(folder, socket, "--attempts", "1") as process:
        process.event("switch-down")
        with restarted(switch):
            process.event("switch-ready")
            assert client.begin(7, resumed=True, timeout_s=WAIT_S).epoch == 3


def test_a_controller_that_died_while_it_wrote_does_not_trust_the_epoch(
    folder: Path, socket: Path, switch: P4RuntimeServer
) -> None:
    """An epoch that was taken but not installed is given up, whatever the switch says."""
    with controller_process(folder, socket) as process:
        begin(process)
    store = Store(folder / "state.sqlite")
    ((_, taken),) = store.jobs()
    assert taken is not None
    store.save_taken(1, replace(taken, installed=False))
    store.close()
    with controller_process(folder, socket) as process:
        assert process.event("epoch")["text"].startswith("epoch 2: the switch did not hold")


def test_epochs_wrap_on_an_emptied_switch_only(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """After 4095 comes 1, which the switch may have seen: its program is loaded anew."""
    with controller_process(folder, socket) as process:
        begin(process)
    store = Store(folder / "state.sqlite")
    ((_, taken),) = store.jobs()
    assert taken is not None
    store.save_taken(1, replace(taken, epoch=MAX_EPOCH - 1))
    store.close()
    with controller_process(folder, socket) as process:
        process.event("epoch")
        dataplane = switch.dataplane
        last = client.begin(4, resumed=False, timeout_s=WAIT_S)
        assert last.epoch == MAX_EPOCH
        assert await_news(client, lambda: client.renew("a test", last, 5)).epoch == 1
        assert switch.dataplane is not dataplane


def test_a_suspected_switch_is_set_up_when_the_suspicion_stays(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """A switch that reads well is trusted for a while."""
    with controller_process(folder, socket) as process:
        begin(process)
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        dataplane = switch.dataplane
        second = await_news(client, lambda: client.suspect("a test", first, 5))
        assert (second.epoch, process.event("distrusted")["holds"]) == (2, True)
        assert switch.dataplane is not dataplane


@pytest.mark.parametrize("placed", ["group", "nothing"])
def test_without_the_job_on_the_switch_epochs_need_no_switch(
    placed: str, folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """The server gets its epoch while the switch is down, and none when it is back."""
    with controller_process(folder, socket) as process:
        begin(process, placed)
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        switch.stop(0.0)
        assert await_news(client, lambda: client.renew("a test", first, 5)).epoch == 2
        with P4RuntimeServer(switch.address):
            assert process.event("provisioned")["emptied"] is True
            process.event("switch-ready")
            assert Operator(process.address).describe(1).epoch == 2


def test_packets_go_around_a_switch_that_is_down(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """Routes first, then an epoch without a switch; back in another one when it is set up."""
    with controller_process(folder, socket, "--detour") as process:
        begin(process)
        assert client.begin(0, resumed=False, timeout_s=WAIT_S).on_switch
        switch.stop(0.0)
        assert process.event("route")["detour"] is True
        process.go()
        around = await_news(client)
        assert (around.epoch, len(around.placement), around.on_switch) == (2, 100, False)
        assert await_news(client, lambda: client.renew("a test", around, 5)).epoch == 3
        with P4RuntimeServer(switch.address):
            assert process.event("route")["detour"] is False
            process.go()
            back = await_news(client)
            assert (back.epoch, back.on_switch) == (4, True)
            process.event("switch-ready")


def test_a_placement_begins_with_an_epoch(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """Another one, or another F, is on disk and on the switch; one that does not fit is refused."""
    other = heat_based(np.arange(50, 170, dtype=np.uint64), LAYOUT)
    with controller_process(folder, socket) as process:
        begin(process)
        operator = Operator(process.address, WAIT_S)
        first = client.begin(0, resumed=False, timeout_s=WAIT_S)
        dataplane = switch.dataplane
        assert operator.change(1, other, None).version == 2
        told = await_news(client)
        assert (told.epoch, told.version, told.planned) == (1, 1, True)
        second = await_news(client, lambda: client.renew("between rounds", first, 4))
        assert not second.planned
        assert (second.epoch, second.version, second.fraction_bits) == (2, 2, F)
        assert second.placement.keys.tolist() == list(range(50, 170))
        assert operator.change(1, None, 30).version == 3
        assert await_news(client).planned
        third = await_news(client, lambda: client.renew("between rounds", second, 5))
        assert (third.epoch, third.version, third.fraction_bits) == (3, 3, 30)
        assert third.placement.keys.tolist() == list(range(50, 170))
        assert switch.dataplane is dataplane  # other tables for another F, beside running jobs
        with pytest.raises(BadInput, match="rows"):
            operator.change(1, heat_based(np.arange(500, dtype=np.uint64), LAYOUT), None)
        with pytest.raises(BadInput, match="nothing to change"):
            operator.change(1, None, None)
        with pytest.raises(NotKnown, match="job 7 is not known here; known are 1"):
            read_status(process.address, 7)
        status = read_status(process.address, 1)
        assert (status.epoch, status.version, status.hot_keys) == (3, 3, 120)
        assert status.switch == "ready"
        assert status.changes[0] == (1, "the job begins")
    with controller_process(folder, socket) as process:
        assert process.event("epoch")["text"].startswith("epoch 3:")
        assert len(client.begin(0, resumed=True, timeout_s=WAIT_S).placement) == 120


def test_a_placement_survives_the_death_of_the_controller(
    folder: Path, socket: Path, client: JobIncarnations, switch: P4RuntimeServer
) -> None:
    """What was answered holds: one that could not be installed yet is, after a restart."""
    other = heat_based(np.arange(50, 170, dtype=np.uint64), LAYOUT)
    with controller_process(folder, socket) as process:
        begin(process)
        client.begin(0, resumed=False, timeout_s=WAIT_S)
        switch.stop(0.0)
        process.event("switch-down")
        assert Operator(process.address, WAIT_S).change(1, other, None).version == 2
    with P4RuntimeServer(switch.address), controller_process(folder, socket) as process:
        assert process.event("epoch")["text"].startswith("epoch 2:")
        news = await_news(client)
        if news.planned:  # told before the switch died, so that it may come first
            news = await_news(client)
        assert (news.epoch, len(news.placement)) == (2, 120)


def test_what_the_server_reports_is_in_the_status(
    folder: Path, socket: Path, client: JobIncarnations
) -> None:
    """The last report counts; a message that cannot be is refused."""
    counts = np.zeros(256, np.int64)
    counts[[100, 127]] = (40, 2)
    with controller_process(folder, socket) as process:
        begin(process)
        assert read_status(process.address, 1).standing is None
        client.report(Standing(16, 900, 3, 1e6, counts))
        client.settle()
        client.report(Standing(17, 1000, 3, 2.5e6, counts))
        client.settle()
        bad = job_pb2.ReportRequest(job=1, standing=job_pb2.Standing(exponents={256: 1}))
        with pytest.raises(BadInput, match="256"), calls(process.address) as channel:
            job_pb2_grpc.JobServiceStub(channel).Report(bad, timeout=WAIT_S)
        status = read_status(process.address, 1)
    assert status.standing is not None
    assert (status.round, status.standing.goodput_bps) == (17, 2.5e6)
    assert status.standing.exponents.tolist() == counts.tolist()
    assert 0 <= status.reported_s_ago < WAIT_S


def test_it_ends_when_asked_to(folder: Path, socket: Path) -> None:
    """SIGTERM is no failure; streams that wait do not hold it up."""
    process = start_controller(folder, socket)
    try:
        process.event("ready")
        with calls(process.address) as channel:
            watch = job_pb2_grpc.JobServiceStub(channel).Watch(job_pb2.WatchRequest(job=1))
            with pytest.raises(grpc.RpcError):
                next(watch)
        assert process.terminate() == 0
    finally:
        process.kill()


def test_state_has_one_owner(tmp_path: Path) -> None:
    """A second controller is refused; so is a file that is none."""
    path = tmp_path / "state.sqlite"
    store = Store(path)
    with pytest.raises(DamagedState, match="another controller"):
        Store(path)
    store.close()
    Store(path).close()
    path.write_text("x" * 5000)
    with pytest.raises(DamagedState, match="not a controller's state"):
        Store(path)
