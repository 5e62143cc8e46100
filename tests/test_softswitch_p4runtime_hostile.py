"""Random messages of every shape: the server answers each, and never with an internal error."""

from __future__ import annotations

import logging
import random
from typing import Any

import grpc
import pytest
from finsy.proto import p4r, rpc_code
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from tests.p4rt_support import IDS, Client, batch_errors, config, read_p4info

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

KNOWN = (0, 1, 2, 3, 9, *IDS.values(), 0xFFFFFFFF)
INTEGERS = (0, 1, -1, 2, 15, 16, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
BYTES = (b"", b"\x00", b"\x01", b"\x00\x01", b"\x00\xff", b"\xff" * 6, b"\xff" * 40)

VALUES: dict[int, tuple[Any, ...]] = {
    FieldDescriptor.CPPTYPE_STRING: BYTES,
    FieldDescriptor.CPPTYPE_BOOL: (False, False, False, True),
    FieldDescriptor.CPPTYPE_UINT32: KNOWN,
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2**64 - 1),
    FieldDescriptor.CPPTYPE_INT32: tuple(n for n in INTEGERS if -(2**31) <= n < 2**31),
    FieldDescriptor.CPPTYPE_INT64: INTEGERS,
    FieldDescriptor.CPPTYPE_ENUM: (0, 1, 2, 3, 77),
}

REFUSALS = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)


class Noise:
    """Fills messages with random fields, biased towards values that mean something."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def fill(self, message: Message, depth: int = 0) -> None:
        """Set a random choice of the fields of a message."""
        if message.DESCRIPTOR.full_name == "google.protobuf.Any" or depth > 8:
            return
        groups = {oneof.name for oneof in message.DESCRIPTOR.oneofs}
        for group in sorted(groups):
            fields = message.DESCRIPTOR.oneofs_by_name[group].fields
            self._set(message, self._random.choice(list(fields)), depth)
        for field in message.DESCRIPTOR.fields:
            if field.containing_oneof is None and self._random.random() < 0.6:
                self._set(message, field, depth)

    def _set(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        is_message = field.message_type is not None
        if is_message and field.message_type.GetOptions().map_entry:
            return
        if field.is_repeated:
            target: Any = getattr(message, field.name)
            for _ in range(self._random.randrange(3)):
                if is_message:
                    self.fill(target.add(), depth + 1)
                else:
                    target.append(self._value(field))
        elif is_message:
            getattr(message, field.name).SetInParent()
            self.fill(getattr(message, field.name), depth + 1)
        else:
            setattr(message, field.name, self._value(field))

    def _value(self, field: FieldDescriptor) -> Any:
        if field.type == FieldDescriptor.TYPE_STRING:
            return "text"
        return self._random.choice(VALUES[field.cpp_type])


def noise(descriptor: Descriptor, seed: int, make: type[Message], count: int) -> list[Any]:
    """Return `count` random messages of a type."""
    generator = Noise(seed)
    messages = []
    for _ in range(count):
        messages.append(make())
        assert messages[-1].DESCRIPTOR is descriptor
        generator.fill(messages[-1])
    return messages


def codes(error: grpc.RpcError, count: int) -> set[int]:
    """Return the codes of a batch's details, which must be complete."""
    assert error.code() is grpc.StatusCode.UNKNOWN, error
    errors = batch_errors(error)
    assert len(errors) == count
    return {item.canonical_code for item in errors}


@pytest.mark.parametrize("seed", range(6))
def test_random_updates_and_queries(
    primary: Client, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """Random batches are refused element by element; what was accepted can be read."""
    with caplog.at_level(logging.ERROR):
        updates = noise(p4r.Update.DESCRIPTOR, seed, p4r.Update, 100)
        with pytest.raises(grpc.RpcError) as caught:
            primary.write(*updates)
        assert rpc_code.INTERNAL not in codes(caught.value, 100)
        queries = noise(p4r.Entity.DESCRIPTOR, seed, p4r.Entity, 100)
        with pytest.raises(grpc.RpcError) as caught:
            primary.read(*queries)
        assert rpc_code.INTERNAL not in codes(caught.value, 100)
        everything = ("table_entry", "counter_entry", "direct_counter_entry", "register_entry")
        for name in everything:
            query = p4r.Entity()
            getattr(query, name).SetInParent()
            primary.read(query)
    assert caplog.records == []


@pytest.mark.parametrize("seed", range(4))
def test_damaged_p4info(primary: Client, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    """A P4Info with one damaged object is refused, or harmless; never an internal error."""
    generator, refusals = Noise(seed), 0
    with caplog.at_level(logging.ERROR):
        for number in range(20):
            info = read_p4info()
            objects = [*info.tables, *info.actions, *info.counters, *info.registers]
            objects += [*info.direct_counters, *info.controller_packet_metadata, info.type_info]
            generator.fill(objects[(seed * 20 + number) % len(objects)])
            try:
                primary.set_config(
                    p4r.SetForwardingPipelineConfigRequest.VERIFY, config(p4info=info)
                )
            except grpc.RpcError as error:
                assert error.code() in REFUSALS, error
                refusals += 1
    assert refusals > 5
    assert caplog.records == []


@pytest.mark.parametrize("seed", range(4))
def test_random_stream_messages(
    primary: Client, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """Random stream messages end or annoy their own stream only."""
    make = p4r.StreamMessageRequest
    with caplog.at_level(logging.ERROR):
        for request in noise(make.DESCRIPTOR, seed, make, 25):
            with Client(primary.address, 0) as other:
                other.send(request)
                try:
                    reply = other.receive()
                except grpc.RpcError as error:
                    assert error.code() is not grpc.StatusCode.INTERNAL
                else:
                    assert reply.error.canonical_code != rpc_code.INTERNAL
    assert caplog.records == []
    assert primary.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=IDS["l2"]))) == []
