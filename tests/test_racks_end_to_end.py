"""Two jobs at once in an emulated leaf-spine network, over two servers, with TLS everywhere."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.inventory import HostSpec, Inventory, LinkSpec, SwitchSpec
from controller.jobapi.channel import ControllerAddress
from controller.jobapi.operator import Operator, spec_of
from controller.tls import ClientTls
from host_stack.job import Job
from host_stack.kv.curve import JobKey
from host_stack.placement import heat_based
from mininet_topos.fabric import FabricNetwork
from mininet_topos.leaf_spine import LeafSpineTopology
from mininet_topos.processes import SupervisedProcess
from mininet_topos.tools import run_tool
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.tls import TlsFiles
from tests.certificates import Authority, needs_openssl
from tests.isolation import isolated
from workloads.training import Training

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]
WAIT_S = 240.0
PORT = 9700
ROUNDS = 60
HOT = 400
DATASET = "synthetic:examples=2000,features=600,nnz=15"
NUM_KEYS = 601
"""Of a logistic regression: one for each feature, and the bias."""
TIMEOUTS_S = {"push": 120.0, "drain": 120.0, "commit": 240.0}
TOPOLOGY = LeafSpineTopology(workers=5, servers=2, leaves=2)
STRANGER = TOPOLOGY.worker_hosts[4]


@dataclass(frozen=True)
class Asked:
    """A job: its number, server and workers by rank of the topology; it spans both leaves."""

    number: int
    workers: tuple[int, int]

    @property
    def server(self) -> str:
        """The name of its server's host."""
        return f"ps{self.number - 1}"

    def description(self, key_file: Path) -> Job:
        """What the controller is asked for."""
        server = TOPOLOGY.server_hosts[self.number - 1]
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
            scheduler=(server.ip, 9701),
            timeouts_s=TIMEOUTS_S,
            key_file=str(key_file),
        )


JOBS = (Asked(1, (0, 1)), Asked(2, (2, 3)))


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
        self.links = {host: f"10.9.{n}" for n, host in enumerate(("ps0", "ps1"))}
        pair = self._authority.issue("controller", *(f"{net}.1" for net in self.links.values()))
        self._pair = pair
        for host, net in self.links.items():
            self._manage(host, net)
        (folder / "inventory.toml").write_text(self._inventory().text())
        (folder / "access.toml").write_text(_ACCESS)

    def _manage(self, host: str, net: str) -> None:
        """Connect a server with the controller's namespace, beside the network of the job."""
        node = self.network.host(host)
        ends = ("type", "veth", "peer", "name", "mgmt", "netns", str(node.pid))
        run_tool(["ip", "link", "add", f"mg-{host}", *ends])
        run_tool(["ip", "address", "add", f"{net}.1/30", "dev", f"mg-{host}"])
        run_tool(["ip", "link", "set", f"mg-{host}", "up"])
        node.run("ip", "address", "add", f"{net}.2/30", "dev", "mgmt")
        node.run("ip", "link", "set", "mgmt", "up")

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

    def start(self, asked: Asked) -> tuple[SupervisedProcess, list[SupervisedProcess]]:
        """Create a job and start its processes; server and workers are ready."""
        folder = self.folder / f"job{asked.number}"
        folder.mkdir()
        key_file = folder / "job.key"
        JobKey.make().save(key_file)
        description = asked.description(key_file)
        keys = np.arange(HOT, dtype=np.uint64)
        placement = heat_based(keys, description.layout)
        self.operator.create(spec_of(description), placement)
        info = self.operator.wait_ready(asked.number, 1, WAIT_S)
        (folder / "job.json").write_text(info.job_file)
        Training(
            DATASET, "lr", "adagrad", 0.1, ROUNDS, 64, asked.number, ROUNDS, 0, audit=False
        ).save(folder / "training.json")
        tls = folder / "tls"
        tls.mkdir()
        pair = self._authority.issue(f"server{asked.number}")
        for name, path in (("ca", self._authority.cert), ("cert", pair.cert), ("key", pair.key)):
            shutil.copy(path, tls / f"{name}.pem")
        name = f"job{asked.number}"
        host, port = description.scheduler
        module = [sys.executable, "-m"]
        scheduler = [*module, "host_stack.kv.scheduler", "--host", host, "--port", str(port)]
        scheduler += ["--workers", "2", "--servers", "1", "--key", str(key_file)]
        scheduler += ["--start-timeout-s", str(WAIT_S)]
        start = self.network.start
        start(asked.server, scheduler, name=f"{name}-scheduler").wait_event("ready", WAIT_S)
        address = f"{self.links[asked.server]}.1:{PORT}"
        argv = [*module, "workloads.train_server", str(folder), address, "--tls", str(tls)]
        server = start(asked.server, argv, name=f"{name}-server")
        workers = [
            start(
                f"w{rank}",
                [*module, "workloads.train_worker", str(folder), str(number)],
                name=f"{name}-worker{number}",
            )
            for number, rank in enumerate(asked.workers)
        ]
        for process in (server, *workers):
            assert process.wait_event("ready", WAIT_S).fields["switch"]
        return server, workers

    def counts(self) -> dict[tuple[str, int, str], int]:
        """Packets by switch, job and reason."""
        reply = self.operator.stats()
        assert not reply.missing
        return {(each.switch, each.job, each.reason): each.packets for each in reply.counts}


