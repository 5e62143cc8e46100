"""Jobs in racks: one controller, leaves and a spine, several jobs and servers at once."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.daemon.controller import Ask, Controller
from controller.daemon.job_keeper import Request
from controller.daemon.job_record import JobRecord, Placed
from controller.daemon.store import Store
from controller.jobapi.channel import ControllerAddress
from controller.jobapi.client import JobIncarnations
from controller.jobapi.operator import Operator, spec_of
from controller.placing.blocks import Block
from controller.tls import ClientTls
from host_stack.codec import DRAIN, Codec, fill_header
from host_stack.incarnation import Incarnation
from host_stack.job import Job
from host_stack.kv.curve import JobKey
from host_stack.layout import SERVER_RANK, make_tag
from host_stack.placement import Placement
from host_stack.standing import Standing
from host_stack.wire import Op
from tests.certificates import Authority, needs_openssl
from tests.controller_process import (
    WAIT_S,
    ControllerProcess,
    controller_process,
    free_port,
    guarded_controller,
    socket_path,
)
from tests.fabric import UPLINK, Fabric, fabric, leaf_spine
from tests.job_in_memory import MemoryJob, random_pushes, two_cells
from tests.memory_network import MemoryNetwork, frame
from tests.test_job import NUM_KEYS, F, expected

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]
HOT = 500
ROUNDS = 3
PATIENT_S = {"push": 120.0, "drain": 120.0, "commit": 240.0}
"""A switch that was lost has to be set up by a busy machine."""
LAYOUT = Artifact.load().layout


class OfDaemon:
    """The incarnations of a job from a real controller, as `MemoryJob` uses them."""

    def __init__(self, client: JobIncarnations) -> None:
        self.incarnation: Incarnation = client.begin(0, resumed=False, timeout_s=WAIT_S)
        self._client = client

    def fileno(self) -> int:
        """As the client's."""
        return self._client.fileno()

    def news(self) -> Incarnation | None:
        """As the client's."""
        return self._client.news()

    def renew(self, reason: str, seen: Incarnation, round_: int) -> None:
        """As the client's."""
        self._client.renew(reason, seen, round_)

    def suspect(self, reason: str, seen: Incarnation, round_: int) -> None:
        """As the client's."""
        self._client.suspect(reason, seen, round_)

    def report(self, standing: Standing) -> None:
        """As the client's."""
        self._client.report(standing)


class SharedDataPlane:
    """One fabric for the threads of several jobs."""

    def __init__(self, fabric_: Fabric) -> None:
        self._fabric = fabric_
        self._lock = threading.Lock()
        self.before: Callable[[], None] = lambda: None

    def inject(self, port: int, raw: bytes) -> list[tuple[int, bytes]]:
        """As the fabric's, one frame at a time."""
        with self._lock:
            self.before()
            return self._fabric.inject(port, raw)


@contextmanager
def controlled(fabric_: Fabric, folder: Path) -> Iterator[ControllerProcess]:
    """A controller of the fabric, ready."""
    (folder / "inventory.toml").write_text(fabric_.inventory.text())
    with socket_path() as socket, controller_process(folder, socket) as process:
        for _ in fabric_.inventory.switches:
            process.event("switch-ready")
        yield process


def access_file(folder: Path) -> Path:
    """An operator, and the server of each of two jobs."""
    clients = '[[client]]\nname = "the operator"\nrole = "operator"\ncertificate = "operator"\n'
    for job in (1, 2):
        clients += f'[[client]]\nname = "server {job}"\nrole = "job"\njobs = [{job}]\n'
        clients += f'certificate = "server{job}"\n'
    path = folder / "access.toml"
    path.write_text("schema = 1\n" + clients)
    return path


def hosted(number: int, server: str, workers: list[str]) -> Callable[[Job], Job]:
    """Gives a job its number, group and hosts."""

    def at(job: Job) -> Job:
        return replace(
            job,
            job=number,
            layout=LAYOUT,
            server=server,
            workers=tuple(workers),
            switch="127.0.9.1",
            group=f"239.1.1.{number}",
            scheduler=(server, job.scheduler[1]),
            timeouts_s=PATIENT_S,
        )

    return at


