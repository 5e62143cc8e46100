"""What the tests' server of a Tofino takes and refuses, so that tests against it mean something."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import finsy as fy
import grpc
import pytest
from finsy.proto import p4r, rpc_code

from controller.provision import ProvisionFailed, connected
from controller.targets import find_target
from controller.targets.ports import TOFINO, TOFINO2, Chip
from controller.targets.tofino_output import TofinoProgram
from softswitch.p4runtime.errors import P4RuntimeError
from softswitch.p4runtime.server import P4RuntimeServer
from tests.controller_process import WAIT_S
from tests.p4rt_support import Client, batch_errors, refused
from tests.tofino_lab import Held, entry, number, read_held, update
from tests.tofino_output import read_p4info, write_compiled
from tests.tofino_server import P4RT, EntityCheck, tofino_server

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]

SERVERS = ("tofino-stratum", "tofino-p4rt")

ELECTION_IDS = itertools.count(100, 10)
"""Each client's is higher than all before it, so that it becomes primary."""

COMMIT = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
ROUTES, FORWARD = "LibraIngress.forward.routes", "LibraIngress.forward.forward"
MEMBERS, WORKER = "LibraIngress.membership.members", "LibraIngress.membership.worker"
LAPS, LAP_AT = "LibraIngress.laps", "LibraIngress.lap_at"
ADDRESS = number("10.0.0.1")
ROUTE = entry(ROUTES, ((ADDRESS, 32),), FORWARD, (60, 1, 2))
OTHER = number("10.0.0.2")
SECOND = entry(ROUTES, ((OTHER, 32),), FORWARD, (60, 1, 2))
MEMBER = entry(MEMBERS, (1, 0, 128, ADDRESS), WORKER, (0,))


def changed(entity: p4r.Entity, value: bytes | None = None, **changes: Any) -> p4r.Entity:
    """A table entry with some of its fields changed, and the value of its last parameter."""
    copy = p4r.Entity()
    copy.CopyFrom(entity)
    copy.table_entry.MergeFrom(p4r.TableEntry(**changes))
    if value is not None:
        copy.table_entry.action.action.params[-1].value = value
    return copy


def without_parameter(entity: p4r.Entity) -> p4r.Entity:
    """A table entry that lacks its last parameter."""
    copy = changed(entity)
    del copy.table_entry.action.action.params[-1]
    return copy


def with_mask(entity: p4r.Entity) -> p4r.Entity:
    """A table entry with a mask at its first key."""
    copy = changed(entity)
    copy.table_entry.match[0].ternary.CopyFrom(p4r.FieldMatch.Ternary(value=b"\x01", mask=b"\x01"))
    return copy


def group(group_id: int, *ports: int) -> p4r.Entity:
    """A multicast group."""
    return p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            multicast_group_entry=p4r.MulticastGroupEntry(
                multicast_group_id=group_id,
                replicas=[p4r.Replica(egress_port=port) for port in ports],
            )
        )
    )


BAD = [
    (changed(SECOND, table_id=37060766), "NOT_FOUND", "no table has id"),
    (entry(ROUTES, ((OTHER, 32),), "LibraIngress.local", ()), "INVALID_ARGUMENT", "no action"),
    (changed(SECOND, priority=1), "INVALID_ARGUMENT", "priority"),
    (with_mask(entry(LAPS, (1,), LAP_AT, (68, 9))), "INVALID_ARGUMENT", "it is exact"),
    (entry(LAPS, (4,), LAP_AT, (68, 9)), "OUT_OF_RANGE", "does not fit in 2 bits"),
    (changed(MEMBER, b"\x40"), "OUT_OF_RANGE", "does not fit in 6 bits"),
    (changed(SECOND, b"\x00\x02"), "INVALID_ARGUMENT", "not canonical"),
    (without_parameter(SECOND), "INVALID_ARGUMENT", "param"),
    (
        entry("LibraIngress.align0.bits", (3,), "LibraIngress.align0.bits2", ()),
        "PERMISSION_DENIED",
        "constant",
    ),
    (entry(ROUTES, ((OTHER, 32),), FORWARD, (196, 1, 2)), "INVALID_ARGUMENT", "no cable"),
    (entry(MEMBERS, (1, 0, 68, ADDRESS), WORKER, (0,)), "INVALID_ARGUMENT", "no cable"),
    (entry(LAPS, (1,), LAP_AT, (60, 9)), "INVALID_ARGUMENT", "does not lead back"),
    (group(1, 60, 70), "INVALID_ARGUMENT", "port 70 leads nowhere"),
    (group(0, 60), "INVALID_ARGUMENT", "must not be 0"),
]


