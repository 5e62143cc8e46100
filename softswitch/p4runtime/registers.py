"""Registers of bit<W>, int<W> and bool cells."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4d, p4r

from softswitch.dataplane import DataPlane
from softswitch.p4runtime import values
from softswitch.p4runtime.counters import cells
from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_types import RegisterInfo


def modify_register(schema: Schema, dataplane: DataPlane, message: p4r.RegisterEntry) -> None:
    """Write one cell or, without an index, all of them; raises P4RuntimeError."""
    info = schema.register(message.register_id)
    selected = cells(message, info.name, info.size)
    if not message.HasField("data"):
        raise invalid(f"register {info.name}: the data to write is not set")
    value = _from_wire(info, message.data)
    dataplane.register_write(info.name, selected.start, value, len(selected))


def read_registers(
    schema: Schema, dataplane: DataPlane, query: p4r.RegisterEntry
) -> Iterator[p4r.Entity]:
    """Return the cells that `query` selects, as they are now; raises P4RuntimeError."""
    if query.register_id:
        infos = [schema.register(query.register_id)]
    else:
        infos = list(schema.registers.values())
        if query.HasField("index"):
            raise invalid("register_id is 0 (all registers); no index can go with it")
    snapshot = []
    for info in infos:
        selected = cells(query, info.name, info.size)
        cell_values = dataplane.register_read(info.name, selected.start, len(selected))
        snapshot.append((info, selected, cell_values))
    return (
        _to_wire(info, index, value)
        for info, selected, cell_values in snapshot
        for index, value in zip(selected, cell_values, strict=True)
    )


def _to_wire(info: RegisterInfo, index: int, value: int) -> p4r.Entity:
    if info.is_bool:
        data = p4d.P4Data(bool=bool(value))
    elif info.signed:
        sign = 1 << (info.width - 1)
        data = p4d.P4Data(bitstring=values.encode_signed((value ^ sign) - sign))
    else:
        data = p4d.P4Data(bitstring=values.encode(value))
    return p4r.Entity(
        register_entry=p4r.RegisterEntry(
            register_id=info.id, index=p4r.Index(index=index), data=data
        )
    )


def _from_wire(info: RegisterInfo, data: p4d.P4Data) -> int:
    """Return the cell's bits as an unsigned integer."""
    kind = data.WhichOneof("data")
    expected = "bool" if info.is_bool else "bitstring"
    if kind != expected:
        raise invalid(f"register {info.name}: data is {kind or 'unset'}; its cells are {expected}")
    if info.is_bool:
        return int(data.bool)
    what = f"register {info.name}"
    if info.signed:
        return values.decode_signed(data.bitstring, info.width, what) & ((1 << info.width) - 1)
    return values.decode(data.bitstring, info.width, what)
