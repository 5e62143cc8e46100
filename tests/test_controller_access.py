"""TLS, certificates, tokens and roles of a controller."""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from controller import cli
from controller.artifacts import Artifact
from controller.daemon.access import STREAMS, Access, Role, needed
from controller.errors import Forbidden
from controller.jobapi import control_pb2, control_pb2_grpc, job_pb2, job_pb2_grpc
from controller.jobapi.channel import ControllerAddress, NoController, calls
from controller.jobapi.client import JobIncarnations
from controller.jobapi.operator import Operator
from controller.tls import ClientTls
from host_stack.errors import BadInput
from host_stack.placement import Placement, heat_based
from softswitch.p4runtime.tls import TlsFiles
from tests.certificates import Authority, needs_openssl
from tests.controller_server import ServedController, served_controller
from tests.operator_commands import run_libra
from tests.test_controller_control_api import HOSTS, spec

pytestmark = needs_openssl
GIVEN = "a-token-of-a-reader"
FILE = f"""
schema = 1
[[client]]
name = "the operator"
role = "operator"
certificate = "operator"
[[client]]
name = "server of job 1"
role = "job"
jobs = [1]
certificate = "server1"
[[client]]
name = "a dashboard"
role = "reader"
token_sha256 = "{hashlib.sha256(GIVEN.encode()).hexdigest()}"
"""
WAIT_S = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder."""
    return tmp_path_factory.mktemp("access")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    """An authority of this module's own."""
    return Authority(folder)


@pytest.fixture(scope="module")
def access_file(folder: Path) -> Path:
    """The file of clients."""
    path = folder / "access.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def mutual(tmp_path: Path, authority: Authority, access_file: Path) -> Iterator[ServedController]:
    """A controller that knows clients by their certificates, and wants one."""
    pair = authority.issue("controller")
    tls = TlsFiles(pair.cert, pair.key, authority.cert)
    with served_controller(tmp_path, HOSTS, tls, Access.load(access_file)) as found:
        yield found


@pytest.fixture
def served(tmp_path: Path, authority: Authority, access_file: Path) -> Iterator[ServedController]:
    """A controller that knows clients by their tokens."""
    pair = authority.issue("controller")
    tls = TlsFiles(pair.cert, pair.key)
    with served_controller(tmp_path, HOSTS, tls, Access.load(access_file)) as found:
        yield found


def client(
    served: ServedController, authority: Authority, name: str = "", token: str = ""
) -> ControllerAddress:
    """The controller, as a client with a certificate or a token sees it."""
    pair = authority.issue(name) if name else None
    tls = ClientTls(authority.cert, pair.cert, pair.key) if pair else ClientTls(authority.cert)
    return ControllerAddress(served.address, tls, token)


def hot() -> Placement:
    """A placement."""
    return heat_based(np.arange(10, dtype=np.uint64), Artifact.load().layout)


def test_certificates(mutual: ServedController, authority: Authority) -> None:
    """An operator may do all, a job's server look, and speak for its job alone."""
    operator = Operator(client(mutual, authority, "operator"), WAIT_S)
    for job in (1, 2):
        operator.create(spec(job), hot())
    server = client(mutual, authority, "server1")
    request = job_pb2.RenewRequest(job=1, seen_epoch=1, reason="a test")
    with calls(server) as channel:
        stub = job_pb2_grpc.JobServiceStub(channel)
        stub.Renew(request, timeout=WAIT_S)
        stub.Status(job_pb2.StatusRequest(job=2), timeout=WAIT_S)
    request.job = 2
    with pytest.raises(Forbidden, match="is not of job 2"), calls(server) as channel:
        job_pb2_grpc.JobServiceStub(channel).Renew(request, timeout=WAIT_S)
    with pytest.raises(Forbidden, match="server of job 1 has role job; this call needs operator"):
        Operator(server, WAIT_S).delete(1)
    with pytest.raises(Forbidden, match="yours is not known"):
        Operator(client(mutual, authority, "somebody"), WAIT_S).jobs()
    assert [job.spec.job for job in operator.jobs()] == [1, 2]
    assert mutual.access.refused == 3