@pytest.fixture(scope="module", params=SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of a target."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str) -> Iterator[P4RuntimeServer]:
    """A server of that kind."""
    with tofino_server(kind) as running:
        yield running


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> TofinoProgram:
    """The committed program, as if it were compiled here."""
    return TofinoProgram.load("tofino", write_compiled(tmp_path_factory.mktemp("build")))


def config(kind: str, program: TofinoProgram) -> p4r.ForwardingPipelineConfig:
    """What a controller pushes."""
    return p4r.ForwardingPipelineConfig(
        p4info=read_p4info(), p4_device_config=find_target(kind).device_config(program)
    )


@pytest.fixture
def client(kind: str, server: P4RuntimeServer, program: TofinoProgram) -> Iterator[Client]:
    """The primary of a switch that runs the program, and is empty."""
    with Client(server.address, next(ELECTION_IDS)) as found:
        assert found.arbitrate().status.code == 0
        found.set_config(COMMIT, config(kind, program))
        yield found


def test_what_no_tofino_takes(client: Client) -> None:
    """Each update has an error of its own; those beside it are carried out."""
    good = [update("INSERT", ROUTE), update("INSERT", MEMBER)]
    updates = [good[0], *(update("INSERT", entity) for entity, _, _ in BAD), good[1]]
    with pytest.raises(grpc.RpcError) as caught:
        client.write(*updates)
    first, *errors, last = batch_errors(caught.value)
    assert (first.canonical_code, last.canonical_code) == (0, 0)
    for error, (_, code, words) in zip(errors, BAD, strict=True):
        assert rpc_code.Code.Name(error.canonical_code) == code, error
        assert words in error.message
    held = read_held(client.address)
    assert (set(held.tables), held.groups) == ({ROUTES, MEMBERS}, {})


def test_tables_are_as_large_as_their_program_says(client: Client) -> None:
    """No more fits; what is there once is not there twice."""
    laps = [entry(LAPS, (slot,), LAP_AT, (68, 9)) for slot in range(4)]
    client.write(*(update("INSERT", each) for each in laps))
    assert refused(client, update("INSERT", laps[0])).canonical_code == rpc_code.ALREADY_EXISTS
    local = "LibraIngress.locals", "LibraIngress.local"
    locals_ = [entry(local[0], (address,), local[1], ()) for address in range(17)]
    client.write(*(update("INSERT", each) for each in locals_[:16]))
    error = refused(client, update("INSERT", locals_[16]))
    assert error.canonical_code == rpc_code.RESOURCE_EXHAUSTED


def test_numbers_of_groups(kind: str, client: Client) -> None:
    """PI keeps half of them for itself."""
    client.write(update("INSERT", group(0x7FFF, 60)))
    high = update("INSERT", group(0x8000, 60))
    if kind == "tofino-p4rt":
        assert refused(client, high).canonical_code == rpc_code.OUT_OF_RANGE
    else:
        client.write(high)


@pytest.mark.parametrize(
    ("chip", "out", "back"), [(TOFINO, (0, 63, 128), (68, 196)), (TOFINO2, (8, 71, 196), (6, 134))]
)
def test_each_chip_has_its_ports(chip: Chip, out: tuple[int, ...], back: tuple[int, ...]) -> None:
    """What leads back into a pipe of the one leads out of it, or nowhere, on the other."""
    check = EntityCheck(P4RT, read_p4info(chip))
    for port in (*out, *back):
        route = entry(ROUTES, ((ADDRESS, 32),), FORWARD, (port, 1, 2), chip)
        lap = entry(LAPS, (1,), LAP_AT, (port, 9), chip)
        good, bad = (route, lap) if port in out else (lap, route)
        check(good)
        with pytest.raises(P4RuntimeError, match=f"{port}"):
            check(bad)
        check(group(1, port))
    with pytest.raises(P4RuntimeError, match="leads nowhere"):
        check(group(1, 72))


def test_registers(kind: str, server: P4RuntimeServer, client: Client) -> None:
    """bf_switchd's server has none, Stratum's none of pairs, which all of this program's are."""
    (opened,) = [each for each in read_p4info().registers if each.preamble.alias == "open"]
    register = p4r.Entity(register_entry=p4r.RegisterEntry(register_id=opened.preamble.id))
    with pytest.raises(grpc.RpcError) as caught:
        client.read(register)
    words = {"tofino-p4rt": "are not implemented", "tofino-stratum": "of struct"}[kind]
    assert words in str(caught.value)
    error = refused(client, update("MODIFY", register))
    assert error.canonical_code == rpc_code.UNIMPLEMENTED
    assert not find_target(kind).capabilities.reads_registers


def test_batches_are_not_atomic(client: Client) -> None:
    """Neither server takes back what was carried out."""
    with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
        client.write(update("INSERT", ROUTE), atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR)


def test_one_primary(client: Client, kind: str, program: TofinoProgram) -> None:
    """The highest election id writes; another one's is not taken."""
    own = client.election_id or 0
    with Client(client.address, own + 1) as other:
        assert other.arbitrate().status.code == 0
        assert client.receive().arbitration.status.code == rpc_code.ALREADY_EXISTS
        with pytest.raises(grpc.RpcError, match="PERMISSION_DENIED"):
            client.write(update("INSERT", ROUTE))
        with pytest.raises(grpc.RpcError, match="PERMISSION_DENIED"):
            client.set_config(COMMIT, config(kind, program))
        other.write(update("INSERT", ROUTE))
    with Client(client.address, own) as same, pytest.raises(grpc.RpcError, match="is already used"):
        same.arbitrate()


def test_the_other_servers_configuration_is_refused(
    kind: str, server: P4RuntimeServer, program: TofinoProgram
) -> None:
    """Each server knows its own form alone; the controller's error is the server's."""
    (other,) = set(SERVERS) - {kind}

    async def push() -> None:
        async with connected(server.address, find_target(other), program, fresh=True):
            raise AssertionError("the configuration was taken")

    with pytest.raises(ProvisionFailed, match="INVALID_ARGUMENT"):
        asyncio.run(push())


def damaged(kind: str, program: TofinoProgram) -> Iterator[tuple[bytes, str]]:
    """Device configurations with something wrong, and what is said of it."""
    target = find_target(kind)
    whole = target.device_config(program)
    (profile,) = program.profiles

    def made(**changes: Any) -> bytes:
        return target.device_config(replace(program, **changes))

    yield whole[:-1], "not a device configuration"
    yield whole + b"\x32\x01x", "not a device configuration"
    yield made(p4_name=""), "names and binaries"
    yield made(profiles=(replace(profile, binary=b""),)), "names and binaries"
    yield made(profiles=(replace(profile, context=b"{"),)), "not a device configuration"
    yield made(bfrt_info=b'{"tables": []}'), "does not have the objects of the P4Info"
    if kind == "tofino-stratum":
        yield made(profiles=(profile, profile)), "each has one pipeline"
        yield made(profiles=(replace(profile, pipes=()),)), "each has one pipeline"
    else:
        chunk = struct.pack("<I", 1) + b"x"
        yield whole.replace(struct.pack("<I", 9) + b"libra_tna", chunk), "not a device config"


def test_a_damaged_configuration_is_refused(
    kind: str, client: Client, program: TofinoProgram
) -> None:
    """And the pipeline that runs stays."""
    client.write(update("INSERT", ROUTE))
    found = 0
    for source, words in damaged(kind, program):
        with pytest.raises(grpc.RpcError) as caught:
            client.set_config(
                COMMIT,
                p4r.ForwardingPipelineConfig(p4info=read_p4info(), p4_device_config=source),
            )
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in (caught.value.details() or "")
        found += 1
    assert found >= 7
    assert list(read_held(client.address).tables) == [ROUTES]


def test_another_programs_p4info_is_refused(
    kind: str, client: Client, program: TofinoProgram
) -> None:
    """A table that the binary does not have."""
    wrong = config(kind, program)
    wrong.p4info.tables[0].preamble.name = "LibraIngress.other"
    with pytest.raises(grpc.RpcError, match=r"LibraIngress\.other"):
        client.set_config(COMMIT, wrong)


def test_an_error_of_the_switch_reaches_the_operator(
    kind: str, server: P4RuntimeServer, program: TofinoProgram
) -> None:
    """Should the controller let a bad port pass, the switch does not: its words are told."""
    route = fy.P4TableEntry(
        ROUTES,
        match=fy.Match(**{"hdr.ipv4.dst": "10.0.0.9/32"}),
        action=fy.Action(FORWARD, port=196, next_hop="02:00:00:00:00:01", own="02:00:00:00:00:02"),
    )

    async def provision() -> None:
        target = find_target(kind)
        async with connected(server.address, target, program, fresh=True) as switch:
            await switch.insert([route])

    with pytest.raises(ProvisionFailed, match="no cable leads to 196"):
        asyncio.run(provision())


def test_another_primary_keeps_the_controller_away(
    kind: str, client: Client, program: TofinoProgram
) -> None:
    """Nothing is written as long as it is there; when it has gone, the controller takes over."""
    client.write(update("INSERT", ROUTE))

    async def take_over() -> None:
        async with connected(client.address, find_target(kind), program, fresh=True):
            pass

    another = f"has another controller .election id {client.election_id}"
    with pytest.raises(ProvisionFailed, match=another):
        asyncio.run(take_over())
    assert list(read_held(client.address).tables) == [ROUTES]
    client.close()
    deadline = time.monotonic() + WAIT_S
    while True:  # the switch may take a moment to notice
        try:
            asyncio.run(take_over())
            break
        except ProvisionFailed as error:
            assert "has another controller" in str(error) and time.monotonic() < deadline
    assert read_held(client.address) == Held()
