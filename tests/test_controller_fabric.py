"""Jobs in racks: one controller, leaves and a spine, several jobs and servers at once."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.jobapi.channel import ControllerAddress
from controller.jobapi.client import JobIncarnations
from controller.jobapi.operator import Operator, spec_of
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
from tests.fabric import Fabric, fabric, leaf_spine
from tests.job_in_memory import MemoryJob, random_pushes
from tests.memory_network import MemoryNetwork, frame
from tests.test_job import NUM_KEYS, F, expected

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]
HOT = 500
ROUNDS = 3
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
        assert {("leaf0", 1, "aggregated"), ("leaf1", 2, "aggregated")} <= counts
        assert {("leaf0", 1, "foreign"), ("leaf1", 2, "foreign")} <= counts
        assert ("leaf0", 2, "aggregated") not in counts


def server_bytes(leaves: dict[str, list[str]], tmp_path: Path) -> int:
    """Bytes that reach the server of a job with four workers, and what they trained is right."""
    server, *_ = leaves["leaf0"]
    workers = [host for hosts in leaves.values() for host in hosts if host != server]
    tmp_path.mkdir()
    with fabric(leaf_spine(leaves)) as found, controlled(found, tmp_path) as process:
        plane = SharedDataPlane(found)
        job = RackJob(1, server, sorted(workers), found, plane, process, seed=31)
        assert job.run() == expected(job.pushes).tobytes()
        return found.link_bytes["leaf0", 1]


def test_the_server_link_does_not_see_racks(tmp_path: Path) -> None:
    """All gradients for a server meet at its leaf: its link carries sums, whatever the racks."""
    one = {"leaf0": ["127.0.13.1", *(f"127.0.13.{n}" for n in range(2, 6))]}
    three = {
        "leaf0": ["127.0.13.1", "127.0.13.2"],
        "leaf1": ["127.0.13.3", "127.0.13.4"],
        "leaf2": ["127.0.13.5"],
    }
    # What is asked or sent again on a busy machine is little beside the sums.
    assert server_bytes(three, tmp_path / "three") == pytest.approx(
        server_bytes(one, tmp_path / "one"), rel=0.1
    )
