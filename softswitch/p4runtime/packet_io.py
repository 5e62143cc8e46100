"""Packets between controllers and the CPU port (specification, section "Packet I/O").

On the CPU port a packet carries the program's packet_in or packet_out header in front; on the
wire to the controller the header's fields travel as metadata.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from finsy.proto import p4r

from softswitch.dataplane import DataPlane
from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.schema_types import HeaderInfo

LOGGER = logging.getLogger(__name__)

MAX_PACKET_BYTES = 9216
POLL_S = 0.2
"""How long the pump waits before it looks whether it should end."""


def packet_out_bytes(schema: Schema, message: p4r.PacketOut) -> bytes:
    """Return the packet that enters the pipeline; raises P4RuntimeError."""
    header = schema.headers.get("packet_out", HeaderInfo("packet_out", ()))
    if len(message.payload) > MAX_PACKET_BYTES:
        raise invalid(f"payload of {len(message.payload)} bytes; at most {MAX_PACKET_BYTES}")
    given: dict[int, bytes] = {}
    for item in message.metadata:
        if item.metadata_id in given:
            raise invalid(f"metadata {item.metadata_id} is given twice")
        given[item.metadata_id] = item.value
    wanted = {item.id for item in header.fields}
    if set(given) != wanted:
        names = ", ".join(f"{item.name} ({item.id})" for item in header.fields) or "none"
        raise invalid(f"metadata ids {sorted(given)} are not the packet_out header's: {names}")
    bits = 0
    for field in header.fields:
        bits = bits << field.width | field.wire.read(given[field.id], field.name)
    padding = -header.width % 8
    payload: bytes = message.payload
    return (bits << padding).to_bytes((header.width + padding) // 8, "big") + payload


def packet_in_message(schema: Schema, packet: bytes) -> p4r.PacketIn | None:
    """Return the message for a packet from the CPU port; None if it is shorter than its header."""
    header = schema.headers.get("packet_in")
    if header is None:
        return p4r.PacketIn(payload=packet)
    size = (header.width + 7) // 8
    if len(packet) < size:
        return None
    bits = int.from_bytes(packet[:size], "big")
    left = size * 8
    message = p4r.PacketIn(payload=packet[size:])
    for item in header.fields:
        left -= item.width
        value = (bits >> left) & ((1 << item.width) - 1)
        message.metadata.add(metadata_id=item.id, value=item.wire.write(value))
    return message


class PacketInPump:
    """A thread that takes the packets of one data plane's CPU port to the controllers."""

    def __init__(
        self, schema: Schema, dataplane: DataPlane, deliver: Callable[[p4r.PacketIn], None]
    ) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._deliver = deliver
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="p4runtime-packet-in", daemon=True)

    def start(self) -> None:
        """Start delivering."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the data plane may be closed afterwards."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            for packet in self._dataplane.packet_in(POLL_S):
                message = packet_in_message(self._schema, packet)
                if message is None:
                    LOGGER.warning("packet of %d bytes has no packet_in header", len(packet))
                else:
                    self._deliver(message)
