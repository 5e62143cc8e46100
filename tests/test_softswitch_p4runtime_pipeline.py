"""Pipelines: verify, save, commit, replace; and P4Info against the program."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest
from finsy.proto import p4i, p4r, rpc_code

from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import (
    IDS,
    JSON_PATH,
    P4INFO,
    Client,
    config,
    insert,
    l2_entry,
    read_p4info,
)

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

Action = p4r.SetForwardingPipelineConfigRequest
Cookie = p4r.ForwardingPipelineConfig.Cookie
L2 = p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["l2"]))


def refused(
    client: Client, action: int, what: p4r.ForwardingPipelineConfig | None
) -> grpc.RpcError:
    """Return the error of a SetForwardingPipelineConfig that must fail."""
    with pytest.raises(grpc.RpcError) as caught:
        client.set_config(action, what)
    return caught.value


@pytest.fixture
def client(empty_switch: P4RuntimeServer) -> Client:
    """Return the primary of a switch without a pipeline."""
    client = Client(empty_switch.address)
    assert client.arbitrate().status.code == rpc_code.OK
    return client


def test_commit_and_get(client: Client) -> None:
    """What was set is what is got, in the parts that are asked for."""
    what = config(cookie=Cookie(cookie=42))
    client.set_config(Action.VERIFY_AND_COMMIT, what)
    get = p4r.GetForwardingPipelineConfigRequest
    assert client.get_config().config == what
    assert client.get_config(get.COOKIE_ONLY).config == p4r.ForwardingPipelineConfig(
        cookie=Cookie(cookie=42)
    )
    assert client.get_config(get.P4INFO_AND_COOKIE).config == p4r.ForwardingPipelineConfig(
        p4info=P4INFO, cookie=Cookie(cookie=42)
    )
    assert client.get_config(get.DEVICE_CONFIG_AND_COOKIE).config == p4r.ForwardingPipelineConfig(
        p4_device_config=JSON_PATH.read_bytes(), cookie=Cookie(cookie=42)
    )


def test_unknown_response_type(client: Client) -> None:
    """A response type that does not exist is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        client.get_config(17)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_verify_changes_nothing(client: Client) -> None:
    """VERIFY leaves the switch without a pipeline."""
    client.set_config(Action.VERIFY, config())
    assert not client.get_config().HasField("config")
    with pytest.raises(grpc.RpcError):
        client.read(L2)


def test_save_then_commit(client: Client, empty_switch: P4RuntimeServer) -> None:
    """Writes after a save go to the saved pipeline, which runs from the commit on."""
    client.set_config(Action.VERIFY_AND_COMMIT, config(cookie=Cookie(cookie=1)))
    client.write(insert(table_entry=l2_entry(b"\x01")))
    old = empty_switch.dataplane
    client.set_config(Action.VERIFY_AND_SAVE, config(cookie=Cookie(cookie=2)))
    assert client.read(L2) == []
    client.write(insert(table_entry=l2_entry(b"\x02")))
    assert empty_switch.dataplane is old
    assert client.get_config().config.cookie.cookie == 1
    client.set_config(Action.COMMIT)
    assert client.get_config().config.cookie.cookie == 2
    assert empty_switch.dataplane is not old
    assert client.read(L2) == [p4r.Entity(table_entry=l2_entry(b"\x02"))]
    assert refused(client, Action.COMMIT, None).code() is grpc.StatusCode.NOT_FOUND


def test_new_pipeline_clears_the_state(client: Client) -> None:
    """VERIFY_AND_COMMIT starts anew, also over a saved pipeline."""
    client.set_config(Action.VERIFY_AND_COMMIT, config())
    client.write(insert(table_entry=l2_entry(b"\x01")))
    client.set_config(Action.VERIFY_AND_SAVE, config())
    client.set_config(Action.VERIFY_AND_COMMIT, config())
    assert client.read(L2) == []
    assert refused(client, Action.COMMIT, None).code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("action", "what", "code"),
    [
        (Action.UNSPECIFIED, config(), grpc.StatusCode.INVALID_ARGUMENT),
        (99, config(), grpc.StatusCode.INVALID_ARGUMENT),
        (Action.COMMIT, config(), grpc.StatusCode.INVALID_ARGUMENT),
        (Action.VERIFY, None, grpc.StatusCode.INVALID_ARGUMENT),
        (Action.VERIFY_AND_COMMIT, config(p4info=None), grpc.StatusCode.INVALID_ARGUMENT),
        (Action.VERIFY_AND_COMMIT, config(p4_device_config=b""), grpc.StatusCode.INVALID_ARGUMENT),
        (
            Action.VERIFY_AND_COMMIT,
            config(p4_device_config=b"\x00\xff junk"),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            Action.VERIFY_AND_COMMIT,
            config(p4_device_config=b"[" * 100_000),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            Action.VERIFY_AND_SAVE,
            config(
                p4info=p4i.P4Info(
                    tables=[p4i.Table(preamble=p4i.Preamble(id=0x02000009, name="none"))]
                )
            ),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
    ],
)
def test_bad_pipeline_leaves_the_old_one(
    client: Client, action: int, what: p4r.ForwardingPipelineConfig | None, code: grpc.StatusCode
) -> None:
    """Whatever is wrong with a request, the running pipeline and its tables go on."""
    client.set_config(Action.VERIFY_AND_COMMIT, config(cookie=Cookie(cookie=1)))
    client.write(insert(table_entry=l2_entry(b"\x01")))
    assert refused(client, action, what).code() is code
    assert client.get_config().config.cookie.cookie == 1
    assert client.read(L2) == [p4r.Entity(table_entry=l2_entry(b"\x01"))]


