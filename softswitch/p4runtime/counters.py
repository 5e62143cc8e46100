"""Indirect counters, and the counts that direct ones share with them."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.p4runtime.errors import invalid, out_of_range
from softswitch.p4runtime.schema import Schema

MAX_COUNT = (1 << 63) - 1
"""P4Runtime counts are int64; the data plane's own go further."""


def counter_data(counts: tuple[int, int]) -> p4r.CounterData:
    """Return the message of (packets, bytes)."""
    packets, octets = counts
    return p4r.CounterData(packet_count=min(packets, MAX_COUNT), byte_count=min(octets, MAX_COUNT))


def counts_from_wire(data: p4r.CounterData) -> tuple[int, int]:
    """Return (packets, bytes); raises P4RuntimeError for negative counts."""
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(
            f"counts must not be negative: {data.packet_count} packets, {data.byte_count} bytes"
        )
    return data.packet_count, data.byte_count


def cells(
    message: p4r.CounterEntry | p4r.RegisterEntry | p4r.MeterEntry, name: str, size: int
) -> range:
    """Return the cells that an entry's index selects: one, or all if it is unset."""
    if not message.HasField("index"):
        return range(size)
    index = message.index.index
    if index < 0:
        raise invalid(f"{name}: index {index} is negative; allowed are 0 to {size - 1}")
    if index >= size:
        raise out_of_range(f"{name}: index {index} is too large; allowed are 0 to {size - 1}")
    return range(index, index + 1)


def modify_counter(schema: Schema, dataplane: DataPlane, message: p4r.CounterEntry) -> None:
    """Set the counts of one cell or, without an index, of all; raises P4RuntimeError."""
    info = schema.counter(message.counter_id)
    selected = cells(message, info.name, info.size)
    if not message.HasField("data"):
        return
    packets, octets = counts_from_wire(message.data)
    for index in selected:
        dataplane.counter_write(info.name, index, packets, octets)


def read_counters(
    schema: Schema, dataplane: DataPlane, query: p4r.CounterEntry
) -> Iterator[p4r.Entity]:
    """Return the cells that `query` selects, as they are now; raises P4RuntimeError."""
    if query.counter_id:
        infos = [schema.counter(query.counter_id)]
    else:
        infos = list(schema.counters.values())
        if query.HasField("index"):
            raise invalid("counter_id is 0 (all counters); no index can go with it")
    snapshot = []
    for info in infos:
        selected = cells(query, info.name, info.size)
        counts = dataplane.counters_read(info.name, selected.start, len(selected))
        snapshot.append((info.id, selected, counts))
    return (
        p4r.Entity(
            counter_entry=p4r.CounterEntry(
                counter_id=counter_id, index=p4r.Index(index=index), data=counter_data(each)
            )
        )
        for counter_id, selected, counts in snapshot
        for index, each in zip(selected, counts, strict=True)
    )
