"""Ports of a running switch: network interfaces, the CPU port and the data-plane thread."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import select
import threading
from dataclasses import dataclass

from softswitch.batch import Library
from softswitch.binding import u64_array
from softswitch.errors import PortError

MAX_PORT = 510
MAX_PACKET_BYTES = 10240
RING_PLACES = 4096
"""Frames that a port's receive ring holds, 2 KiB of memory each."""
MAX_RING_PLACES = 1 << 18

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class PortStats:
    """Counters of one port since it was attached (packets, except `*_bytes`).

    `tx_errors` were refused by the interface, `oversize` too long, `rx_dropped` lost by the kernel
    because the switch did not take them in time.
    """

    ifname: str
    rx: int
    rx_bytes: int
    tx: int
    tx_bytes: int
    tx_errors: int
    oversize: int
    rx_dropped: int


class Ports:
    """Interfaces and the thread that serves them. Not thread-safe except for `wait_cpu`."""

    def __init__(self, lib: Library, ctx: int) -> None:
        self._lib, self._ctx = lib, ctx
        self._names: dict[int, str] = {}
        self._thread: threading.Thread | None = None
        self._failure = 0
        self._cpu_event: int = lib.ss_cpu_event(ctx)

    def attach(self, port: int, ifname: str, ring_places: int = RING_PLACES) -> None:
        """Bind a port to an interface. Raises PortError."""
        if not 0 <= port <= MAX_PORT:
            raise PortError(f"port {port}, allowed is 0 to {MAX_PORT}")
        if not 0 <= ring_places <= MAX_RING_PLACES:
            raise PortError(f"a ring of {ring_places} places, allowed is 0 to {MAX_RING_PLACES}")
        try:
            name = os.fsencode(ifname)
        except UnicodeEncodeError:
            raise PortError(f"{ifname!r} is not the name of an interface") from None
        if b"\0" in name:
            raise PortError(f"{ifname!r} is not the name of an interface")
        code = self._lib.ss_port_attach(self._ctx, port, name, ring_places)
        if code == -errno.EEXIST:
            raise PortError(f"port {port} is attached to {self._names.get(port)!r} already")
        if code == -errno.EBUSY:
            raise PortError(f"port {port}: another switch, or port, has the interface {ifname!r}")
        if code == -errno.EPERM:
            raise PortError(f"port {port} on {ifname!r}: raw sockets need CAP_NET_RAW or root")
        if code < 0:
            raise PortError(f"port {port} cannot use interface {ifname!r}: {os.strerror(-code)}")
        self._names[port] = ifname
        if code > 0:
            LOGGER.warning(
                "port %d (%s) receives through its socket's buffer, which is slower: the kernel "
                "gave it no ring of %d frames (%s)",
                *(port, ifname, ring_places, os.strerror(code)),
            )

    def names(self) -> dict[int, str]:
        """Return the interface of each attached port."""
        return dict(self._names)

    def detach(self, port: int) -> None:
        """Release the interface of a port. Raises PortError."""
        if self._lib.ss_port_detach(self._ctx, port) != 0:
            raise PortError(f"port {port} is not attached")
        del self._names[port]

    def start(self) -> None:
        """Start the data-plane thread, unless it runs."""
        if self._thread is not None:
            return
        self._lib.ss_stop(self._ctx, 0)
        self._thread = threading.Thread(target=self._run, name="softswitch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._failure = self._lib.ss_run(self._ctx)
        if self._failure:
            LOGGER.error("the data plane has stopped: %s", os.strerror(self._failure))

    def stop(self) -> None:
        """Stop the data-plane thread. Raises PortError when it had failed."""
        if self._thread is None:
            return
        self._lib.ss_stop(self._ctx, 1)
        self._thread.join()
        self._thread = None
        if self._failure:
            raise PortError(f"the data plane had stopped: {os.strerror(self._failure)}")

    def stats(self) -> dict[int, PortStats]:
        """Return the counters of all attached ports."""
        result: dict[int, PortStats] = {}
        values = u64_array([0] * 7)
        for port, name in sorted(self._names.items()):
            if self._lib.ss_port_stats(self._ctx, port, values) == 0:
                result[port] = PortStats(name, *values)
        return result

    def set_cpu(self, port: int | None) -> None:
        """Choose the port whose packets are kept for the controller."""
        if port is not None and not 0 <= port <= MAX_PORT:
            raise PortError(f"CPU port {port}, allowed is 0 to {MAX_PORT}")
        self._lib.ss_cpu_port(self._ctx, -1 if port is None else port)

    def wait_cpu(self, timeout_s: float) -> None:
        """Wait until there are packets for the controller, at most `timeout_s`."""
        poll = select.poll()
        poll.register(self._cpu_event, select.POLLIN)
        poll.poll(max(timeout_s, 0.0) * 1000)

    def take_cpu(self) -> list[bytes]:
        """Return the packets that wait for the controller, oldest first."""
        packets: list[bytes] = []
        room = ctypes.create_string_buffer(MAX_PACKET_BYTES + 64)
        while (size := self._lib.ss_cpu_receive(self._ctx, room, len(room))) >= 0:
            packets.append(room.raw[:size])
        return packets
