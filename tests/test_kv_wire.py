"""The metadata frame: golden bytes, protobuf as an oracle, and hostile input."""

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.kv import proto
from host_stack.kv.errors import WireError
from host_stack.kv.ids import Role
from host_stack.kv.wire import EMPTY, Command, Control, Meta, NodeInfo, decode, encode

GOLDEN = {
    "add_node": (
        "08ffffffff07 1a1f 0802 121b 0801 10ffffffff07 1a09 3132372e302e302e31 20d0bb02 2800 5000"
        " 2000 2800 3000 4000 50ffffffff07 6000 6800",
        Meta(
            control=Control(Command.ADD_NODE, (NodeInfo(Role.WORKER, "127.0.0.1", 40400),)),
            timestamp=0,
        ),
    ),
    "barrier": (
        "08ffffffff07 1a04 0803 1807 2001 2800 3000 3800 4001 5000 6000 6800",
        Meta(
            control=Control(Command.BARRIER, barrier_group=7),
            request=True,
            app_id=0,
            customer_id=0,
            timestamp=1,
        ),
    ),
    "heartbeat": (
        "08ffffffff07 1a1b 0805 1217 0801 1009 1a09 3132372e302e302e31 20fdd302 2800 5000"
        " 2000 2800 3000 4002 50ffffffff07 6000 6800",
        Meta(
            control=Control(Command.HEARTBEAT, (NodeInfo(Role.WORKER, "127.0.0.1", 43517, 9),)),
            timestamp=2,
        ),
    ),
    "push": (
        "0800 2001 2801 3000 3800 4000 4a020809 5000 6000 6800",
        Meta(
            head=0,
            request=True,
            push=True,
            app_id=0,
            customer_id=0,
            timestamp=0,
            data_types=(8, 9),
        ),
    ),
    "pull": (
        "0800 2001 2800 3000 3800 4001 4a020809 5000 6001 6800",
        Meta(
            head=0,
            request=True,
            pull=True,
            app_id=0,
            customer_id=0,
            timestamp=1,
            data_types=(8, 9),
        ),
    ),
}

INT32 = st.integers(-(2**31), 2**31 - 1)
NODES = st.builds(
    NodeInfo,
    role=st.sampled_from(Role),
    hostname=st.text(max_size=20),
    port=INT32,
    id=INT32,
    is_recovery=st.booleans(),
    customer_id=INT32,
)
CONTROLS = st.one_of(
    st.builds(
        Control,
        cmd=st.sampled_from((1, 2, 5, 77, -1)),
        nodes=st.lists(NODES, max_size=3).map(tuple),
    ),
    st.builds(Control, cmd=st.just(int(Command.BARRIER)), barrier_group=INT32),
    st.builds(Control, cmd=st.just(int(Command.ACK)), msg_sig=st.integers(0, 2**64 - 1)),
)
METAS = st.builds(
    Meta,
    head=INT32,
    body=st.binary(max_size=40),
    control=st.none() | CONTROLS,
    request=st.booleans(),
    push=st.booleans(),
    pull=st.booleans(),
    simple_app=st.booleans(),
    app_id=INT32,
    timestamp=INT32,
    data_types=st.lists(st.integers(0, 11), max_size=3).map(tuple),
    customer_id=INT32,
    priority=INT32,
)


