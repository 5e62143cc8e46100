"""`rack.sh` with a controller that asks for mutual TLS, in namespaces of the test's own.

Each host of the rack has one, and so has the machine that the launcher runs on, with the switch and
its controller; a stand-in for ssh enters that of a host.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from controller.artifacts import Artifact  # noqa: E402
from controller.inventory import HostSpec, Inventory, SwitchSpec  # noqa: E402
from controller.jobapi.channel import ControllerAddress  # noqa: E402
from controller.jobapi.control_pb2 import JobSpec  # noqa: E402
from controller.jobapi.operator import PLACED, Operator  # noqa: E402
from controller.jobapi.shards import (  # noqa: E402
    create_all,
    group_of,
    specs_of,
    split_placement,
)
from controller.tls import ClientTls  # noqa: E402
from host_stack.placement import Placement, heat_based  # noqa: E402
from host_stack.shards import shard_sizes  # noqa: E402
from host_stack.torch import Tables, find_tables  # noqa: E402
from mininet_topos.star import StarNetwork, StarTopology  # noqa: E402
from mininet_topos.tools import run_tool  # noqa: E402
from softswitch.dataplane import DataPlane  # noqa: E402
from tests import torch_program as program  # noqa: E402
from tests.certificates import Authority, needs_openssl  # noqa: E402
from tests.isolation import isolated  # noqa: E402
from tests.management import managed  # noqa: E402
from tests.test_launch_files import LAUNCH, ROOT  # noqa: E402
from tests.test_launch_runs import check_trained  # noqa: E402

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]
LIMIT_S = 600
WAIT_S = 240.0
SERVERS, WORKERS = 2, 2
TOPOLOGY = StarTopology(workers=WORKERS, servers=SERVERS)
LINKS = {host.name: f"10.9.{host.rank}" for host in TOPOLOGY.server_hosts}
CONTROLLER_IP = "10.9.9.1"
CONTROLLER = f"{CONTROLLER_IP}:9560"
JOB = 7
HOT = np.arange(100, 200, dtype=np.uint64)
"""Of 300 keys: half of them are at each server."""
ACCESS = f"""schema = 1
[[client]]
name = "operator"
role = "operator"
certificate = "operator"
[[client]]
name = "servers of job {JOB}"
role = "job"
jobs = [{JOB}, {JOB + 1}]
certificate = "servers"
"""


class Rack:
    """The network with a controller, and what an operator types."""

    def __init__(self, network: StarNetwork, folder: Path) -> None:
        self._network = network
        self._folder = folder
        self._authority = Authority(folder)
        for name in ("operator", "servers", "stranger"):
            self._client_files(name)
        self._ssh()

    def tls(self, name: str) -> Path:
        """The folder that a client takes its files from."""
        return self._folder / f"tls-{name}"

    def _client_files(self, name: str) -> None:
        """Of a client; the stranger has no certificate."""
        self.tls(name).mkdir()
        shutil.copy(self._authority.cert, self.tls(name) / "ca.pem")
        if name != "stranger":
            pair = self._authority.issue(name)
            shutil.copy(pair.cert, self.tls(name) / "cert.pem")
            shutil.copy(pair.key, self.tls(name) / "key.pem")

    def _ssh(self) -> None:
        """A stand-in that runs a command in the namespaces of a host."""
        script = ["#!/usr/bin/env bash", "case ${@: -2:1} in"]
        for host in TOPOLOGY.hosts:
            script.append(f"    {host.ip}) pid={self._network.host(host.name).pid} ;;")
        script += ["esac", 'exec mnexec -a "$pid" bash -c "${@: -1}"']
        path = self._folder / "bin" / "ssh"
        path.parent.mkdir()
        path.write_text("\n".join(script) + "\n")
        path.chmod(0o755)

    def start_controller(self) -> None:
        """Over mutual TLS, at an address that all servers reach; its switch is ready."""
        site = TOPOLOGY.switches[0]
        inventory = Inventory(
            (SwitchSpec(site.name, site.grpc_address, site.ip, site.mac, site.device_id),),
            tuple(
                HostSpec(each.name, each.ip, each.mac, each.switch, each.port)
                for each in TOPOLOGY.hosts
            ),
        )
        files = {name: self._folder / name for name in ("inventory.toml", "access.toml", "state")}
        files["inventory.toml"].write_text(inventory.text())
        files["access.toml"].write_text(ACCESS)
        pair = self._authority.issue("controller", CONTROLLER_IP)
        run_tool(["ip", "address", "add", f"{CONTROLLER_IP}/32", "dev", "lo"])
        for name, net in LINKS.items():
            self._network.host(name).run("ip", "route", "add", CONTROLLER_IP, "via", f"{net}.1")
        argv = [
            *(sys.executable, "-m", "controller.cli", "controller", str(files["inventory.toml"])),
            *("--state", str(files["state"]), "--listen", CONTROLLER, "--json"),
            *("--tls-cert", str(pair.cert), "--tls-key", str(pair.key)),
            *("--client-ca", str(self._authority.cert), "--access", str(files["access.toml"])),
        ]
        process = self._network.processes.start("controller", argv)
        process.wait_event("switch-ready", WAIT_S)

    def create_job(self, hot: Placement) -> None:
        """Create the job of all hosts; it is installed."""
        pair = self.tls("operator")
        tls = ClientTls(pair / "ca.pem", pair / "cert.pem", pair / "key.pem")
        operator = Operator(ControllerAddress(CONTROLLER, tls), WAIT_S)
        servers = [host.ip for host in TOPOLOGY.server_hosts]
        spec = JobSpec(
            job=JOB,
            fraction_bits=40,
            num_keys=NUM_KEYS,
            workers=[host.ip for host in TOPOLOGY.worker_hosts],
            group=group_of(JOB),
            placed=PLACED["job"],
        )
        specs = specs_of(spec, servers)
        parts = split_placement(hot, [each.num_keys for each in specs])
        create_all(
            operator, specs, parts, lambda info: operator.wait_ready(info.spec.job, 1, WAIT_S)
        )

    def launch(self, shared: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `rack.sh` to its end; `variables` are set besides what every job of this rack has."""
        return self._run([str(LAUNCH / "rack.sh")], self.variables(shared) | variables)

    def role(
        self, shared: Path, role: str, host: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `role.sh` in a host to its end."""
        join = ["mnexec", "-a", str(self._network.host(host).pid)]
        given = self.variables(shared) | variables
        return self._run([*join, str(LAUNCH / "role.sh"), role], given)

    def variables(self, shared: Path) -> dict[str, str]:
        """What every job of this rack has."""
        return {
            "PATH": f"{self._folder}/bin:{os.environ['PATH']}",
            "SERVER": " ".join(host.ip for host in TOPOLOGY.server_hosts),
            "HOSTS": " ".join(host.ip for host in TOPOLOGY.worker_hosts),
            "KEYS": str(NUM_KEYS),
            "LIBRA": str(ROOT),
            "SHARED": str(shared),
            "PROGRAM": str(ROOT / "tests" / "torch_program.py"),
            "OPTIMIZER": "sgd",
            "LEARNING_RATE": str(program.LEARNING_RATE),
        }

    def _run(self, argv: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


NUM_KEYS = program.DIM * (program.USERS + program.ITEMS)


@contextmanager
def racks(folder: Path) -> Iterator[Rack]:
    """The hosts around their switch, and the controller."""
    folder.mkdir()
    DataPlane.load(Artifact.load().device_config).close()  # compiled before a client waits
    with StarNetwork(TOPOLOGY, folder) as network, managed(network, LINKS):
        rack = Rack(network, folder)
        rack.start_controller()
        yield rack


def shared_folder(path: Path) -> Path:
    """A folder that all hosts see, with what the servers begin with."""
    path.mkdir()
    Tables(find_tables(program.Net())).save(path / "parameters.npz", WORKERS)
    return path


def trained(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """What the servers of a job told at its end: hash of the model, and rows that were drained."""
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    ends = [event for event in map(json.loads, lines) if "model_sha256" in event]
    return {end["model_sha256"]: end["counters"]["drained_rows"] for end in ends}


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """The line that says why something was refused."""
    [error] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return error


def hashes_of_workers(shared: Path, servers: int) -> set[str]:
    """Of each server's range of the tables, as the workers have them in the end."""
    net = torch.load(shared / "state.pt", weights_only=True)["net"]
    tables = np.concatenate([net[f"{name}.weight"].numpy().ravel() for name in ("users", "items")])
    parts = np.split(tables, np.cumsum(shard_sizes(NUM_KEYS, servers))[:-1])
    return {hashlib.sha256(part.tobytes()).hexdigest() for part in parts}


@needs_openssl
@isolated
def test_a_rack_trains_under_a_controller_with_tls(tmp_path: Path) -> None:
    """Through the switch, to the bits of a rack with one server and no controller."""
    with racks(tmp_path / "rack") as rack:
        rack.create_job(heat_based(HOT, Artifact.load().layout))
        own = {"CONTROLLER": CONTROLLER, "JOB": str(JOB), "LIBRA_TLS": str(rack.tls("servers"))}
        shared, plain = shared_folder(tmp_path / "shared"), shared_folder(tmp_path / "plain")
        check_refusals(rack, shared, own)
        through_switch = trained(rack.launch(shared, **own))
        check_trained(shared)
        by_server = trained(rack.launch(plain, SERVER=TOPOLOGY.server_hosts[0].ip))
    assert all(rows > 0 for rows in through_switch.values())
    assert list(by_server.values()) == [0]
    assert through_switch.keys() == hashes_of_workers(shared, SERVERS)
    assert by_server.keys() == hashes_of_workers(plain, 1) == hashes_of_workers(shared, 1)


def check_refusals(rack: Rack, shared: Path, own: dict[str, str]) -> None:
    """Whoever has no certificate, or other hosts than the job, is told so in a line."""
    stranger = own | {"LIBRA_TLS": str(rack.tls("stranger"))}
    turned = " ".join(host.ip for host in reversed(TOPOLOGY.worker_hosts))
    other = rack.launch(shared, **own, HOSTS=turned)  # which has taken the job's description
    launched = rack.launch(shared, **stranger)
    started = rack.role(shared, "server", "ps1", **stranger, SHARD="1")
    assert (launched.returncode, started.returncode, other.returncode) == (1, 1, 2)
    assert "it asks for a certificate: cert.pem and key.pem are not in" in error_of(launched)
    assert "it asks for a certificate: cert.pem and key.pem are not in" in error_of(started)
    assert f"HOSTS is {turned}, the job has" in error_of(other)
