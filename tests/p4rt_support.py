"""What the P4Runtime tests share: the program `p4/p4rt_switch.p4` and a plain gRPC client."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_status
from google.protobuf import text_format
from google.protobuf.message import Message

PROGRAM = Path(__file__).parent / "p4" / "p4rt_switch"
JSON_PATH = PROGRAM.with_suffix(".json")
P4INFO_PATH = PROGRAM.with_suffix(".p4info.txtpb")
TIMEOUT_S = 30.0
COMPILE_S = 240.0
"""On a machine that is busy."""
CPU_PORT = 255


def read_p4info() -> p4i.P4Info:
    """Return a fresh copy of the program's P4Info."""
    return text_format.Parse(P4INFO_PATH.read_text(), p4i.P4Info())


P4INFO = read_p4info()

IDS: dict[str, int] = {
    item.preamble.alias: item.preamble.id
    for collection in ("tables", "actions", "counters", "direct_counters", "registers")
    for item in getattr(P4INFO, collection)
}


def config(**changes: Any) -> p4r.ForwardingPipelineConfig:
    """Return the program's pipeline config, with some fields changed."""
    fields = {"p4info": P4INFO, "p4_device_config": JSON_PATH.read_bytes(), **changes}
    return p4r.ForwardingPipelineConfig(**fields)


class Client:
    """A controller made of bare stubs. Election id 0 is as good as any; None leaves it unset."""

    def __init__(
        self,
        address: str,
        election_id: int | None = 1,
        role: str = "",
        role_config: Message | None = None,
    ) -> None:
        self.election_id = election_id
        self.role = role
        self.role_config = role_config
        self.address = address
        self.channel = grpc.insecure_channel(
            address,
            options=(
                ("grpc.max_metadata_size", 1 << 16),
                ("grpc.absolute_max_metadata_size", 1 << 17),
                ("grpc.max_receive_message_length", -1),
            ),
        )
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.responses: queue.Queue[p4r.StreamMessageResponse | grpc.RpcError] = queue.Queue()
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._call: Any = None

    def send(self, request: p4r.StreamMessageRequest) -> None:
        """Send on the stream, which opens with the first message."""
        if self._call is None:
            self._call = self.stub.StreamChannel(iter(self._requests.get, None))
            threading.Thread(target=self._receive, daemon=True).start()
        self._requests.put(request)

    def receive(self) -> p4r.StreamMessageResponse:
        """Return the next message of the stream, or raise the error that ended it."""
        response = self.responses.get(timeout=TIMEOUT_S)
        if isinstance(response, grpc.RpcError):
            raise response
        return response

    def arbitrate(self, **changes: Any) -> p4r.MasterArbitrationUpdate:
        """Ask to be primary and return the answer."""
        update = p4r.MasterArbitrationUpdate(**{"device_id": 1, **changes})
        if self.election_id is not None:
            update.election_id.CopyFrom(U128.encode(self.election_id))
        if self.role:
            update.role.name = self.role
        if self.role_config is not None:
            update.role.config.Pack(self.role_config)
        self.send(p4r.StreamMessageRequest(arbitration=update))
        reply = self.receive()
        assert reply.HasField("arbitration"), reply
        return reply.arbitration

    def write(self, *updates: p4r.Update, **changes: Any) -> None:
        """Write a batch of updates."""
        request = p4r.WriteRequest(
            **{"device_id": 1, "role": self.role, "updates": updates, **changes}
        )
        if self.election_id is not None:
            request.election_id.CopyFrom(U128.encode(self.election_id))
        self.stub.Write(request, timeout=TIMEOUT_S)

    def read(self, *queries: p4r.Entity, device_id: int = 1) -> list[p4r.Entity]:
        """Read and return all entities."""
        request = p4r.ReadRequest(device_id=device_id, role=self.role, entities=queries)
        responses = self.stub.Read(request, timeout=TIMEOUT_S)
        return [entity for response in responses for entity in response.entities]

    def set_config(self, action: int, what: p4r.ForwardingPipelineConfig | None = None) -> None:
        """Send a SetForwardingPipelineConfig."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=1, role=self.role, action=action, config=what
        )
        if self.election_id is not None:
            request.election_id.CopyFrom(U128.encode(self.election_id))
        self.stub.SetForwardingPipelineConfig(request, timeout=COMPILE_S)

    def get_config(self, response_type: int = 0) -> p4r.GetForwardingPipelineConfigResponse:
        """Send a GetForwardingPipelineConfig."""
        request = p4r.GetForwardingPipelineConfigRequest(device_id=1, response_type=response_type)
        return self.stub.GetForwardingPipelineConfig(request, timeout=TIMEOUT_S)

    def close(self) -> None:
        """Break the stream and the channel."""
        if self._call is not None:
            self._call.cancel()
        self.channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self) -> None:
        try:
            for response in self._call:
                self.responses.put(response)
        except grpc.RpcError as error:
            self.responses.put(error)


def eventually(call: Callable[[], object]) -> None:
    """Repeat a call that is refused until it is not, or too much time has passed."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            call()
            return
        except grpc.RpcError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def batch_errors(error: grpc.RpcError) -> list[p4r.Error]:
    """Return the p4.v1.Error of each element of a batch from the error's details."""
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            status = rpc_status.Status.FromString(value)
            assert status.code == error.code().value[0]
            assert status.message == error.details()
            errors = []
            for detail in status.details:
                errors.append(p4r.Error())
                assert detail.Unpack(errors[-1])
            return errors
    raise AssertionError(f"no details in {error}")


def refused(client: Client, update: p4r.Update) -> p4r.Error:
    """Write one update that must fail, and return its error."""
    with pytest.raises(grpc.RpcError) as caught:
        client.write(update)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    (error,) = batch_errors(caught.value)
    return error


def insert(**entity: Any) -> p4r.Update:
    """Return an INSERT of the entity given by its name in p4r.Entity."""
    return p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(**entity))


def modify(**entity: Any) -> p4r.Update:
    """Return a MODIFY of the entity given by its name in p4r.Entity."""
    return p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(**entity))


def delete(**entity: Any) -> p4r.Update:
    """Return a DELETE of the entity given by its name in p4r.Entity."""
    return p4r.Update(type=p4r.Update.DELETE, entity=p4r.Entity(**entity))


def action(name: str, *params: bytes) -> p4r.TableAction:
    """Return an action by alias, with its parameters in order."""
    return p4r.TableAction(
        action=p4r.Action(
            action_id=IDS[name],
            params=[
                p4r.Action.Param(param_id=number, value=value)
                for number, value in enumerate(params, 1)
            ],
        )
    )


def exact(field_id: int, value: bytes) -> p4r.FieldMatch:
    """Return an exact match."""
    return p4r.FieldMatch(field_id=field_id, exact=p4r.FieldMatch.Exact(value=value))


def l2_entry(mac: bytes, port: bytes = b"\x02", **changes: Any) -> p4r.TableEntry:
    """Return an entry of the exact table: destination to port."""
    fields = {"match": [exact(1, mac)], "action": action("forward", port), **changes}
    return p4r.TableEntry(table_id=IDS["l2"], **fields)
