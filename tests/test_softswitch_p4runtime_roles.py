"""Roles: several primaries at a time, each within the scope of its role.config."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from finsy.proto import p4d, p4r, rpc_code, stratum
from google.protobuf import any_pb2

from softswitch.p4runtime.errors import P4RuntimeError
from softswitch.p4runtime.roles import Access, object_id, read_config
from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import (
    CPU_PORT,
    IDS,
    Client,
    action,
    batch_errors,
    config,
    eventually,
    insert,
    l2_entry,
    modify,
    refused,
)

pytest_plugins = ("tests.p4rt_fixtures",)

ROUTE = p4r.TableEntry(
    table_id=IDS["routes"],
    match=[
        p4r.FieldMatch(field_id=1, lpm=p4r.FieldMatch.LPM(value=b"\x0a\x00\x00\x00", prefix_len=8))
    ],
    action=action("route", b"\x0a", b"\x03"),
)
SET_CLASS = p4r.TableEntry(
    table_id=IDS["stamp"], is_default_action=True, action=action("set_class", b"\x01")
)
GROUP = p4r.PacketReplicationEngineEntry(
    multicast_group_entry=p4r.MulticastGroupEntry(multicast_group_id=1)
)
EVERYTHING = p4r.Entity(table_entry=p4r.TableEntry())
FRAME = bytes.fromhex("0000000000aa 0000000000bb 9999")


def scheme(**fields: Any) -> stratum.P4RoleConfig:
    """Return a role config of the scheme that is enforced."""
    return stratum.P4RoleConfig(**fields)


@pytest.mark.compiler
def test_roles_share_the_pipeline(switch: P4RuntimeServer) -> None:
    """Each primary writes and reads its own objects; the default role everything."""
    l2 = scheme(exclusive_p4_ids=[IDS["l2"]], shared_p4_ids=[IDS["stamp"]])
    routes = scheme(shared_p4_ids=[IDS["routes"], IDS["stamp"], IDS["last_source"]])
    with (
        Client(switch.address, 1, "bridge", l2) as bridge,
        Client(switch.address, 1, "router", routes) as router,
        Client(switch.address, 1) as owner,
    ):
        for client in (bridge, router, owner):
            assert client.arbitrate().status.code == rpc_code.OK
        bridge.write(insert(table_entry=l2_entry(b"\x01")))
        router.write(insert(table_entry=ROUTE), modify(table_entry=SET_CLASS))
        bridge.write(modify(table_entry=SET_CLASS))
        for client, update in (
            (bridge, insert(table_entry=ROUTE)),
            (bridge, insert(packet_replication_engine_entry=GROUP)),
            (router, insert(table_entry=l2_entry(b"\x02"))),
            (router, insert(packet_replication_engine_entry=GROUP)),
        ):
            error = refused(client, update)
            assert error.canonical_code == rpc_code.PERMISSION_DENIED
            assert "scope of the role" in error.message
        owner.write(
            insert(table_entry=l2_entry(b"\x02")), insert(packet_replication_engine_entry=GROUP)
        )
        assert [entity.table_entry.table_id for entity in bridge.read(EVERYTHING)] == [
            IDS["l2"],
            IDS["l2"],
        ]
        assert [entity.table_entry.table_id for entity in router.read(EVERYTHING)] == [
            IDS["routes"]
        ]
        assert len(owner.read(EVERYTHING)) == 5


@pytest.mark.compiler
def test_batch_of_a_role_is_checked_by_update(switch: P4RuntimeServer) -> None:
    """Only the updates out of scope fail; an atomic batch with one fails as a whole."""
    with Client(switch.address, 1, "bridge", scheme(shared_p4_ids=[IDS["l2"]])) as client:
        client.arbitrate()
        updates = (insert(table_entry=l2_entry(b"\x01")), insert(table_entry=ROUTE))
        with pytest.raises(grpc.RpcError) as caught:
            client.write(*updates, atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
        codes = [error.canonical_code for error in batch_errors(caught.value)]
        assert codes == [rpc_code.ABORTED, rpc_code.PERMISSION_DENIED]
        assert client.read(EVERYTHING) == []
        with pytest.raises(grpc.RpcError) as caught:
            client.write(*updates)
        codes = [error.canonical_code for error in batch_errors(caught.value)]
        assert codes == [rpc_code.OK, rpc_code.PERMISSION_DENIED]


@pytest.mark.compiler
def test_exclusive_objects(switch: P4RuntimeServer) -> None:
    """What a live role has exclusively no other named role writes, or claims."""
    mine = scheme(exclusive_p4_ids=[IDS["l2"]])
    with Client(switch.address, 1, "plain") as plain:
        plain.arbitrate()
        with Client(switch.address, 1, "owner", mine) as owner:
            owner.arbitrate()
            error = refused(plain, insert(table_entry=l2_entry(b"\x01")))
            assert error.canonical_code == rpc_code.PERMISSION_DENIED
            assert "another role exclusively" in error.message
            with (
                Client(switch.address, 1, "rival", mine) as rival,
                pytest.raises(grpc.RpcError) as caught,
            ):
                rival.arbitrate()
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "exclusively" in caught.value.details()
        eventually(lambda: plain.write(insert(table_entry=l2_entry(b"\x01"))))
        assert len(plain.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["l2"])))) == 1


@pytest.mark.compiler
def test_only_some_roles_set_the_pipeline(switch: P4RuntimeServer) -> None:
    """can_push_pipeline decides; named roles without a config may."""
    verify = p4r.SetForwardingPipelineConfigRequest.VERIFY
    for number, (given, allowed) in enumerate(
        ((scheme(), False), (scheme(can_push_pipeline=True), True), (None, True))
    ):
        with Client(switch.address, 1, f"role {number}", given) as client:
            client.arbitrate()
            if allowed:
                client.set_config(verify, config())
                continue
            with pytest.raises(grpc.RpcError) as caught:
                client.set_config(verify, config())
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.compiler
def test_packets_go_to_the_roles_that_want_them(switch: P4RuntimeServer) -> None:
    """A role gets no packets, those with one value of a header field, or all."""
    wanted = scheme(
        receives_packet_ins=True,
        packet_in_filter=stratum.P4RoleConfig.PacketFilter(metadata_id=1, value=b"\x00\x03"),
    )
    with (
        Client(switch.address, 1) as owner,
        Client(switch.address, 1, "none", scheme()) as nothing,
        Client(switch.address, 1, "port 3", wanted) as third,
        Client(switch.address, 1, "all", scheme(receives_packet_ins=True)) as last,
    ):
        for client in (owner, nothing, third, last):
            client.arbitrate()
        out = p4r.PacketOut(
            payload=FRAME,
            metadata=[
                p4r.PacketMetadata(metadata_id=1, value=bytes([CPU_PORT])),
                p4r.PacketMetadata(metadata_id=2, value=b"\x00"),
            ],
        )
        owner.send(p4r.StreamMessageRequest(packet=out))
        assert owner.receive().packet.payload == FRAME
        assert last.receive().packet.payload == FRAME
        for client in (nothing, third):
            client.arbitrate()
            assert client.responses.empty()


def test_packet_filter() -> None:
    """Values are compared as numbers; a packet without the field is not wanted."""
    access = Access(packet_filter=(1, 3))

    def packet(*metadata: tuple[int, bytes]) -> p4r.StreamMessageResponse:
        items = [p4r.PacketMetadata(metadata_id=key, value=value) for key, value in metadata]
        return p4r.StreamMessageResponse(packet=p4r.PacketIn(metadata=items))

    assert access.visible(packet((1, b"\x03"), (2, b"\x00"))) is not None
    assert access.visible(packet((1, b"\x00\x03"))) is not None
    assert access.visible(packet((2, b"\x03"))) is None
    assert access.visible(packet()) is None
    assert Access(packets=False).visible(packet((1, b"\x03"))) is None
    assert Access().visible(packet()) is not None


def test_notifications_are_cut_to_the_scope() -> None:
    """Digests and idle entries of other roles' objects are left out."""
    access = Access(objects=frozenset({7, 8}))

    def idle(*tables: int) -> p4r.StreamMessageResponse:
        entries = [p4r.TableEntry(table_id=table) for table in tables]
        notice = p4r.IdleTimeoutNotification(table_entry=entries, timestamp=5)
        return p4r.StreamMessageResponse(idle_timeout_notification=notice)

    assert access.visible(idle(7, 9, 8)) == idle(7, 8)
    assert access.visible(idle(9)) is None
    assert Access().visible(idle(9)) == idle(9)
    digest = p4r.StreamMessageResponse(digest=p4r.DigestList(digest_id=9))
    assert access.visible(digest) is None
    assert Access(objects=frozenset({9})).visible(digest) == digest