class RackJob:
    """A job in a fabric: created at the controller, run in threads."""

    def __init__(
        self,
        number: int,
        server: str,
        workers: list[str],
        fabric_: Fabric,
        plane: SharedDataPlane,
        process: ControllerProcess,
        seed: int,
        key_file: Path | None = None,
        server_address: ControllerAddress | None = None,
    ) -> None:
        """With `key_file` its cold path is encrypted; `server_address` is what its server calls."""
        key = None
        if key_file is not None:
            key = JobKey.make()
            key.save(key_file)
        self.pushes = random_pushes(len(workers), ROUNDS, NUM_KEYS, 300, seed=seed)
        operator = Operator(process.address, WAIT_S)
        leaf = fabric_.inventory.host_at(server).switch
        switch = fabric_.inventory.switch(leaf).ip

        def network_of(job: Job, placement: Placement) -> MemoryNetwork:
            operator.create(spec_of(job), placement)
            operator.wait_ready(job.job, 1, WAIT_S)
            return MemoryNetwork(fabric_.ports, job.group, list(job.workers), plane)

        at = hosted(number, server, workers)
        self.memory = MemoryJob(
            self.pushes,
            NUM_KEYS,
            HOT,
            network_of,
            F,
            at=lambda job: replace(at(job), switch=switch, key_file=str(key_file or "")),
            server=server,
            key=key,
            place=two_cells,
        )
        self._client = JobIncarnations(server_address or process.address, number)
        self.memory.controller = OfDaemon(self._client)  # type: ignore[assignment]

    def run(self) -> bytes:
        """The bytes of the trained model."""
        try:
            return self.memory.run(240.0).parameters.tobytes()
        finally:
            self._client.close()


def forged(fabric_: Fabric, stranger: str, victim: RackJob) -> list[tuple[int, bytes]]:
    """Frames of a host outside of the job: each would harm it if it were believed."""
    job = victim.memory.job
    port = fabric_.ports[stranger]
    codec = Codec(job.layout)
    grad = np.zeros(1, codec.grad)
    fill_header(grad["header"], Op.GRAD, job=job.job, worker=0, tag=make_tag(1, 0))
    grad["header"]["seq"] = 1 << 30
    grad["used"], grad["lane"]["grad"] = (1 << 32) - 1, 1.0
    drain = np.zeros(1, DRAIN)
    fill_header(drain["header"], Op.DRAIN, job=job.job, worker=SERVER_RANK, tag=make_tag(1, 0))
    drain["rows"] = 1
    update = np.zeros(1, codec.update)
    fill_header(update["header"], Op.UPDATE, job=job.job, worker=SERVER_RANK, tag=make_tag(1, 9))
    return [
        (port, frame(source, destination, payload.tobytes()))
        for source in (stranger, job.workers[0], job.server)
        for destination, payload in ((job.server, grad), (job.switch, drain), (job.group, update))
    ]


@needs_openssl
def test_two_jobs_train_at_once_in_two_racks(tmp_path: Path) -> None:
    """Two servers, TLS everywhere, forged packets, a controller that dies and comes back.

    Each model is that of the job alone, bit for bit, and nothing is lost.
    """
    leaves = {
        "leaf0": ["127.0.11.1", "127.0.11.2", "127.0.11.3", "127.0.11.4"],
        "leaf1": ["127.0.12.1", "127.0.12.2", "127.0.12.3", "127.0.12.9"],
    }
    stranger = "127.0.12.9"
    authority, access, port = Authority(tmp_path), access_file(tmp_path), free_port()
    with fabric(leaf_spine(leaves), authority) as found, ExitStack() as stack:
        (tmp_path / "inventory.toml").write_text(found.inventory.text())
        plane = SharedDataPlane(found)
        process = stack.enter_context(guarded_controller(tmp_path, port, authority, access))
        for _ in leaves:
            process.event("switch-ready")

        def job(number: int, server: str, workers: list[str]) -> RackJob:
            pair = authority.issue(f"server{number}")
            tls = ClientTls(authority.cert, pair.cert, pair.key)
            address = ControllerAddress(f"localhost:{port}", tls)
            key_file = tmp_path / f"job{number}.key"
            return RackJob(
                number, server, workers, found, plane, process, 20 + number, key_file, address
            )

        jobs = [
            job(1, "127.0.11.1", ["127.0.11.2", "127.0.12.2"]),
            job(2, "127.0.12.1", ["127.0.11.3", "127.0.12.3"]),
        ]
        attacks = [each for victim in jobs for each in forged(found, stranger, victim)]
        passed = []

        def attack() -> None:
            passed.append(None)
            if len(passed) % 20 == 5:
                for at, raw in attacks:
                    found.inject(at, raw)
            if len(passed) == 60:
                process.kill()

        plane.before = attack
        with ThreadPoolExecutor(2) as pool:
            models = list(pool.map(RackJob.run, jobs))
        plane.before = lambda: None
        for trained, model in zip(jobs, models, strict=True):
            assert model == expected(trained.pushes).tobytes()
        again = stack.enter_context(guarded_controller(tmp_path, port, authority, access))
        operator = Operator(again.address, WAIT_S)
        assert [operator.wait_ready(number, 1, WAIT_S).epoch for number in (1, 2)] == [1, 1]
        assert all(switch.written == 0 for switch in operator.switches())
        counts = {(each.switch, each.job, each.reason) for each in operator.stats().counts}
        # Each leaf sums for its own workers of both jobs; what forged packets reach is refused.
        for leaf in ("leaf0", "leaf1"):
            assert {(leaf, number, "aggregated") for number in (1, 2)} <= counts
            assert {(leaf, number, "drained") for number in (1, 2)} <= counts
        assert {("leaf0", 1, "foreign"), ("leaf1", 2, "foreign")} <= counts
        assert not any(switch == "spine0" and job for switch, job, _ in counts)


