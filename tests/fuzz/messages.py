"""Target `messages`: P4Runtime requests to a live server.

An input is a byte that names the RPC and the serialized request. The server answers each with a
status that says whose fault it was, and goes on.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import grpc
from finsy.proto import U128, p4d, p4r
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from softswitch.p4runtime.server import P4RuntimeServer
from tests.fuzz.mutate import NUMBERS
from tests.p4rt_support import (
    IDS,
    JSON_PATH,
    P4INFO,
    Client,
    action,
    batch_errors,
    config,
    delete,
    exact,
    insert,
    l2_entry,
    modify,
)

TIMEOUT_S = 60.0
CPU_PORT = 255
RPCS: tuple[tuple[str, type[Message]], ...] = (
    ("Write", p4r.WriteRequest),
    ("Read", p4r.ReadRequest),
    ("GetForwardingPipelineConfig", p4r.GetForwardingPipelineConfigRequest),
    ("Capabilities", p4r.CapabilitiesRequest),
    ("StreamChannel", p4r.StreamMessageRequest),
    ("SetForwardingPipelineConfig", p4r.SetForwardingPipelineConfigRequest),
)
BYTES = (b"", b"\0", b"\1", b"\0\1", b"\xff" * 6, b"\xff" * 40, b"\x80")
OWN_FAULTS = (grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN)


def entities() -> list[p4r.Entity]:
    """One valid entity of each kind that the test program has."""
    cell = p4r.Index(index=1)
    replicas = [p4r.Replica(egress_port=1, instance=1), p4r.Replica(egress_port=2, instance=1)]
    session = p4r.CloneSessionEntry(session_id=5, replicas=replicas, packet_length_bytes=64)
    group = p4r.MulticastGroupEntry(multicast_group_id=7, replicas=replicas)
    register = p4r.RegisterEntry(
        register_id=IDS["last_source"], index=cell, data=p4d.P4Data(bitstring=b"\1")
    )
    lpm = p4r.FieldMatch(field_id=1, lpm=p4r.FieldMatch.LPM(value=b"\x0a\0\0\0", prefix_len=8))
    ternary = p4r.FieldMatch(field_id=1, ternary=p4r.FieldMatch.Ternary(value=b"\1", mask=b"\1"))
    l2 = l2_entry(b"\1")
    counter = p4r.CounterData(packet_count=1, byte_count=2)
    return [
        p4r.Entity(table_entry=l2),
        p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["l2"])),
        p4r.Entity(
            table_entry=p4r.TableEntry(
                table_id=IDS["routes"], match=[lpm], action=action("route", b"\1", b"\2")
            )
        ),
        p4r.Entity(
            table_entry=p4r.TableEntry(
                table_id=IDS["acl"], match=[ternary], priority=3, action=action("drop")
            )
        ),
        p4r.Entity(
            table_entry=p4r.TableEntry(
                table_id=IDS["types"], match=[exact(1, b"\1")], is_default_action=True
            )
        ),
        p4r.Entity(
            counter_entry=p4r.CounterEntry(counter_id=IDS["port_counter"], index=cell, data=counter)
        ),
        p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=l2, data=counter)),
        p4r.Entity(register_entry=register),
        p4r.Entity(
            packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
                multicast_group_entry=group
            )
        ),
        p4r.Entity(
            packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
                clone_session_entry=session
            )
        ),
    ]


def valid_requests() -> list[Message]:
    """Requests that a controller might send."""
    election_id = U128.encode(1)
    requests: list[Message] = []
    for entity in entities():
        kind = entity.WhichOneof("entity")
        value = {str(kind): getattr(entity, str(kind))}
        for make in (insert, modify, delete):
            requests.append(
                p4r.WriteRequest(device_id=1, election_id=election_id, updates=[make(**value)])
            )
        requests.append(p4r.ReadRequest(device_id=1, entities=[entity]))
    for atomicity in p4r.WriteRequest.Atomicity.values():
        updates = [insert(table_entry=l2_entry(bytes([i, 7]))) for i in range(4)]
        requests.append(
            p4r.WriteRequest(
                device_id=1, election_id=election_id, updates=updates, atomicity=atomicity
            )
        )
    requests.append(p4r.CapabilitiesRequest())
    requests.append(p4r.GetForwardingPipelineConfigRequest(device_id=1))
    arbitration = p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(0))
    requests.append(p4r.StreamMessageRequest(arbitration=arbitration))
    metadata = [p4r.PacketMetadata(metadata_id=i, value=b"\1") for i in (1, 2)]
    packet = p4r.PacketOut(payload=bytes(60), metadata=metadata)
    requests.append(p4r.StreamMessageRequest(packet=packet))
    set_config = p4r.SetForwardingPipelineConfigRequest
    for verb in (set_config.VERIFY, set_config.VERIFY_AND_SAVE, set_config.COMMIT):
        what = None if verb == set_config.COMMIT else config()
        requests.append(set_config(device_id=1, election_id=election_id, action=verb, config=what))
    return requests


class Messages:
    """Mutates valid requests, field by field, and sends them to a server of its own."""

    def __init__(self, rng: random.Random, corpus: list[bytes]) -> None:
        self._rng = rng
        self._seeds: list[Message] = valid_requests()
        self._seeds += [message for data in corpus if (message := decode(data)) is not None]
        self.reached = 0
        """Requests that were granted."""
        self._server = P4RuntimeServer("127.0.0.1:0", cpu_port=CPU_PORT)
        self._server.start()
        self._server.commit(P4INFO, JSON_PATH.read_bytes())
        self._client = Client(self._server.address)
        self._client.arbitrate()
        self._faults = _Faults()
        logging.getLogger("softswitch").addHandler(self._faults)

    def inputs(self) -> Iterator[bytes]:
        """Return mutated requests without end."""
        while True:
            seed = self._rng.choice(self._seeds)
            # A pipeline takes a second to compile.
            if (
                isinstance(seed, p4r.SetForwardingPipelineConfigRequest)
                and self._rng.random() < 0.8
            ):
                continue
            message = type(seed)()
            message.CopyFrom(seed)
            for _ in range(self._rng.choice((1, 1, 2, 4))):
                self._mutate(message)
            yield encode(message)

    def run(self, data: bytes) -> None:
        """Send one request; a status that is the server's own fault raises."""
        message = decode(data)
        if message is None:
            return
        if isinstance(message, p4r.StreamMessageRequest):
            self._stream(message)
        else:
            call = getattr(self._client.stub, RPCS[data[0]][0])
            try:
                answer = call(message, timeout=TIMEOUT_S)
                if isinstance(message, p4r.ReadRequest):
                    list(answer)
                self.reached += 1
            except grpc.RpcError as error:
                check_status(error)
        assert not self._faults.records, self._faults.records
        self._client.stub.Capabilities(p4r.CapabilitiesRequest(), timeout=TIMEOUT_S)

    def close(self) -> None:
        """End the server."""
        logging.getLogger("softswitch").removeHandler(self._faults)
        self._client.close()
        self._server.stop()

    def _stream(self, message: p4r.StreamMessageRequest) -> None:
        """Send on a stream of its own, and end the stream."""
        try:
            for _ in self._client.stub.StreamChannel(iter([message]), timeout=TIMEOUT_S):
                pass
        except grpc.RpcError as error:
            check_status(error)

    def _mutate(self, message: Message) -> None:
        place = self._rng.choice(list(_fields(message)))
        _change(self._rng, *place)


