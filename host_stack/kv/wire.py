"""The metadata frame of ps-lite: Meta, Control and Node to and from bytes.

`encode` writes exactly the bytes that the C++ library writes; `decode` takes fields in any
order and skips unknown ones, but refuses wrong types, repeated singular fields, numbers out of
range and lengths that do not add up, with WireError.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from host_stack.kv import proto
from host_stack.kv.errors import WireError
from host_stack.kv.ids import Role

EMPTY = 0x7FFFFFFF
"""ps-lite's mark for a number that is not set."""

MAX_NODES = 4096
MAX_DATA_FRAMES = 3


class Command(IntEnum):
    """What a control message asks for."""

    EMPTY = 0
    TERMINATE = 1
    ADD_NODE = 2
    BARRIER = 3
    ACK = 4
    HEARTBEAT = 5


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """How a node is named and reached; `id` is EMPTY, 2^31 - 1, before the scheduler gives one."""

    role: Role
    hostname: str = ""
    port: int = 0
    id: int = EMPTY
    is_recovery: bool = False
    customer_id: int = 0


@dataclass(frozen=True, slots=True)
class Control:
    """The control part of a message; `cmd` stays a plain number so that unknown ones survive."""

    cmd: int
    nodes: tuple[NodeInfo, ...] = ()
    barrier_group: int = 0
    msg_sig: int = 0


class Meta(NamedTuple):
    """The metadata of a message; `data_types` has one code for each data frame that follows.

    A tuple, for each message makes several, which a frozen dataclass does slowly.
    """

    head: int = EMPTY
    body: bytes = b""
    control: Control | None = None
    request: bool = False
    push: bool = False
    pull: bool = False
    simple_app: bool = False
    app_id: int = EMPTY
    timestamp: int = EMPTY
    data_types: tuple[int, ...] = ()
    customer_id: int = EMPTY
    priority: int = 0


def encode(meta: Meta) -> bytes:
    """Serialise a message's metadata, fields in ascending order."""
    parts = [proto.encode_int(1, meta.head)]
    if meta.body:
        parts.append(proto.encode_bytes(2, meta.body))
    if meta.control is not None:
        parts.append(proto.encode_bytes(3, _encode_control(meta.control)))
    parts.append(proto.encode_int(4, meta.request))
    parts.append(proto.encode_int(5, meta.push))
    parts.append(proto.encode_int(6, meta.simple_app))
    if meta.app_id != EMPTY:
        parts.append(proto.encode_int(7, meta.app_id))
    if meta.timestamp != EMPTY:
        parts.append(proto.encode_int(8, meta.timestamp))
    if meta.data_types:
        packed = b"".join(map(proto.encode_varint, meta.data_types))
        parts.append(proto.encode_bytes(9, packed))
    parts.append(proto.encode_int(10, meta.customer_id))
    parts.append(proto.encode_int(12, meta.pull))
    parts.append(proto.encode_int(13, meta.priority))
    return b"".join(parts)


def _encode_control(control: Control) -> bytes:
    parts = [proto.encode_int(1, control.cmd)]
    parts.extend(proto.encode_bytes(2, _encode_node(node)) for node in control.nodes)
    if control.cmd == Command.BARRIER:
        parts.append(proto.encode_int(3, control.barrier_group))
    elif control.cmd == Command.ACK:
        parts.append(proto.encode_int(4, control.msg_sig))
    return b"".join(parts)


def _encode_node(node: NodeInfo) -> bytes:
    return b"".join(
        (
            proto.encode_int(1, node.role),
            proto.encode_int(2, node.id),
            proto.encode_bytes(3, node.hostname.encode()),
            proto.encode_int(4, node.port),
            proto.encode_int(5, node.is_recovery),
            proto.encode_int(10, node.customer_id),
        )
    )


_Reader = Callable[[str, proto.FieldValue], Any]
_Readers = dict[int, tuple[str, str, _Reader]]
"""By field: its name, its name in errors, and how to read it."""


