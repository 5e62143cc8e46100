"""Indirect meters, and what direct ones share with them: configurations and counts of colors."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4i, p4r

from softswitch.dataplane import DataPlane
from softswitch.meters import MeterConfig, MeterState
from softswitch.p4runtime.counters import cells, counter_data
from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_state import MeterInfo


def config_from_wire(info: MeterInfo, message: p4r.MeterConfig) -> MeterConfig:
    """Return a configuration that the type of the meter allows; raises P4RuntimeError."""
    if min(message.cir, message.cburst, message.pir, message.pburst, message.eburst) < 0:
        raise invalid(f"meter {info.name}: rates and bursts must not be negative")
    if info.kind == p4i.MeterSpec.TWO_RATE_THREE_COLOR:
        if message.eburst:
            raise invalid(f"meter {info.name} has two rates: eburst must be unset")
        if message.pir < message.cir:
            raise invalid(
                f"meter {info.name}: pir {message.pir} is below cir {message.cir}; it must not be"
            )
        return MeterConfig(message.cir, message.cburst, message.pir, message.pburst)
    if (message.pir, message.pburst) != (message.cir, message.cburst):
        raise invalid(f"meter {info.name} has a single rate: pir and pburst are cir and cburst")
    if info.kind == p4i.MeterSpec.SINGLE_RATE_TWO_COLOR and message.eburst:
        raise invalid(f"meter {info.name} has two colors: eburst must be unset")
    return MeterConfig(message.cir, message.cburst, 0, message.eburst, single_rate=True)


def config_to_wire(config: MeterConfig) -> p4r.MeterConfig:
    """Return the message of a configuration."""
    if config.single_rate:
        return p4r.MeterConfig(
            cir=config.cir,
            cburst=config.cburst,
            pir=config.cir,
            pburst=config.cburst,
            eburst=config.pburst,
        )
    return p4r.MeterConfig(
        cir=config.cir, cburst=config.cburst, pir=config.pir, pburst=config.pburst
    )


def colors_to_wire(state: MeterState) -> p4r.MeterCounterData:
    """Return the message of the counts of colors."""
    green, yellow, red = (counter_data(counts) for counts in state.colors)
    return p4r.MeterCounterData(green=green, yellow=yellow, red=red)


def check_colors(message: p4r.MeterCounterData, what: str) -> None:
    """Raise P4RuntimeError unless the counts are zero: they can only be cleared."""
    for counts in (message.green, message.yellow, message.red):
        if counts.packet_count or counts.byte_count:
            raise invalid(f"{what}: counts of colors can only be set to zero")


def modify_meter(schema: Schema, dataplane: DataPlane, message: p4r.MeterEntry) -> None:
    """Configure one cell or, without an index, all of them; raises P4RuntimeError."""
    info = schema.meter(message.meter_id)
    selected = cells(message, info.name, info.size)
    config = None
    if message.HasField("config"):
        config = config_from_wire(info, message.config)
    store = dataplane.meters[info.name]
    if message.HasField("counter_data"):
        check_colors(message.counter_data, f"meter {info.name}")
        store.clear(selected.start, len(selected))
    store.write(selected.start, config, len(selected))


def read_meters(
    schema: Schema, dataplane: DataPlane, query: p4r.MeterEntry
) -> Iterator[p4r.Entity]:
    """Return the cells that `query` selects, as they are now; raises P4RuntimeError."""
    if query.meter_id:
        infos = [schema.meter(query.meter_id)]
    else:
        infos = [info for info in schema.meters.values() if not info.table_id]
        if query.HasField("index"):
            raise invalid("meter_id is 0 (all meters); no index can go with it")
    with_colors = query.HasField("counter_data")
    snapshot = []
    for info in infos:
        selected = cells(query, info.name, info.size)
        states = dataplane.meters[info.name].read(selected.start, len(selected))
        snapshot.append((info.id, selected, states))
    return (
        _to_wire(meter_id, index, state, with_colors=with_colors)
        for meter_id, selected, states in snapshot
        for index, state in zip(selected, states, strict=True)
    )


def meter_state(schema: Schema, dataplane: DataPlane) -> Iterator[p4r.Update]:
    """Return the updates that make the configurations that there are now."""
    for entity in read_meters(schema, dataplane, p4r.MeterEntry()):
        if entity.meter_entry.HasField("config"):
            yield p4r.Update(type=p4r.Update.MODIFY, entity=entity)


def _to_wire(meter_id: int, index: int, state: MeterState, *, with_colors: bool) -> p4r.Entity:
    entry = p4r.MeterEntry(meter_id=meter_id, index=p4r.Index(index=index))
    if state.config is not None:
        entry.config.CopyFrom(config_to_wire(state.config))
    if with_colors:
        entry.counter_data.CopyFrom(colors_to_wire(state))
    return p4r.Entity(meter_entry=entry)
