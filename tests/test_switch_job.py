"""Whole jobs through the embedded switch, in memory, on a network with faults."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from controller.artifacts import Artifact, program_with
from controller.counters import read_reasons
from controller.provision import ProvisionFailed, connected, provision_job, provision_network
from controller.tables import Attachment, Forward, Local
from controller.targets import find_target
from host_stack.job import Job
from host_stack.layout import TAG_ROUNDS
from host_stack.placement import Placement
from host_stack.wire import DrainFormat, Op
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.server import P4RuntimeServer
from tests.hot_kv_job import KVJob, alternating
from tests.job_in_memory import (
    GROUP,
    LAYOUT,
    SERVER,
    SWITCH,
    MemoryJob,
    Outcome,
    addresses,
    membership_of,
    ports,
    random_pushes,
    run_job,
    two_cells,
)
from tests.memory_network import Faults, MemoryNetwork
from tests.test_job import NUM_KEYS, F, expected

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]

WORKERS = 3
HOT = 1000
SLOT = 1
ATTEMPTS = 5


def attachment(address: str) -> Attachment:
    """The host of an address; its MAC plays no part in memory."""
    return Attachment(address, "02:00:00:00:00:01", ports(WORKERS)[address])


@cache
def compiled(lanes: int) -> Artifact:
    """The program, compiled: a client does not wait for that as long as a slow machine needs."""
    artifact = Artifact.load(program_with(lanes))
    DataPlane.load(artifact.device_config).close()
    return artifact


async def provision(address: str, job: Job) -> None:
    """Install network and job as the controller does: again, where a busy switch is too slow."""
    artifact = compiled(job.layout.lanes)
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            return await _provision(address, job, artifact)
        except ProvisionFailed:
            if not attempts_left:
                raise


async def _provision(address: str, job: Job, artifact: Artifact) -> None:
    async with connected(address, find_target("soft"), artifact, fresh=True) as switch:
        hosts = [attachment(host) for host in ports(WORKERS)]
        await provision_network(switch, Forward("02:00:00:00:00:fe", hosts), Local(SWITCH))
        membership = membership_of(job, SLOT, attachment)
        await provision_job(switch, membership, artifact)


async def enter(address: str, job: Job) -> None:
    """Put a job into another epoch; registers stay."""
    artifact = compiled(job.layout.lanes)
    async with connected(address, find_target("soft"), artifact, fresh=False) as switch:
        await switch.modify([membership_of(job, SLOT, attachment).job_entry()])


async def reasons(address: str) -> dict[str, int]:
    """The counters by reason."""
    async with connected(address, find_target("soft"), Artifact.load(), fresh=False) as switch:
        return await read_reasons(switch, SLOT)


@contextmanager
def switch_server() -> Iterator[P4RuntimeServer]:
    """An embedded switch without ports."""
    compiled(LAYOUT.lanes)
    with P4RuntimeServer("127.0.0.1:0") as server:
        yield server


@contextmanager
def embedded_network(
    faults: Faults | None,
) -> Iterator[tuple[P4RuntimeServer, Callable[[Job, Placement], MemoryNetwork]]]:
    """A switch, and what makes a network around it once the job is known."""
    with switch_server() as server:

        def make(job: Job, _placement: Placement) -> MemoryNetwork:
            asyncio.run(provision(server.address, job))
            return MemoryNetwork(
                ports(WORKERS), GROUP, addresses(WORKERS), server.dataplane, faults
            )

        yield server, make


class SwitchThatDies:
    """The embedded switch of a job in memory: set up again, empty, for every epoch."""

    def __init__(self, server: P4RuntimeServer) -> None:
        self._server = server
        self.network: MemoryNetwork | None = None

    def network_of(self, job: Job, _placement: Placement) -> MemoryNetwork:
        """A network around the switch as it is for the first epoch."""
        asyncio.run(provision(self._server.address, job))
        self.network = MemoryNetwork(
            ports(WORKERS), GROUP, addresses(WORKERS), self._server.dataplane
        )
        return self.network

    def install(self, job: Job) -> None:
        """Load the program anew, which empties the switch, and bring it back to life."""
        assert self.network is not None
        asyncio.run(provision(self._server.address, job))
        self.network.dataplane = self._server.dataplane
        self.network.is_dead = False


def run(faults: Faults | None, wild: float = 0.0) -> tuple[Outcome, np.ndarray, dict[str, int]]:
    """Run a job; return its outcome, the model it should have, and the switch's counters.

    Half of its hot keys own two cells.
    """
    pushes = random_pushes(WORKERS, 4, NUM_KEYS, 900, seed=5, wild=wild)
    with embedded_network(faults) as (server, make):
        outcome = run_job(pushes, NUM_KEYS, HOT, make, F, two_cells)
        counts = asyncio.run(reasons(server.address))
    return outcome, expected(pushes), counts


def test_sums_of_the_switch_are_the_servers() -> None:
    """Without faults all hot packets are aggregated, and the model is the reference's."""
    outcome, model, counts = run(None)
    assert outcome.parameters.tobytes() == model.tobytes()
    pushed = sum(times.packets for worker in outcome.times for times in worker)
    assert counts["aggregated"] == pushed
    assert "fallback_added" not in outcome.counters
    for replica in outcome.replicas:
        assert replica.tobytes() == model[:HOT].tobytes()


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(Faults(loss=0.05, seed=11), id="loss"),
        pytest.param(Faults(duplication=0.2, seed=12), id="duplication"),
        pytest.param(Faults(reordering=0.1, seed=13), id="reordering"),
        pytest.param(Faults(loss=0.1, duplication=0.1, reordering=0.1, seed=16), id="all"),
    ],
)
def test_faults_keep_the_bits(faults: Faults) -> None:
    """Loss, duplication and reordering anywhere change no bit of the model."""
    outcome, model, counts = run(faults)
    assert outcome.parameters.tobytes() == model.tobytes()
    if faults.duplication:
        assert counts["duplicate"] > 0
    if faults.loss:
        assert outcome.retransmissions > 0
        assert sum(times.fetched_rows for worker in outcome.times for times in worker) > 0


