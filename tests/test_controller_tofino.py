"""The controller drives a Tofino: what it pushes, writes and reads, at device ports."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator

import finsy as fy
import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.counters import read_reasons
from controller.provision import ProvisionFailed, connected, provision_job, provision_network
from controller.tables import Attachment, Forward, Local, Membership
from controller.targets import find_target
from controller.targets.tofino_output import TofinoProgram
from host_stack.wire import Op
from softswitch.p4runtime.server import P4RuntimeServer
from tests.switch_under_test import GROUP, JOB, SERVER, SLOT, SWITCH, SwitchUnderTest
from tests.tofino_output import write_output
from tests.tofino_server import tofino_server

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]

SERVER_AT = Attachment(SERVER, "02:00:0a:00:00:01", 60)
WORKERS = [
    Attachment(f"10.0.0.{2 + rank}", f"02:00:0a:00:00:{2 + rank:02x}", 128 + 8 * rank)
    for rank in range(3)
]


@pytest.fixture(scope="module", params=["tofino-stratum", "tofino-p4rt"])
def kind(request: pytest.FixtureRequest) -> str:
    """The name of a target."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str) -> Iterator[P4RuntimeServer]:
    """A server of that kind."""
    with tofino_server(kind, Artifact.load()) as running:
        yield running


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> TofinoProgram:
    """A compiled program with the tables that the controller fills."""
    artifact = Artifact.load()
    folder = write_output(tmp_path_factory.mktemp("tofino") / "out")
    (folder / "p4info.txtpb").write_text(artifact.p4info)
    return TofinoProgram.read(folder, "tofino", artifact.layout)


def membership(workers: list[Attachment]) -> Membership:
    """A job of workers in pipe 1, whose server is in pipe 0."""
    return Membership(
        job=JOB,
        epoch=1,
        fraction_bits=40,
        slot=SLOT,
        row_base=0,
        rows=64,
        workers=workers,
        server=SERVER_AT,
        group=GROUP,
        group_id=1,
    )


def test_a_job_at_device_ports(kind: str, server: P4RuntimeServer, program: TofinoProgram) -> None:
    """Pipeline, routes and job stand, and packets are counted at the ports of the chip."""

    async def provision() -> None:
        target = find_target(kind)
        async with connected(server.address, target, program, fresh=True) as switch:
            forward = Forward("02:00:0a:00:00:fe", [SERVER_AT, *WORKERS])
            await provision_network(switch, forward, Local(SWITCH))
            await provision_job(switch, membership(WORKERS), program)

    async def counters() -> dict[str, int]:
        target = find_target(kind)
        async with connected(server.address, target, program, fresh=False) as switch:
            return await read_reasons(switch, SLOT)

    asyncio.run(provision())
    assert server.dataplane is not None
    switch = SwitchUnderTest(server.dataplane, Artifact.load(), server.address, kind, 40, 3)
    grad = switch.grad(1, np.array([0, 1]), np.array([0.5, -2.0], np.float32))
    out = switch.send(136, SERVER, grad.tobytes(), source=WORKERS[1].address)
    assert [packet.port for packet in out] == [136]
    assert out[0].payload[0] & 0xF == Op.ACK
    assert switch.send(128, SERVER, grad.tobytes(), source=WORKERS[1].address) == []
    found = asyncio.run(counters())
    assert (found["aggregated"], found["foreign"]) == (1, 1)


def test_the_other_servers_configuration_is_refused(
    kind: str, server: P4RuntimeServer, program: TofinoProgram
) -> None:
    """Each server knows its own form alone; the error is the server's."""
    (other,) = {"tofino-stratum", "tofino-p4rt"} - {kind}

    async def push() -> None:
        target = find_target(other)
        async with connected(server.address, target, program, fresh=True):
            raise AssertionError("the configuration was taken")

    with pytest.raises(ProvisionFailed, match="INVALID_ARGUMENT"):
        asyncio.run(push())


def test_a_port_without_a_cable_is_refused(
    kind: str, server: P4RuntimeServer, program: TofinoProgram
) -> None:
    """Should the controller let one pass, the switch does not."""

    async def provision() -> None:
        target = find_target(kind)
        async with connected(server.address, target, program, fresh=True) as switch:
            lost = Attachment("10.0.0.9", "02:00:0a:00:00:09", 196)
            await provision_network(switch, Forward("02:00:0a:00:00:fe", [lost]), Local(SWITCH))

    with pytest.raises(ProvisionFailed, match="no cable leads to 196"):
        asyncio.run(provision())


def test_registers(kind: str, server: P4RuntimeServer, program: TofinoProgram) -> None:
    """What the capabilities say of them is so."""

    async def read() -> int:
        target = find_target(kind)
        async with connected(server.address, target, program, fresh=False) as switch:
            entry = fy.P4RegisterEntry("LibraIngress.open.open", index=1)
            return sum([1 async for _ in switch.read(entry)])  # type: ignore[attr-defined]

    if find_target(kind).capabilities.reads_registers:
        assert asyncio.run(read()) == 1
    else:
        with pytest.raises(ProvisionFailed, match="registers are not implemented"):
            asyncio.run(read())