def test_every_object_of_an_entity() -> None:
    """Each kind of entity names its object; multicast, clone sessions and externs have none."""
    key = p4r.TableEntry(table_id=5)
    for entity in (
        {"table_entry": key},
        {"direct_counter_entry": p4r.DirectCounterEntry(table_entry=key)},
        {"direct_meter_entry": p4r.DirectMeterEntry(table_entry=key)},
        {"counter_entry": p4r.CounterEntry(counter_id=5)},
        {"meter_entry": p4r.MeterEntry(meter_id=5)},
        {"register_entry": p4r.RegisterEntry(register_id=5, data=p4d.P4Data(bool=True))},
        {"value_set_entry": p4r.ValueSetEntry(value_set_id=5)},
        {"digest_entry": p4r.DigestEntry(digest_id=5)},
        {"action_profile_member": p4r.ActionProfileMember(action_profile_id=5)},
        {"action_profile_group": p4r.ActionProfileGroup(action_profile_id=5)},
    ):
        assert object_id(p4r.Entity(**entity)) == 5
    assert object_id(p4r.Entity(packet_replication_engine_entry=GROUP)) is None
    assert object_id(p4r.Entity()) is None


def role(name: str, message: Any) -> p4r.Role:
    """Return a role with a config."""
    packed = any_pb2.Any()
    packed.Pack(message)
    return p4r.Role(name=name, config=packed)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (role("", p4r.Uint128()), "default role has full access"),
        (role("r" * 70_000, p4r.Uint128()), "at most 65536"),
        (
            role("r", scheme(exclusive_p4_ids=[1], shared_p4_ids=[1])),
            "both exclusive and shared",
        ),
        (
            p4r.Role(
                name="r",
                config=any_pb2.Any(
                    type_url="type.googleapis.com/stratum.P4RoleConfig", value=b"\xff\xff"
                ),
            ),
            "not a valid stratum.P4RoleConfig",
        ),
    ],
)
def test_bad_role_configs(given: p4r.Role, words: str) -> None:
    """What cannot be enforced or remembered is refused, with the reason."""
    with pytest.raises(P4RuntimeError, match=words) as caught:
        read_config(given)
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
