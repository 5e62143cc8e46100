"""Target `messages`: P4Runtime requests to a live server.

An input is a byte that names the program, one for the RPC, and the serialized request. The server
answers each with a status that says whose fault it was, and goes on.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import grpc
from finsy.proto import p4r
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from softswitch.p4runtime.server import P4RuntimeServer
from tests.fuzz.mutate import NUMBERS
from tests.fuzz.requests import requests
from tests.p4rt_programs import program_files
from tests.p4rt_support import IDS, Client, batch_errors

TIMEOUT_S = 60.0
CPU_PORT = 255
PROGRAMS = ("p4rt_switch", "softswitch_entries", "softswitch_profiles", "softswitch_state")
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


class Messages:
    """Mutates valid requests, field by field, and sends them to servers of its own."""

    def __init__(self, rng: random.Random, corpus: list[bytes]) -> None:
        self._rng = rng
        self.reached = 0
        """Requests that were granted."""
        self._seeds: list[tuple[int, Message]] = []
        self._servers: list[P4RuntimeServer] = []
        self._clients: list[Client] = []
        for number, name in enumerate(PROGRAMS):
            info, source = program_files(name)
            self._seeds += [(number, request) for request in requests(info, source)]
            server = P4RuntimeServer("127.0.0.1:0", cpu_port=CPU_PORT)
            server.start()
            server.commit(info, source)
            self._servers.append(server)
            self._clients.append(Client(server.address))
            self._clients[-1].arbitrate()
        self._seeds += [found for data in corpus if (found := decode(data)) is not None]
        self._faults = _Faults()
        logging.getLogger("softswitch").addHandler(self._faults)

    def inputs(self) -> Iterator[bytes]:
        """Return mutated requests without end."""
        while True:
            number, seed = self._rng.choice(self._seeds)
            is_slow = isinstance(seed, p4r.SetForwardingPipelineConfigRequest)
            if is_slow and self._rng.random() < 0.8:  # a pipeline takes a second to compile
                continue
            message = type(seed)()
            message.CopyFrom(seed)
            for _ in range(self._rng.choice((0, 1, 1, 2, 4))):
                self._mutate(message)
            yield encode(number, message)

    def run(self, data: bytes) -> None:
        """Send one request; a status that is the server's own fault raises."""
        found = decode(data)
        if found is None:
            return
        number, message = found
        stub = self._clients[number].stub
        try:
            if isinstance(message, p4r.StreamMessageRequest):
                for _ in stub.StreamChannel(iter([message]), timeout=TIMEOUT_S):
                    pass
            else:
                answer = getattr(stub, RPCS[data[1]][0])(message, timeout=TIMEOUT_S)
                if isinstance(message, p4r.ReadRequest):
                    list(answer)
                self.reached += 1
        except grpc.RpcError as error:
            check_status(error)
        assert not self._faults.records, self._faults.records
        stub.Capabilities(p4r.CapabilitiesRequest(), timeout=TIMEOUT_S)

    def close(self) -> None:
        """End the servers."""
        logging.getLogger("softswitch").removeHandler(self._faults)
        for client, server in zip(self._clients, self._servers, strict=True):
            client.close()
            server.stop()

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


def encode(program: int, message: Message) -> bytes:
    """Return the input that stands for a request to the server of a program."""
    kind = next(i for i, (_, make) in enumerate(RPCS) if isinstance(message, make))
    return bytes([program, kind]) + message.SerializeToString()


def decode(data: bytes) -> tuple[int, Message] | None:
    """Return program and request of an input, None if it is not one: gRPC itself refuses these."""
    if len(data) < 2 or data[0] >= len(PROGRAMS) or data[1] >= len(RPCS):
        return None
    try:
        return data[0], RPCS[data[1]][1].FromString(data[2:])
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