def _oracle_class():  # type: ignore[no-untyped-def]
    """Build the protobuf class of the metadata from the wire's field table."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="kv_oracle.proto", package="kv_oracle")

    def add(message: str, *fields: tuple[str, int, int, str]) -> None:
        entry = file.message_type.add(name=message)
        for name, number, kind, rest in fields:
            made = entry.field.add(name=name, number=number, type=kind, label=1)
            if "repeated" in rest:
                made.label = kinds.LABEL_REPEATED
            if "required" in rest:
                made.label = kinds.LABEL_REQUIRED
            if "packed" in rest:
                made.options.packed = True
            if kind == kinds.TYPE_MESSAGE:
                made.type_name = f".kv_oracle.{rest.split()[-1]}"

    int32, boolean = kinds.TYPE_INT32, kinds.TYPE_BOOL
    add(
        "Node",
        ("role", 1, int32, "required"),
        ("id", 2, int32, ""),
        ("hostname", 3, kinds.TYPE_STRING, ""),
        ("port", 4, int32, ""),
        ("is_recovery", 5, boolean, ""),
        ("customer_id", 10, int32, ""),
    )
    add(
        "Control",
        ("cmd", 1, int32, "required"),
        ("node", 2, kinds.TYPE_MESSAGE, "repeated Node"),
        ("barrier_group", 3, int32, ""),
        ("msg_sig", 4, kinds.TYPE_UINT64, ""),
    )
    add(
        "Meta",
        ("head", 1, int32, ""),
        ("body", 2, kinds.TYPE_BYTES, ""),
        ("control", 3, kinds.TYPE_MESSAGE, "Control"),
        ("request", 4, boolean, ""),
        ("push", 5, boolean, ""),
        ("simple_app", 6, boolean, ""),
        ("app_id", 7, int32, ""),
        ("timestamp", 8, int32, ""),
        ("data_types", 9, int32, "repeated packed"),
        ("customer_id", 10, int32, ""),
        ("data_size", 11, int32, ""),
        ("pull", 12, boolean, ""),
        ("priority", 13, int32, ""),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("kv_oracle.Meta"))


ORACLE = _oracle_class()
SCALARS = (
    "head",
    "body",
    "request",
    "push",
    "pull",
    "simple_app",
    "app_id",
    "timestamp",
    "customer_id",
    "priority",
)


def _agrees(meta: Meta, oracle) -> bool:  # type: ignore[no-untyped-def]
    """Whether protobuf has read the same values."""
    for name in SCALARS:
        unset = EMPTY if name in ("app_id", "timestamp") and not oracle.HasField(name) else None
        if getattr(meta, name) != (getattr(oracle, name) if unset is None else unset):
            return False
    if tuple(oracle.data_types) != meta.data_types:
        return False
    if meta.control is None:
        return not oracle.HasField("control") or oracle.control.cmd == 0
    control = oracle.control
    return (control.cmd, control.barrier_group, control.msg_sig) == (
        meta.control.cmd,
        meta.control.barrier_group,
        meta.control.msg_sig,
    ) and [
        (n.role, n.id if n.HasField("id") else EMPTY, n.hostname, n.port, n.customer_id)
        for n in control.node
    ] == [(n.role, n.id, n.hostname, n.port, n.customer_id) for n in meta.control.nodes]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes(name: str) -> None:
    """Each message kind has exactly the bytes of the C++ library."""
    text, meta = GOLDEN[name]
    assert encode(meta).hex(" ") == bytes.fromhex(text).hex(" ")
    assert decode(bytes.fromhex(text)) == meta


@settings(derandomize=True, max_examples=300)
@given(METAS)
def test_encode_matches_protobuf_and_decodes_back(meta: Meta) -> None:
    """Protobuf reads what was encoded, writes the same bytes, and decode inverts encode."""
    data = encode(meta)
    oracle = ORACLE.FromString(data)
    assert oracle.SerializeToString() == data
    assert _agrees(meta, oracle)
    assert decode(data) == meta


@settings(derandomize=True, max_examples=1500)
@given(st.binary(max_size=80))
def test_random_bytes_give_a_message_or_a_wire_error(data: bytes) -> None:
    """Nothing but WireError comes out, and what is accepted means the same to protobuf."""
    _check_hostile(data)


@settings(derandomize=True, max_examples=1500)
@given(METAS, st.data())
def test_damaged_messages_give_a_message_or_a_wire_error(meta: Meta, draw: st.DataObject) -> None:
    """Cut, changed and inserted bytes never lead to another exception or another meaning."""
    data = bytearray(encode(meta))
    for _ in range(draw.draw(st.integers(1, 3))):
        where = draw.draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw.draw(st.integers(0, 4))
        data[where : where + length] = draw.draw(st.binary(max_size=4))
    _check_hostile(bytes(data))


def _check_hostile(data: bytes) -> None:
    try:
        meta = decode(data)
    except WireError:
        return
    try:
        oracle = ORACLE.FromString(data)
    except DecodeError:
        pytest.fail(f"accepted what protobuf refuses: {data.hex()}")
    assert _agrees(meta, oracle)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("08", "cut off"),
        ("08ffffffffffffffffffff01", "longer than 10"),
        ("08ffffffffffffffffff7f", "64 bits"),
        ("088080808008", "32 signed bits"),
        ("0a00", "must be a varint"),
        ("1000", "length-delimited"),
        ("12ff01", "claims 255 bytes"),
        ("08000800", "twice"),
        ("2002", "truth value"),
        ("0000", "field number 0"),
        ("0b00", "wire type 3"),
        ("1a021807", "cmd is required"),
        ("1a0408021200", "role is required"),
        ("1a06080212020803", "not 0 (server)"),
        ("1a0608021205 0801", "claims 5 bytes, 2 follow"),
        ("1a0808021204 08001a01", "claims 1 bytes, 0 follow"),
        ("1a0908021205 08001a01ff", "not UTF-8"),
        ("4a0401010101", "at most 3"),
        ("4a0180", "cut off"),
        ("0d0000", "claims 4 bytes"),
        ("1500000000", "wire type 5"),
        ("110000000000000000", "wire type 1"),
    ],
)
def test_hostile_bytes_are_refused_with_the_reason(text: str, words: str) -> None:
    """Each kind of malformed field has its own message."""
    with pytest.raises(WireError, match=words.replace("(", r"\(").replace(")", r"\)")):
        decode(bytes.fromhex(text))


def test_too_many_nodes_are_refused() -> None:
    """A roster cannot make the receiver build millions of objects."""
    control = bytes.fromhex("0802") + bytes.fromhex("12020800") * 5000
    with pytest.raises(WireError, match="at most 4096"):
        decode(proto.encode_bytes(3, control))


def test_unknown_fields_are_skipped() -> None:
    """A later version may add fields."""
    known = bytes.fromhex(GOLDEN["push"][0])
    extra = bytes.fromhex("7807 8101 0001020304050607 9201 0101 9d01 00010203 5863")
    assert decode(extra + known + extra[:2]) == GOLDEN["push"][1]


def test_fields_may_come_in_any_order() -> None:
    """The order of fields carries no meaning."""
    data = bytes.fromhex("6800 6001 5000 4a020809 4001 3800 3000 2800 2001 0800")
    assert decode(data) == GOLDEN["pull"][1]


def test_unpacked_data_types_need_the_packed_form() -> None:
    """A lone unpacked number is a list of one; more than one must be packed."""
    assert decode(bytes.fromhex("4808")).data_types == (8,)
    with pytest.raises(WireError, match="twice"):
        decode(bytes.fromhex("48084809"))


def test_negative_uninitialised_barrier_group_is_read() -> None:
    """The C++ scheduler's barrier response carries an uninitialised group, often negative."""
    control = "0803" + "18" + "ffffffffffffffffff01"
    meta = decode(bytes.fromhex("08ffffffff07 1a0d" + control + "2000 3800 50ffffffffffffffffff01"))
    assert meta.control == Control(Command.BARRIER, barrier_group=-1)
    assert meta.customer_id == -1