class Measured(NamedTuple):
    """Bytes of a job with one server: in at the server, up from the leaves, and rows drained."""

    server: int
    up: int
    counters: dict[str, int]


def measured(leaves: dict[str, list[str]], tmp_path: Path) -> Measured:
    """Train a job with every host but the first as a worker; what it trained is right."""
    server, *_ = leaves["leaf0"]
    workers = [host for hosts in leaves.values() for host in hosts if host != server]
    tmp_path.mkdir()
    with fabric(leaf_spine(leaves)) as found, controlled(found, tmp_path) as process:
        plane = SharedDataPlane(found)
        job = RackJob(1, server, sorted(workers), found, plane, process, seed=31)
        assert job.run() == expected(job.pushes).tobytes()
        up = sum(found.link_bytes.get((leaf, UPLINK), 0) for leaf in leaves if leaf != "leaf0")
        return Measured(found.link_bytes["leaf0", 1], up, job.memory.outcome.counters)


def test_the_server_link_does_not_see_racks(tmp_path: Path) -> None:
    """Leaves add up in flight: the server's link carries each row once, whatever the racks."""
    one = {"leaf0": ["127.0.13.1", *(f"127.0.13.{n}" for n in range(2, 6))]}
    three = {
        "leaf0": ["127.0.13.1", "127.0.13.2"],
        "leaf1": ["127.0.13.3", "127.0.13.4"],
        "leaf2": ["127.0.13.5"],
    }
    few, many = measured(one, tmp_path / "one"), measured(three, tmp_path / "three")
    assert few.up == 0
    assert few.counters["drained_rows"] == many.counters["drained_rows"] > 0
    # What is asked or sent again on a busy machine is little beside the sums.
    assert many.server == pytest.approx(few.server, rel=0.1)


def test_uplinks_do_not_see_workers(tmp_path: Path) -> None:
    """A leaf sums for its workers: of eight in a rack no more goes up than of one."""

    def rack(workers: int) -> dict[str, list[str]]:
        away = [f"127.0.14.{n}" for n in range(3, 3 + workers)]
        return {"leaf0": ["127.0.14.1", "127.0.14.2"], "leaf1": away}

    one, eight = measured(rack(1), tmp_path / "one"), measured(rack(8), tmp_path / "eight")
    # More workers touch more rows; of a row the same bytes go up.
    rows = eight.counters["drained_rows"] / one.counters["drained_rows"]
    assert rows < 2
    assert eight.up < 1.2 * rows * one.up


