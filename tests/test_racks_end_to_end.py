"""Two jobs at once in an emulated leaf-spine network, over two servers each, all with TLS."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.inventory import HostSpec, Inventory, LinkSpec, SwitchSpec
from controller.jobapi.channel import ControllerAddress
from controller.jobapi.operator import Operator, spec_of
from controller.jobapi.shards import (
    SCHEDULER_PORT,
    create_all,
    job_file_of,
    specs_of,
    split_placement,
)
from controller.tls import ClientTls
from host_stack.job import Job
from host_stack.kv.curve import JobKey
from host_stack.placement import heat_based
from mininet_topos.fabric import FabricNetwork
from mininet_topos.leaf_spine import LeafSpineTopology
from mininet_topos.processes import SupervisedProcess
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.tls import TlsFiles
from tests.certificates import Authority, needs_openssl
from tests.isolation import isolated
from tests.management import managed
from workloads.training import Training

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]
WAIT_S = 240.0
PORT = 9690
"""Of the controller."""
MODULE = (sys.executable, "-m")
ROUNDS = 60
HOT = 400
DATASET = "synthetic:examples=2000,features=600,nnz=15"
NUM_KEYS = 601
"""Of a logistic regression: one for each feature, and the bias."""
TIMEOUTS_S = {"push": 120.0, "drain": 120.0, "commit": 240.0}
TOPOLOGY = LeafSpineTopology(workers=5, servers=4, leaves=2)
STRANGER = TOPOLOGY.worker_hosts[4]


@dataclass(frozen=True)
class Asked:
    """A job: its number, servers and workers by rank of the topology, one of each at each leaf.

    It has a shard at each server, and these have the numbers from `number` on.
    """

    number: int
    servers: tuple[int, int]
    workers: tuple[int, int]

    @property
    def numbers(self) -> range:
        """Of its shards."""
        return range(self.number, self.number + len(self.servers))

    @property
    def addresses(self) -> list[str]:
        """Of its servers."""
        return [TOPOLOGY.server_hosts[rank].ip for rank in self.servers]

    def description(self, key_file: Path) -> Job:
        """What of its shards is alike; the rest comes with their servers."""
        server = TOPOLOGY.server_hosts[self.servers[0]]
        return Job(
            job=self.number,
            epoch=1,
            fraction_bits=36,
            num_keys=NUM_KEYS,
            layout=Artifact.load().layout,
            workers=tuple(TOPOLOGY.worker_hosts[rank].ip for rank in self.workers),
            server=server.ip,
            switch=TOPOLOGY.switch_ip,
            group=f"239.19.52.{self.number}",
            scheduler=(server.ip, SCHEDULER_PORT),
            timeouts_s=TIMEOUTS_S,
            key_file=str(key_file),
        )


JOBS = (Asked(1, (0, 1), (0, 1)), Asked(3, (2, 3), (2, 3)))


Started = list[tuple[list[SupervisedProcess], list[SupervisedProcess]]]
"""Servers and workers of jobs."""


class Racks:
    """The network with a controller, as an operator has them."""

    def __init__(
        self, network: FabricNetwork[LeafSpineTopology], folder: Path, authority: Authority
    ) -> None:
        self.network = network
        self.folder = folder
        self._authority = authority
        pair = self._authority.issue("operator")
        tls = ClientTls(self._authority.cert, pair.cert, pair.key)
        self.operator = Operator(ControllerAddress(f"127.0.0.1:{PORT}", tls), WAIT_S)
        hosts = [host.name for host in TOPOLOGY.server_hosts]
        self.links = {host: f"10.9.{n}" for n, host in enumerate(hosts)}
        pair = self._authority.issue("controller", *(f"{net}.1" for net in self.links.values()))
        self._pair = pair
        (folder / "inventory.toml").write_text(self._inventory().text())
        (folder / "access.toml").write_text(access_text())

    def _inventory(self) -> Inventory:
        pair = self._authority.issue("fabric-controller")
        tls = ClientTls(self._authority.cert, pair.cert, pair.key)
        return Inventory(
            tuple(
                SwitchSpec(site.name, site.grpc_address, site.ip, site.mac, site.device_id, tls=tls)
                for site in TOPOLOGY.switches
            ),
            tuple(
                HostSpec(host.name, host.ip, host.mac, host.switch, host.port)
                for host in TOPOLOGY.hosts
            ),
            tuple(
                LinkSpec((f"{one[0]}:{one[1]}", f"{other[0]}:{other[1]}"))
                for one, other in (trunk.ends for trunk in TOPOLOGY.trunks)
            ),
        )

    def start_controller(self) -> SupervisedProcess:
        """A controller over mutual TLS, with all switches ready."""
        argv = [
            *(sys.executable, "-m", "controller.cli", "controller"),
            *(str(self.folder / "inventory.toml"), "--state", str(self.folder / "state.sqlite")),
            *("--listen", f"0.0.0.0:{PORT}", "--json", "--tls-cert", str(self._pair.cert)),
            *("--tls-key", str(self._pair.key), "--client-ca", str(self._authority.cert)),
            *("--access", str(self.folder / "access.toml")),
        ]
        process = self.network.processes.start("controller", argv)
        for _ in TOPOLOGY.switches:
            process.wait_event("switch-ready", WAIT_S)
        return process

    def start(self, asked: Asked) -> tuple[list[SupervisedProcess], list[SupervisedProcess]]:
        """Create a job and start its processes; servers and workers are ready."""
        folder = self.folder / f"job{asked.number}"
        folder.mkdir()
        key_file = folder / "job.key"
        JobKey.make().save(key_file)
        description = asked.description(key_file)
        keys = np.arange(HOT, dtype=np.uint64)
        placement = heat_based(keys, description.layout)
        specs = specs_of(spec_of(description), asked.addresses)
        hot = split_placement(placement, [each.num_keys for each in specs])
        infos = create_all(self.operator, specs, hot, self._installed)
        job_file_of(infos).save(folder / "job.json")
        Training(
            DATASET, "lr", "adagrad", 0.1, ROUNDS, 64, asked.number, ROUNDS, 0, audit=False
        ).save(folder / "training.json")
        servers = [
            self._start_server(asked, shard, folder, key_file)
            for shard in range(len(asked.servers))
        ]
        workers = [
            self.network.start(
                f"w{rank}",
                [*MODULE, "workloads.train_worker", str(folder), str(number)],
                name=f"job{asked.number}-worker{number}",
            )
            for number, rank in enumerate(asked.workers)
        ]
        for process in (*servers, *workers):
            assert process.wait_event("ready", WAIT_S).fields["switch"]
        return servers, workers

    def _installed(self, info: Any) -> Any:
        return self.operator.wait_ready(info.spec.job, 1, WAIT_S)

    def _start_server(
        self, asked: Asked, shard: int, folder: Path, key_file: Path
    ) -> SupervisedProcess:
        """The server of a shard, with the scheduler beside it and a certificate of its own."""
        name = f"server{asked.numbers[shard]}"
        tls = folder / f"tls{shard}"
        tls.mkdir()
        pair = self._authority.issue(name)
        for file, path in (("ca", self._authority.cert), ("cert", pair.cert), ("key", pair.key)):
            shutil.copy(path, tls / f"{file}.pem")
        start, host = self.network.start, f"ps{asked.servers[shard]}"
        scheduler = [*MODULE, "host_stack.kv.scheduler", "--host", asked.addresses[shard]]
        scheduler += ["--port", str(SCHEDULER_PORT), "--workers", "2", "--servers", "1"]
        scheduler += ["--key", str(key_file), "--start-timeout-s", str(WAIT_S)]
        start(host, scheduler, name=f"{name}-scheduler").wait_event("ready", WAIT_S)
        argv = [*MODULE, "workloads.train_server", str(folder), f"{self.links[host]}.1:{PORT}"]
        return start(host, [*argv, "--tls", str(tls), "--shard", str(shard)], name=name)

    def counts(self) -> dict[tuple[str, int, str], int]:
        """Packets by switch, job and reason."""
        reply = self.operator.stats()
        assert not reply.missing
        return {(each.switch, each.job, each.reason): each.packets for each in reply.counts}


def access_text() -> str:
    """The operator, and the server of each shard, which speaks for this one alone."""
    text = (
        'schema = 1\n[[client]]\nname = "operator"\nrole = "operator"\ncertificate = "operator"\n'
    )
    for number in (number for asked in JOBS for number in asked.numbers):
        text += f'[[client]]\nname = "server {number}"\nrole = "job"\njobs = [{number}]\n'
        text += f'certificate = "server{number}"\n'
    return text


@contextmanager
def racks(folder: Path) -> Iterator[Racks]:
    """The network, its switches under mutual TLS, and no controller yet."""
    folder.mkdir()
    DataPlane.load(Artifact.load().device_config).close()  # compiled before a client waits
    authority = Authority(folder)
    pair = authority.issue("switch")
    tls = TlsFiles(pair.cert, pair.key, authority.cert)
    with FabricNetwork(TOPOLOGY, folder, tls=tls) as network:
        found = Racks(network, folder, authority)
        with managed(network, found.links):
            yield found


def go(started: Started) -> None:
    """Let the workers of jobs begin."""
    for _, workers in started:
        for worker in workers:
            worker.go()


def hashes(started: Started) -> list[list[str]]:
    """Wait until jobs are trained; the hashes of their models, by shard."""
    return [
        [server.wait_event("done", WAIT_S).fields["model_sha256"] for server in servers]
        for servers, _ in started
    ]


@needs_openssl
@isolated
def test_two_jobs_at_once_are_as_each_alone(tmp_path: Path) -> None:
    """While a third host forges packets, and the controller is killed and comes back."""
    alone = []
    for asked in JOBS:
        with racks(tmp_path / f"alone{asked.number}") as found:
            found.start_controller()
            started = [found.start(asked)]
            go(started)
            alone += hashes(started)
    with racks(tmp_path / "both") as found:
        controller = found.start_controller()
        started = [found.start(asked) for asked in JOBS]
        files = [str(found.folder / f"job{asked.number}" / "job.json") for asked in JOBS]
        argv = [sys.executable, "-m", "tests.forger", f"{STRANGER.name}-eth0", STRANGER.ip, *files]
        forger = found.network.start(STRANGER.name, argv)
        forger.wait_event("sent", WAIT_S)
        go(started)
        all_servers = [server for servers, _ in started for server in servers]
        for server in all_servers:
            server.wait_event("commit", WAIT_S)
        controller.kill()
        for server in all_servers:
            server.wait_event("commit", WAIT_S)
        found.start_controller()
        together = hashes(started)
        forger.wait_event("sent", WAIT_S)
        forger.kill()
        assert together == alone
        # A healthy switch was left alone by the controller that came back, and so was every job.
        numbers = [number for asked in JOBS for number in asked.numbers]
        epochs = [found.operator.wait_ready(number, 1, WAIT_S).epoch for number in numbers]
        assert epochs == [1] * len(numbers)
        assert all(switch.written == 0 for switch in found.operator.switches())
        counts = found.counts()
        for number in numbers:
            for leaf in ("leaf1", "leaf2"):
                assert counts[leaf, number, "aggregated"] > 0
                assert counts[leaf, number, "drained"] > 0
            assert counts["leaf1", number, "foreign"] > 0