def test_escapes_and_sums_meet_in_one_row() -> None:
    """Packets with escaping gradients go to the server, the others of their rows are drained."""
    outcome, model, counts = run(Faults(loss=0.02, seed=15), wild=0.01)
    assert outcome.parameters.tobytes() == model.tobytes()
    assert counts["escaped"] > 0
    assert counts["aggregated"] > 0
    assert outcome.counters["fallback_added"] > 0


@pytest.mark.parametrize("datagrams", [1, 40, 75, 110, 150, 170])
def test_the_switch_dies(datagrams: int) -> None:
    """A switch that dies anywhere in a round loses its sums, and the model keeps its bits."""
    pushes = random_pushes(WORKERS, 3, NUM_KEYS, 900, seed=6)
    with switch_server() as server:
        switch = SwitchThatDies(server)
        job = MemoryJob(pushes, NUM_KEYS, HOT, switch.network_of, F, install=switch.install)
        job.network.dies_after = datagrams
        outcome = job.run()
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    assert job.controller.reasons
    assert job.commits[-1].epoch > 1


def test_switch_server_and_worker_die() -> None:
    """Three deaths at once."""
    pushes = random_pushes(WORKERS, 4, NUM_KEYS, 900, seed=7)
    with switch_server() as server:
        switch = SwitchThatDies(server)
        job = MemoryJob(pushes, NUM_KEYS, HOT, switch.network_of, F, install=switch.install)
        job.network.dies_after = 150
        job.crash(SERVER, 12)
        job.crash(addresses(WORKERS)[0], 12)
        outcome = job.run()
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    assert sum(outcome.crashes.values()) == 2


def test_an_epoch_ends_before_its_tags_do() -> None:
    """The switch goes on in another epoch, with what it holds of the one before."""
    pushes = random_pushes(WORKERS, 5, NUM_KEYS, 900, seed=8)
    faults = Faults(loss=0.05, duplication=0.05, reordering=0.05, seed=19)
    with embedded_network(faults) as (server, make):
        job = MemoryJob(
            pushes,
            NUM_KEYS,
            HOT,
            make,
            F,
            place=two_cells,
            install=lambda job: asyncio.run(enter(server.address, job)),
        )
        job.begin_at(TAG_ROUNDS - 2)
        outcome = job.run()
        counts = asyncio.run(reasons(server.address))
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    assert [commit.epoch for commit in job.commits] == [1, 1, 2, 2, 2]
    assert job.controller.reasons == ["its tags are used up"]
    assert counts["aggregated"] > 0
    assert "fallback_added" not in outcome.counters


class DigitsOnly:
    """The embedded switch, deaf to requests for float32 as a switch that cannot round is."""

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane
        self.drains = 0

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Run a packet to its end, unless it asks for float32 or second cells."""
        if packet[42] & 0xF == Op.DRAIN:
            if packet[62] != DrainFormat.DIGITS or packet[54:58] != bytes(4):
                return []
            self.drains += 1
        return self._dataplane.inject(port, packet)


@pytest.mark.parametrize("lanes", [16, 32])
def test_a_switch_that_answers_digits_alone(lanes: int) -> None:
    """The job says so, the server asks for digits, and the model keeps its bits."""
    pushes = random_pushes(WORKERS, 3, NUM_KEYS, 900, seed=6)
    with switch_server() as server:

        def make(job: Job, _placement: Placement) -> MemoryNetwork:
            asyncio.run(provision(server.address, job))
            assert server.dataplane is not None
            switch = DigitsOnly(server.dataplane)
            return MemoryNetwork(ports(WORKERS), GROUP, addresses(WORKERS), switch)

        layout = replace(LAYOUT, lanes=lanes)
        job = MemoryJob(pushes, NUM_KEYS, HOT, make, F, place=two_cells, layout=layout)
        job.job = replace(job.job, drain_digits=True)
        outcome = job.run()
        assert job.network.dataplane.drains > 0
    assert outcome.parameters.tobytes() == expected(pushes).tobytes()
    assert outcome.counters["drained_rows"] > 0


def test_hot_keys_of_kv_workers_are_summed_in_the_switch() -> None:
    """Two programs of `KVWorker`, and one that speaks ps-lite alone; every push counts once."""
    with embedded_network(Faults(loss=0.02, seed=18)) as (server, make):
        job = KVJob([alternating, None, alternating], 30, network_of=make)
        job.run()
        counts = asyncio.run(reasons(server.address))
    wanted = np.zeros(60)
    wanted[[0, 1, 5, 40]] += 2 * 5 + 21
    wanted[[1, 2, 40, 59]] += 2 * 5
    assert job.outcome.parameters.tolist() == wanted.tolist()
    assert counts["aggregated"] > 0
    assert "fallback_added" not in job.outcome.counters