class _Faults(logging.Handler):
    """Keeps what the server logs as its own fault."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append(self.format(record))


def encode(message: Message) -> bytes:
    """Return the input that stands for a request."""
    kind = next(i for i, (_, make) in enumerate(RPCS) if isinstance(message, make))
    return bytes([kind]) + message.SerializeToString()


def decode(data: bytes) -> Message | None:
    """Return the request of an input, None if it is not one: gRPC itself refuses these."""
    if not data or data[0] >= len(RPCS):
        return None
    try:
        return RPCS[data[0]][1].FromString(data[1:])
    except DecodeError:
        return None


def check_status(error: Any) -> None:
    """A batch may fail as UNKNOWN if its details say why; nothing else may be unknown."""
    codes = [error.code()]
    if error.code() is grpc.StatusCode.UNKNOWN:
        by_number = {code.value[0]: code for code in grpc.StatusCode}
        codes = [by_number[item.canonical_code] for item in batch_errors(error)]
    assert not set(codes) & set(OWN_FAULTS), error


def _fields(message: Message) -> Iterator[tuple[Any, FieldDescriptor]]:
    """All fields of a message and of those in it."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        yield message, field
        if field.message_type is None:
            continue
        if field.is_repeated:
            for item in getattr(message, field.name):
                yield from _fields(item)
        elif message.HasField(field.name):
            yield from _fields(getattr(message, field.name))


def _change(rng: random.Random, message: Any, field: FieldDescriptor) -> None:
    if rng.random() < 0.15:
        message.ClearField(field.name)
    elif field.is_repeated:
        items = getattr(message, field.name)
        if items and rng.random() < 0.4:
            del items[rng.randrange(len(items))]
        elif field.message_type is not None:
            new = items.add()
            if len(items) > 1:
                new.CopyFrom(rng.choice(items[:-1]))
        else:
            items.append(_value(rng, field))
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(rng, field))


def _value(rng: random.Random, field: FieldDescriptor) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_STRING:
                return rng.choice(("", "x", "l2", "scalars", "é" * 20))
            return rng.choice((*BYTES, rng.randbytes(rng.randrange(9))))
        case FieldDescriptor.CPPTYPE_ENUM:
            return rng.choice((0, 1, 2, 3, 77))
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return rng.choice((0.0, -1.0, 1e300))
        case kind:
            wide = kind in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)
            signed = kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
            bits = 64 if wide else 32
            number = rng.choice((*NUMBERS, *IDS.values(), rng.getrandbits(bits))) % (1 << bits)
            return number - (1 << bits) if signed and number >> (bits - 1) else number
