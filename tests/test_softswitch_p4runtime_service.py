"""The RPCs as a whole: checks before the work, batches, errors and their details."""

from __future__ import annotations

import re

import grpc
import pytest
from finsy.proto import U128, p4r, p4r_grpc, rpc_code

from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import (
    IDS,
    TIMEOUT_S,
    Client,
    action,
    batch_errors,
    delete,
    insert,
    l2_entry,
    modify,
    refused,
)

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

L2 = p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["l2"]))


def test_capabilities(empty_switch: P4RuntimeServer) -> None:
    """The version is that of the API implemented; a foreign device is refused."""
    with Client(empty_switch.address) as client:
        reply = client.stub.Capabilities(p4r.CapabilitiesRequest())
        assert reply.p4runtime_api_version.startswith("1.4.")
        with pytest.raises(grpc.RpcError) as caught:
            client.stub.Capabilities(p4r.CapabilitiesRequest(device_id=2))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_requests_before_a_pipeline(empty_switch: P4RuntimeServer) -> None:
    """Writes and Reads need a pipeline; the message is one that finsy understands."""
    with Client(empty_switch.address) as client:
        client.arbitrate()
        for request in (client.write, lambda: client.read(L2)):
            with pytest.raises(grpc.RpcError) as caught:
                request()
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "no forwarding pipeline config" in caught.value.details()
        assert not client.get_config().HasField("config")


def test_foreign_device(primary: Client) -> None:
    """Every RPC checks the device id first."""
    calls = (
        lambda: primary.write(device_id=2),
        lambda: primary.read(L2, device_id=2),
        lambda: primary.stub.GetForwardingPipelineConfig(
            p4r.GetForwardingPipelineConfigRequest(device_id=2)
        ),
        lambda: primary.stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(device_id=2)
        ),
    )
    for call in calls:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert "this switch is device 1" in caught.value.details()


@pytest.mark.parametrize("election_id", [None, 0, 2])
def test_write_with_a_wrong_election_id(primary: Client, election_id: int | None) -> None:
    """Only the primary's id is accepted; unset and zero are different from it."""
    primary.election_id = election_id
    with pytest.raises(grpc.RpcError) as caught:
        primary.write()
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_write_without_any_controller(switch: P4RuntimeServer) -> None:
    """Without a stream there is no primary, so nothing can be written; reading is free."""
    with Client(switch.address) as client:
        with pytest.raises(grpc.RpcError) as caught:
            client.write()
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert client.read(L2) == []


def test_unknown_role(primary: Client) -> None:
    """A role that nobody took is NOT_FOUND."""
    with pytest.raises(grpc.RpcError) as caught:
        primary.write(role="nobody")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_batch_goes_on_after_errors(primary: Client) -> None:
    """Each update is attempted; the details have one error per update, in order."""
    primary.write(insert(table_entry=l2_entry(b"\x01")))
    with pytest.raises(grpc.RpcError) as caught:
        primary.write(
            insert(table_entry=l2_entry(b"\x01")),
            insert(table_entry=l2_entry(b"\x02")),
            delete(table_entry=l2_entry(b"\x03")),
            insert(table_entry=l2_entry(b"\x04", action=action("route", b"\x01", b"\x01"))),
            insert(table_entry=l2_entry(b"\x05")),
        )
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert "3 of 5 failed; the first is number 0" in caught.value.details()
    errors = batch_errors(caught.value)
    assert [error.canonical_code for error in errors] == [
        rpc_code.ALREADY_EXISTS,
        rpc_code.OK,
        rpc_code.NOT_FOUND,
        rpc_code.INVALID_ARGUMENT,
        rpc_code.OK,
    ]
    assert "forward" in errors[3].message
    assert {entity.table_entry.match[0].exact.value for entity in primary.read(L2)} == {
        b"\x01",
        b"\x02",
        b"\x05",
    }


def test_long_batch_with_an_error(primary: Client) -> None:
    """Where details would not fit into metadata, the message still says what failed."""
    updates = [insert(table_entry=l2_entry(number.to_bytes(2, "big"))) for number in range(1, 3000)]
    with pytest.raises(grpc.RpcError) as caught:
        primary.write(*updates, updates[7])
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert "1 of 3000 failed; the first is number 2999" in caught.value.details()
    assert len(primary.read(L2)) == 2999


def test_large_batch_round_trip(primary: Client) -> None:
    """8,192 entries in one Write are read back as they were, in several messages."""
    entries = [
        l2_entry((number << 8 | 1).to_bytes(3, "big").lstrip(b"\0"), metadata=b"%d" % number)
        for number in range(8192)
    ]
    primary.write(*(insert(table_entry=entry) for entry in entries))
    responses = list(
        primary.stub.Read(p4r.ReadRequest(device_id=1, entities=[L2]), timeout=TIMEOUT_S)
    )
    assert len(responses) > 1
    found = [entity.table_entry for response in responses for entity in response.entities]
    assert sorted(found, key=lambda entry: int(entry.metadata)) == entries
    primary.write(*(delete(table_entry=entry) for entry in entries))
    assert primary.read(L2) == []