def test_a_leaf_that_forgets_takes_the_job_to_another_epoch(tmp_path: Path) -> None:
    """Its sums are lost, so the round is pushed again on all leaves; the model keeps its bits."""
    leaves = {
        "leaf0": ["127.0.15.1", "127.0.15.2"],
        "leaf1": ["127.0.15.3", "127.0.15.4"],
        "leaf2": ["127.0.15.5"],
    }
    with fabric(leaf_spine(leaves, spines=2)) as found, controlled(found, tmp_path) as process:
        plane = SharedDataPlane(found)
        workers = [*leaves["leaf0"][1:], *leaves["leaf1"], *leaves["leaf2"]]
        job = RackJob(1, "127.0.15.1", workers, found, plane, process, seed=33)
        operator = Operator(process.address, WAIT_S)
        before = operator.describe(1)
        assert [seat.switch for seat in before.chain] == ["leaf1", "leaf2"]
        assert job.memory.controller.incarnation.chain == ("127.0.9.2", "127.0.9.3")
        passed = []

        def forget() -> None:
            passed.append(None)
            if len(passed) == 70:
                found.restart("leaf1")

        plane.before = forget
        assert job.run() == expected(job.pushes).tobytes()
        after = operator.wait_ready(1, 1, WAIT_S)
        assert after.epoch > before.epoch
        assert after.state == before.state


def test_a_leaf_that_is_down_brings_no_other_one_under_suspicion(tmp_path: Path) -> None:
    """A drain that is not answered is explained by it; only without it are all looked at."""
    leaves = {"leaf0": ["127.0.17.1", "127.0.17.2"], "leaf1": ["127.0.17.3"]}
    store = Store(tmp_path / "state.sqlite")
    controller = Controller(leaf_spine(leaves), store)
    try:
        record = JobRecord(
            job=1, fraction_bits=F, num_keys=NUM_KEYS, workers=("127.0.17.2", "127.0.17.3"),
            server="127.0.17.1", group="239.1.1.1", scheduler=("127.0.17.1", 9700), switch="",
            placed=Placed.JOB, slot=0, block=Block(0, 1), group_id=0,
        )  # fmt: skip
        job = controller.create(Ask(record, 64, None))
        job.take("the job begins")
        for name in leaves:
            controller.switches[name]._mark_ready()
            job.settle(name)
        asked = Request(1, 0, "it does not answer a drain")
        controller.switches["leaf1"]._mark_down("gone")
        job.suspect(asked)
        assert not job.suspicions
        controller.switches["leaf1"]._mark_ready()
        job.suspect(asked)
        assert set(job.suspicions) == set(leaves)
    finally:
        store.close()


def test_workers_may_move_to_other_racks(tmp_path: Path) -> None:
    """Seats are given where workers hang, kept while they do, and free afterwards."""
    leaves = {f"leaf{n}": [f"127.0.16.{10 * n + h}" for h in range(1, 4)] for n in range(3)}
    store = Store(tmp_path / "state.sqlite")
    controller = Controller(leaf_spine(leaves), store)
    try:
        record = JobRecord(
            job=1, fraction_bits=F, num_keys=NUM_KEYS, workers=(), server="127.0.16.1",
            group="239.1.1.1", scheduler=("127.0.16.1", 9700), switch="", placed=Placed.JOB,
            slot=0, block=Block(0, 1), group_id=0,
        )  # fmt: skip
        job = controller.create(Ask(record, 64, None))
        other = controller.create(
            Ask(replace(record, job=2, group="239.1.1.2", workers=("127.0.16.12",)), 128, None)
        )
        assert other.needed == {"leaf0", "leaf1"}
        assert job.needed == {"leaf0"}
        controller.declare(1, ("127.0.16.2", "127.0.16.11"))
        (seat,) = job.record.chain
        assert (seat.switch, seat.slot, seat.block) == ("leaf1", 2, Block(128, 64))
        assert controller.rows_of("leaf1").free_rows == LAYOUT.rows - 128 - 64
        controller.declare(1, ("127.0.16.11", "127.0.16.21"))
        assert [each.switch for each in job.record.chain] == ["leaf1", "leaf2"]
        assert job.record.chain[0] == seat
        job.take("the job begins")
        for name in ("leaf0", "leaf1"):
            job.settle(name)
        assert job.current is None
        job.settle("leaf2")
        assert job.current is not None
        assert job.current.chain == ("127.0.9.2", "127.0.9.3")
        controller.declare(1, ("127.0.16.2",))
        assert job.record.chain == ()
        assert controller.rows_of("leaf2").free_rows == LAYOUT.rows
        # What leaf1 has seen of the job is remembered for whoever comes next.
        assert store.spent_epoch(seat) == 1
        again, _ = store.jobs()[0]
        assert again == job.record
    finally:
        store.close()