_ACCESS = """schema = 1
[[client]]
name = "the operator"
role = "operator"
certificate = "operator"
[[client]]
name = "server 1"
role = "job"
jobs = [1]
certificate = "server1"
[[client]]
name = "server 2"
role = "job"
jobs = [2]
certificate = "server2"
"""


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
        try:
            yield found
        finally:
            for host in found.links:
                run_tool(["ip", "link", "delete", f"mg-{host}"])


def train(found: Racks, jobs: Sequence[Asked]) -> list[str]:
    """Run jobs to their ends, at once; the hash of each model."""
    started = [found.start(asked) for asked in jobs]
    for _, workers in started:
        for worker in workers:
            worker.go()
    return [server.wait_event("done", WAIT_S).fields["model_sha256"] for server, _ in started]


@needs_openssl
@isolated
def test_two_jobs_at_once_are_as_each_alone(tmp_path: Path) -> None:
    """While a third host forges packets, and the controller is killed and comes back."""
    alone = []
    for asked in JOBS:
        with racks(tmp_path / f"alone{asked.number}") as found:
            found.start_controller()
            alone += train(found, [asked])
    with racks(tmp_path / "both") as found:
        controller = found.start_controller()
        started = [found.start(asked) for asked in JOBS]
        files = [str(found.folder / f"job{asked.number}" / "job.json") for asked in JOBS]
        argv = [sys.executable, "-m", "tests.forger", f"{STRANGER.name}-eth0", STRANGER.ip, *files]
        forger = found.network.start(STRANGER.name, argv)
        forger.wait_event("sent", WAIT_S)
        for _, workers in started:
            for worker in workers:
                worker.go()
        for server, _ in started:
            server.wait_event("commit", WAIT_S)
        controller.kill()
        for server, _ in started:
            server.wait_event("commit", WAIT_S)
        found.start_controller()
        together = [
            server.wait_event("done", WAIT_S).fields["model_sha256"] for server, _ in started
        ]
        forger.wait_event("sent", WAIT_S)
        forger.kill()
        assert together == alone
        # A healthy switch was left alone by the controller that came back, and so was every job.
        assert [found.operator.wait_ready(each.number, 1, WAIT_S).epoch for each in JOBS] == [1, 1]
        assert all(switch.written == 0 for switch in found.operator.switches())
        counts = found.counts()
        for asked in JOBS:
            for leaf in ("leaf1", "leaf2"):
                assert counts[leaf, asked.number, "aggregated"] > 0
                assert counts[leaf, asked.number, "drained"] > 0
            assert counts["leaf1", asked.number, "foreign"] > 0