def test_a_certificate_is_needed(
    mutual: ServedController, authority: Authority, tmp_path: Path
) -> None:
    """None, or one of another authority, does not get through the handshake; it is said why."""
    pair, own = Authority(tmp_path, "other").issue("operator"), authority.issue("operator")
    forged = ClientTls(authority.cert, pair.cert, pair.key)
    mixed = ClientTls(authority.cert, own.cert, pair.key)
    for tls, why in (
        (forged, f"it does not take {pair.cert}, which is of another authority"),
        (mixed, "certificate and key of this client do not fit together"),
        (ClientTls(authority.cert), "it asks for a certificate: cert.pem and key.pem are not in"),
    ):
        with pytest.raises(NoController, match=why):
            Operator(ControllerAddress(mutual.address, tls), 2.0).jobs()


def test_tokens(served: ServedController, authority: Authority) -> None:
    """A reader may look, and do nothing else."""
    reader = Operator(client(served, authority, token=GIVEN), WAIT_S)
    assert reader.jobs() == []
    assert [switch.name for switch in reader.switches()] == ["s1"]
    with pytest.raises(Forbidden, match="a dashboard has role reader; this call needs operator"):
        reader.create(spec(1), hot())
    with pytest.raises(Forbidden, match="needs job"):
        _watch(client(served, authority, token=GIVEN), 1)
    assert reader.jobs() == []


def _watch(address: ControllerAddress, job: int) -> None:
    with calls(address) as channel:
        stub = job_pb2_grpc.JobServiceStub(channel)
        next(stub.Watch(job_pb2.WatchRequest(job=job), timeout=WAIT_S))


@pytest.mark.parametrize("token", ["", "guess", "X" * 5000])
def test_strangers(token: str, served: ServedController, authority: Authority) -> None:
    """No token, or one that the file does not have; whether it lives may be asked by all."""
    address = client(served, authority, token=token)
    with pytest.raises(Forbidden, match="yours is not known"):
        Operator(address, WAIT_S).jobs()
    with pytest.raises(Forbidden, match="yours is not known"):
        _watch(address, 1)
    with calls(address) as channel:
        request = health_pb2.HealthCheckRequest()
        health_pb2_grpc.HealthStub(channel).Check(request, timeout=WAIT_S)


def test_a_controller_that_cannot_be_trusted(served: ServedController, tmp_path: Path) -> None:
    """Its certificate is of another authority than the client's; or the client speaks no TLS."""
    other = Authority(tmp_path, "other")
    for address, why in (
        (
            ControllerAddress(served.address, ClientTls(other.cert), GIVEN),
            "its certificate is not one that is trusted here",
        ),
        (ControllerAddress(served.address), "it speaks TLS: name a folder with ca.pem"),
    ):
        with pytest.raises(NoController, match=why):
            Operator(address, 2.0).jobs()


def test_a_server_that_is_not_known_does_not_wait(
    mutual: ServedController, authority: Authority
) -> None:
    """For an epoch: it is told what is wrong with its certificate, or with its job."""
    Operator(client(mutual, authority, "operator"), WAIT_S).create(spec(2), hot())
    for name, error, why in (
        ("server1", Forbidden, "server of job 1 is not of job 2"),
        ("somebody", Forbidden, "yours is not known"),
        ("", NoController, "gives job 2 no epoch: it asks for a certificate"),
    ):
        address = client(mutual, authority, name)
        with (
            closing(JobIncarnations(address, 2)) as incarnations,
            pytest.raises(error, match=why),
        ):
            incarnations.begin(0, resumed=False, timeout_s=float("inf"))


def test_nothing_is_wrong_with_tls(mutual: ServedController, authority: Authority) -> None:
    """Where both agree, nobody listens, or there is none on either side."""
    assert client(mutual, authority, "operator").fault is None
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{deaf.getsockname()[1]}"
        assert ControllerAddress(target, ClientTls(authority.cert)).fault is None
        assert ControllerAddress(target).fault is None
    assert ControllerAddress("unix:/none").fault is None