def test_negative_sizes_are_refused(client: Client) -> None:
    """P4Info has signed sizes."""
    info = p4i.P4Info()
    info.CopyFrom(P4INFO)
    _table(info, "l2").size = -1
    error = refused(client, Action.VERIFY, config(p4info=info))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "size -1" in error.details()


def test_only_the_primary_sets_pipelines(client: Client, empty_switch: P4RuntimeServer) -> None:
    """A backup is refused before any work is done."""
    with Client(empty_switch.address, 0) as backup:
        backup.arbitrate()
        error = refused(backup, Action.VERIFY_AND_COMMIT, config())
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert not client.get_config().HasField("config")


def _table(info: p4i.P4Info, name: str) -> p4i.Table:
    return next(table for table in info.tables if table.preamble.alias == name)


def _rename_table(info: p4i.P4Info) -> None:
    _table(info, "l2").preamble.name = "SwitchIngress.l3"


def _widen_key(info: p4i.P4Info) -> None:
    _table(info, "l2").match_fields[0].bitwidth = 32


def _other_match(info: p4i.P4Info) -> None:
    _table(info, "l2").match_fields[0].match_type = p4i.MatchField.LPM


def _drop_key(info: p4i.P4Info) -> None:
    del _table(info, "acl").match_fields[1]


def _same_field_ids(info: p4i.P4Info) -> None:
    _table(info, "acl").match_fields[1].id = 1


def _foreign_action(info: p4i.P4Info) -> None:
    _table(info, "l2").action_refs.add(id=IDS["mirror"])


def _dangling_action(info: p4i.P4Info) -> None:
    _table(info, "l2").action_refs.add(id=0x01FFFFFF)


def _widen_parameter(info: p4i.P4Info) -> None:
    for action in info.actions:
        if action.preamble.alias == "forward":
            action.params[0].bitwidth = 16


def _drop_parameter(info: p4i.P4Info) -> None:
    for action in info.actions:
        if action.preamble.alias == "forward":
            del action.params[0]


def _same_ids(info: p4i.P4Info) -> None:
    info.tables[1].preamble.id = info.tables[0].preamble.id


def _wrong_prefix(info: p4i.P4Info) -> None:
    info.counters[0].preamble.id = 0x02345678


def _no_name(info: p4i.P4Info) -> None:
    info.registers[0].preamble.name = ""


def _longer_counter(info: p4i.P4Info) -> None:
    info.counters[0].size = 17


def _longer_register(info: p4i.P4Info) -> None:
    info.registers[0].size = 1 << 30


def _narrow_register(info: p4i.P4Info) -> None:
    info.registers[0].type_spec.bitstring.bit.bitwidth = 8


def _unknown_register(info: p4i.P4Info) -> None:
    info.registers[0].preamble.name = "SwitchIngress.none"


def _direct_counter_elsewhere(info: p4i.P4Info) -> None:
    _table(info, "routes").direct_resource_ids.append(IDS["l2_counter"])


def _dangling_resource(info: p4i.P4Info) -> None:
    _table(info, "routes").direct_resource_ids.append(0x13FFFFFF)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_rename_table, "P4Info has table 'SwitchIngress.l3'"),
        (_widen_key, "32 bits wide in P4Info and 48 in the program"),
        (_other_match, "is lpm in P4Info and exact in the program"),
        (_drop_key, "3 key fields in P4Info and 4 in the program"),
        (_same_field_ids, "same id"),
        (_foreign_action, "SwitchIngress.mirror"),
        (_dangling_action, "0x01ffffff, which does not exist"),
        (_widen_parameter, "16 bits wide in P4Info and 9 in the program"),
        (_drop_parameter, "0 parameters in P4Info and 1 in the program"),
        (_same_ids, "belongs to both"),
        (_wrong_prefix, "must begin with byte 0x12"),
        (_no_name, "has no name"),
        (_longer_counter, "17 cells in P4Info and 16 in the program"),
        (_longer_register, "cells in P4Info and 8 in the program"),
        (_narrow_register, "cells of 8 bits in P4Info and 48 in the program"),
        (_unknown_register, "SwitchIngress.none"),
        (_direct_counter_elsewhere, "a direct counter, the program none"),
        (_dangling_resource, "which does not exist"),
    ],
)
def test_p4info_must_fit_the_program(
    client: Client, change: Callable[[p4i.P4Info], None], words: str
) -> None:
    """Each disagreement is refused, with both sides named."""
    info = read_p4info()
    change(info)
    error = refused(client, Action.VERIFY_AND_COMMIT, config(p4info=info))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in error.details()
    assert not client.get_config().HasField("config")