@pytest.mark.parametrize(
    ("update", "code", "words"),
    [
        (p4r.Update(type=p4r.Update.INSERT), "INVALID_ARGUMENT", "entity is not set"),
        (p4r.Update(entity=L2), "INVALID_ARGUMENT", "update type 0"),
        (modify(meter_entry=p4r.MeterEntry(meter_id=1)), "NOT_FOUND", "no meter has id"),
        (insert(digest_entry=p4r.DigestEntry()), "NOT_FOUND", "no digest has id"),
        (modify(value_set_entry=p4r.ValueSetEntry()), "NOT_FOUND", "no value set has id"),
        (insert(extern_entry=p4r.ExternEntry()), "UNIMPLEMENTED", "extern_entry"),
        (
            insert(action_profile_member=p4r.ActionProfileMember()),
            "NOT_FOUND",
            "no action profile has id",
        ),
        (insert(table_entry=p4r.TableEntry()), "NOT_FOUND", "no table has id"),
        (
            insert(table_entry=p4r.TableEntry(table_id=IDS["forward"])),
            "NOT_FOUND",
            r"SwitchIngress.l2 \(0x02",
        ),
    ],
)
def test_refused_updates(primary: Client, update: p4r.Update, code: str, words: str) -> None:
    """What is not supported or not there is named, with what is."""
    error = refused(primary, update)
    assert error.canonical_code == rpc_code.Code.Value(code)
    assert re.search(words, error.message)
    assert error.space == "softswitch"


def test_read_with_errors_returns_the_rest(primary: Client) -> None:
    """Valid queries of a batch are answered before the status reports the others."""
    primary.write(insert(table_entry=l2_entry(b"\x01")))
    request = p4r.ReadRequest(
        device_id=1,
        entities=[
            L2,
            p4r.Entity(),
            p4r.Entity(table_entry=p4r.TableEntry(table_id=1)),
            p4r.Entity(extern_entry=p4r.ExternEntry()),
            L2,
        ],
    )
    call = primary.stub.Read(request, timeout=TIMEOUT_S)
    found = []
    with pytest.raises(grpc.RpcError) as caught:
        for response in call:
            found.extend(response.entities)
    assert len(found) == 2
    assert [error.canonical_code for error in batch_errors(caught.value)] == [
        rpc_code.OK,
        rpc_code.INVALID_ARGUMENT,
        rpc_code.NOT_FOUND,
        rpc_code.UNIMPLEMENTED,
        rpc_code.OK,
    ]


def test_reading_all_of_an_absent_kind(primary: Client) -> None:
    """A program without meters or action profiles has none of them: that is no error."""
    assert (
        primary.read(
            p4r.Entity(meter_entry=p4r.MeterEntry()),
            p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
            p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
            p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
            p4r.Entity(digest_entry=p4r.DigestEntry()),
        )
        == []
    )


def test_broken_clients_disturb_nobody(primary: Client, switch: P4RuntimeServer) -> None:
    """Controllers that vanish, talk nonsense or never read leave the others alone."""
    for number in range(40):
        with Client(switch.address, 100 + number, role="others") as client:
            client.send(p4r.StreamMessageRequest())
            assert client.receive().error.canonical_code == rpc_code.INVALID_ARGUMENT
    with grpc.insecure_channel(switch.address) as channel:
        raw = channel.unary_unary("/p4.v1.P4Runtime/Write")
        with pytest.raises(grpc.RpcError):
            raw(b"\xff\xff\xff", timeout=TIMEOUT_S)
    primary.write(insert(table_entry=l2_entry(b"\x01")))
    assert len(primary.read(L2)) == 1


def test_too_many_streams(switch: P4RuntimeServer) -> None:
    """Streams are bounded, so that Writes always find a thread."""
    clients = [Client(switch.address, number) for number in range(40)]
    refusals = 0
    try:
        for client in clients:
            try:
                client.arbitrate()
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                refusals += 1
            else:
                last = client
        assert refusals == 8
        last.write(modify(table_entry=p4r.TableEntry(table_id=IDS["l2"], is_default_action=True)))
    finally:
        for client in clients:
            client.close()


def test_half_closed_stream_ends(empty_switch: P4RuntimeServer) -> None:
    """A controller that stops sending is gone; its stream ends without an error."""
    with grpc.insecure_channel(empty_switch.address) as channel:
        update = p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(1))
        request = p4r.StreamMessageRequest(arbitration=update)
        replies = list(p4r_grpc.P4RuntimeStub(channel).StreamChannel(iter([request])))
    assert [reply.arbitration.status.code for reply in replies] == [rpc_code.OK]
    with Client(empty_switch.address, 1) as client:
        assert client.arbitrate().status.code == rpc_code.OK