@pytest.mark.parametrize("guarded", [True, False])
def test_a_controller_without_tls(authority: Authority, guarded: bool) -> None:
    """A client that speaks TLS is told so."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    tls = ClientTls(authority.cert) if guarded else None
    fault = ControllerAddress(f"127.0.0.1:{port}", tls).fault
    server.stop(None)
    assert fault == ("it has no TLS: leave --tls and LIBRA_TLS away" if guarded else None)


def test_the_command_line_over_tls(
    served: ServedController,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A folder has what a client needs; exit code 1 where its role does not allow a call."""
    files = tmp_path / "client"
    files.mkdir()
    (files / "ca.pem").write_bytes(authority.cert.read_bytes())
    (files / "token").write_text(GIVEN + "\n")

    def libra(*arguments: str) -> tuple[int, str, str]:
        options = ("--controller", served.address, "--tls", str(files))
        return run_libra(monkeypatch, capsys, *arguments, *options)

    code, out, _ = libra("switches", "--json")
    assert (code, json.loads(out)["switches"][0]["name"]) == (0, "s1")
    code, _, err = libra("job", "delete", "-j", "1")
    assert code == 1
    assert "a dashboard has role reader" in err


def test_every_method_has_a_role() -> None:
    """What is not named is for operators, so that a new call is not open by mistake."""
    services = (control_pb2.DESCRIPTOR, job_pb2.DESCRIPTOR)
    roles = {
        f"/{service.full_name}/{method.name}": needed(f"/{service.full_name}/{method.name}")
        for file in services
        for service in file.services_by_name.values()
        for method in service.methods
    }
    operators = {name.rpartition("/")[2] for name, role in roles.items() if role is Role.OPERATOR}
    assert operators == {
        *("CreateJob", "DeleteJob", "ChangeJob", "DeclareWorkers", "Dump"),
    }
    assert Role.NOBODY not in roles.values()
    assert needed("/any.other/Call") is Role.OPERATOR


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema = 1", "schema = 2", "schema = 1"),
        ('role = "operator"', 'role = "root"', "reader, job, operator"),
        ("jobs = [1]", "", "names its jobs"),
        ("jobs = [1]", 'jobs = ["1"]', "a list of numbers"),
        ('certificate = "operator"', "", "either certificate or token_sha256"),
        ('token_sha256 = "', 'token_sha256 = "XX', "64 hex digits"),
        ('name = "a dashboard"', 'colour = "red"', "colour"),
        ('name = "a dashboard"', "name = 3", "texts"),
        ("[[client]]", "[client", "not an access file"),
    ],
)
def test_access_files_are_checked(old: str, new: str, words: str, tmp_path: Path) -> None:
    """What is wrong is named."""
    path = tmp_path / "access.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(BadInput, match=words):
        Access.load(path)


def test_a_token_and_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They belong together, and each token is another one."""
    found = set()
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["libra", "token"])
        with pytest.raises(SystemExit):
            cli.main()
        first, second = capsys.readouterr().out.splitlines()
        made = first.removeprefix("token:").strip()
        assert second == f'token_sha256 = "{hashlib.sha256(made.encode()).hexdigest()}"'
        found.add(made)
    assert len(found) == 2


def test_a_client_has_so_many_streams(mutual: ServedController, authority: Authority) -> None:
    """One that is no operator; others do not feel it."""
    operator = client(mutual, authority, "operator")
    Operator(operator, WAIT_S).create(spec(1), hot())
    server = client(mutual, authority, "server1")
    request = control_pb2.WatchEventsRequest()

    def watch(stub: control_pb2_grpc.ControlServiceStub) -> str:
        return next(stub.WatchEvents(request, timeout=WAIT_S)).kind

    with calls(server) as channel, calls(operator) as other:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        streams = [stub.WatchEvents(request, timeout=WAIT_S) for _ in range(STREAMS + 4)]
        for stream in streams:
            assert next(stream).kind == "job-created"
        with pytest.raises(grpc.RpcError, match="streams of server of job 1: 20 at once"):
            watch(stub)
        assert watch(control_pb2_grpc.ControlServiceStub(other)) == "job-created"
        for stream in streams:
            stream.cancel()