def _readers(what: str, fields: dict[int, tuple[str, _Reader]]) -> _Readers:
    return {field: (name, f"{what}.{name}", read) for field, (name, read) in fields.items()}


def _decode_singular(data: bytes, readers: _Readers) -> Any:
    """Read the fields that occur at most once; return them by name."""
    found: dict[str, Any] = {}
    for field, value in proto.decode_fields(data, readers):
        name, full_name, read = readers[field]
        if name in found:
            raise WireError(f"{full_name} occurs twice")
        found[name] = read(full_name, value)
    return found


def _read_role(name: str, value: proto.FieldValue) -> Role:
    number = proto.as_int32(name, value)
    if number not in (Role.SERVER, Role.WORKER, Role.SCHEDULER):
        raise WireError(f"{name} = {number} is not 0 (server), 1 (worker) or 2 (scheduler)")
    return Role(number)


def _read_text(name: str, value: proto.FieldValue) -> str:
    try:
        return proto.as_bytes(name, value).decode()
    except UnicodeDecodeError as error:
        raise WireError(f"{name} is not UTF-8: {error.reason}") from None


def _read_data_types(name: str, value: proto.FieldValue) -> tuple[int, ...]:
    codes = proto.as_packed_int32(name, value)
    if len(codes) > MAX_DATA_FRAMES:
        raise WireError(f"{name} lists {len(codes)} data frames, at most {MAX_DATA_FRAMES} exist")
    return codes


_NODE_READERS = _readers(
    "node",
    {
        1: ("role", _read_role),
        2: ("id", proto.as_int32),
        3: ("hostname", _read_text),
        4: ("port", proto.as_int32),
        5: ("is_recovery", proto.as_bool),
        10: ("customer_id", proto.as_int32),
    },
)


def _decode_node(data: bytes) -> NodeInfo:
    found = _decode_singular(data, _NODE_READERS)
    if "role" not in found:
        raise WireError("node.role is required and missing")
    return NodeInfo(**found)


_CONTROL_READERS = _readers(
    "control",
    {
        1: ("cmd", proto.as_int32),
        3: ("barrier_group", proto.as_int32),
        4: ("msg_sig", proto.as_uint64),
    },
)
_CONTROL_NODE_FIELD = 2


def _read_control(name: str, value: proto.FieldValue) -> Control | None:
    data = proto.as_bytes(name, value)
    found = _decode_singular(data, _CONTROL_READERS)
    if "cmd" not in found:
        raise WireError("control.cmd is required and missing")
    raw = [node for _, node in proto.decode_fields(data, {_CONTROL_NODE_FIELD})]
    if len(raw) > MAX_NODES:
        raise WireError(f"control.node lists {len(raw)} nodes, at most {MAX_NODES} are allowed")
    if found["cmd"] == Command.EMPTY:
        return None
    nodes = tuple(_decode_node(proto.as_bytes("control.node", item)) for item in raw)
    return Control(nodes=nodes, **found)


_META_READERS = _readers(
    "meta",
    {
        1: ("head", proto.as_int32),
        2: ("body", proto.as_bytes),
        3: ("control", _read_control),
        4: ("request", proto.as_bool),
        5: ("push", proto.as_bool),
        6: ("simple_app", proto.as_bool),
        7: ("app_id", proto.as_int32),
        8: ("timestamp", proto.as_int32),
        9: ("data_types", _read_data_types),
        10: ("customer_id", proto.as_int32),
        12: ("pull", proto.as_bool),
        13: ("priority", proto.as_int32),
    },
)


def decode(data: bytes) -> Meta:
    """Read a metadata frame; raises WireError on anything that the protocol does not allow."""
    found = _decode_singular(data, _META_READERS)
    found.setdefault("head", 0)
    found.setdefault("customer_id", 0)
    return Meta(**found)
