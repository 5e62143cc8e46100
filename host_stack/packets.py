"""Scapy layers: the one definition of Libra's packet format (section 4 of the design).

The numpy codec of the fast path is tested against these layers, and they serve teaching and
debugging. The number of lanes travels nowhere in a packet: `grad_layer(lanes)` and its siblings
make the layers of a layout; `bind(lanes)` lets Scapy dissect captures of it.
"""

from __future__ import annotations

from functools import cache

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    FieldLenField,
    FieldListField,
    FlagsField,
    IEEEFloatField,
    IntField,
    IPField,
    PacketListField,
    ShortField,
    XShortField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from host_stack.layout import UDP_PORT, WIRE_VERSION
from host_stack.wire import DrainFormat, Op


class Libra(Packet):  # type: ignore[misc]
    """The common header, 16 bytes."""

    name = "Libra"
    fields_desc = [
        BitField("version", WIRE_VERSION, 4),
        BitEnumField("op", Op.ACK, 4, {op.value: op.name for op in Op}),
        FlagsField("flags", 0, 8, ["duplicate", "by_server", "reply"]),
        XShortField("job", 0),
        ShortField("worker", 0),
        ShortField("reserved", 0),
        BitField("epoch", 0, 12),
        BitField("round", 0, 20),
        IntField("seq", 0),
    ]


class Drain(Packet):  # type: ignore[misc]
    """Asks for the sums of `rows` rows from `row` on, of one switch or of several together."""

    name = "Libra DRAIN"
    fields_desc = [
        ShortField("row", 0),
        ShortField("rows", 1),
        ByteEnumField("format", 0, {form.value: form.name for form in DrainFormat}),
        FieldLenField("hops", None, count_of="switches", fmt="B"),
        FieldListField("switches", [], IPField("", "0.0.0.0"), count_from=lambda p: p.hops),
    ]


class Probe(Packet):  # type: ignore[misc]
    """Asks a switch for its epoch and layout; the answer carries the REPLY flag."""

    name = "Libra PROBE"
    fields_desc = [
        ShortField("program", 0),
        ShortField("lanes", 0),
        ShortField("window", 0),
        ShortField("epoch", 0),
        ShortField("rows", 0),
        ShortField("reserved", 0),
    ]


class LaneGradient(Packet):  # type: ignore[misc]
    """A lane of a GRAD: which row, and the gradient."""

    name = "lane"
    fields_desc = [ShortField("row", 0), IEEEFloatField("grad", 0.0)]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Leave what follows to the next lane."""
        return b"", s


class DigitsCell(Packet):  # type: ignore[misc]
    """A drained cell as two signed digits."""

    name = "digits"
    fields_desc = [IntField("d1", 0), IntField("d0", 0)]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Leave what follows to the next cell."""
        return b"", s


class FloatCell(Packet):  # type: ignore[misc]
    """A finished float32."""

    name = "float32"
    fields_desc = [IEEEFloatField("value", 0.0)]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Leave what follows to the next cell."""
        return b"", s


@cache
def grad_layer(lanes: int) -> type[Packet]:
    """The GRAD payload of a layout: a bitmap of the lanes in use and every lane."""
    fields = [
        BitField("used", 0, lanes),
        PacketListField("lanes", [], LaneGradient, count_from=lambda _: lanes),
    ]
    return type(f"Grad{lanes}", (Packet,), {"name": "Libra GRAD", "fields_desc": fields})


@cache
def drained_layer(lanes: int) -> type[Packet]:
    """The DRAINED payload of a layout: a bitmap and the touched cells alone."""
    fields = [
        ShortField("row", 0),
        ByteEnumField("format", 0, {form.value: form.name for form in DrainFormat}),
        ByteField("hops", 0),
        BitField("used", 0, lanes),
        PacketListField(
            "cells",
            [],
            next_cls_cb=lambda p, _l, _c, _r: (
                DigitsCell if p.format == DrainFormat.DIGITS else FloatCell
            ),
            count_from=lambda p: p.used.bit_count(),
        ),
    ]
    return type(f"Drained{lanes}", (Packet,), {"name": "Libra DRAINED", "fields_desc": fields})


@cache
def partial_layer(lanes: int) -> type[Packet]:
    """The PARTIAL payload of a layout: every lane, touched or not, and the switches to come."""
    fields = [
        ShortField("row", 0),
        ByteEnumField("format", 0, {form.value: form.name for form in DrainFormat}),
        FieldLenField("hops", None, count_of="switches", fmt="B"),
        BitField("used", 0, lanes),
        PacketListField("cells", [], DigitsCell, count_from=lambda _: lanes),
        FieldListField("switches", [], IPField("", "0.0.0.0"), count_from=lambda p: p.hops),
    ]
    return type(f"Partial{lanes}", (Packet,), {"name": "Libra PARTIAL", "fields_desc": fields})


@cache
def update_layer(lanes: int) -> type[Packet]:
    """The UPDATE payload of a layout: the new values of the changed cells of a row."""
    fields = [
        ShortField("row", 0),
        BitField("used", 0, lanes),
        PacketListField("cells", [], FloatCell, count_from=lambda p: p.used.bit_count()),
    ]
    return type(f"Update{lanes}", (Packet,), {"name": "Libra UPDATE", "fields_desc": fields})


def bind(lanes: int) -> None:
    """Teach Scapy to dissect packets of a layout with this number of lanes."""
    bind_layers(UDP, Libra, dport=UDP_PORT)
    bind_layers(UDP, Libra, sport=UDP_PORT)
    bind_layers(Libra, grad_layer(lanes), op=Op.GRAD)
    bind_layers(Libra, Drain, op=Op.DRAIN)
    bind_layers(Libra, drained_layer(lanes), op=Op.DRAINED)
    bind_layers(Libra, update_layer(lanes), op=Op.UPDATE)
    bind_layers(Libra, Probe, op=Op.PROBE)
    bind_layers(Libra, partial_layer(lanes), op=Op.PARTIAL)
