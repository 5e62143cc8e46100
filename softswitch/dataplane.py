"""The running data plane: a compiled program, its tables, its state and its ports.

A `DataPlane` is made from bmv2 JSON. Packets come from network interfaces (`attach_port`, `start`;
one thread that never holds Python's lock) or from memory (`inject`; no privileges needed). Every
write is atomic for packets: the data plane takes a lock per batch, writers take it per update.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from softswitch.batch import HeldWrites, Library
from softswitch.binding import load_library, split_records, u64_array
from softswitch.capture import CaptureOptions, CaptureStats, Recorder
from softswitch.digests import DigestQueue
from softswitch.engine import Handle
from softswitch.errors import (
    InvalidArgument,
    ResourceExhausted,
    SoftSwitchError,
)
from softswitch.faults import Direction, LinkFaults
from softswitch.links import Links, LinkStats
from softswitch.meters import MeterStore
from softswitch.ports import MAX_PACKET_BYTES, MAX_PORT, RING_PLACES, Ports, PortStats
from softswitch.profiles import GroupMember, ProfileStore
from softswitch.program import (
    MatchKey,
    Program,
    Reference,
    TableEntry,
)
from softswitch.programs import compile_program
from softswitch.replication import CloneSession, Replica, Replication
from softswitch.state import ProgramState
from softswitch.tables import TableStore
from softswitch.value_sets import ValueSetStore

__all__ = [
    "CaptureOptions",
    "CaptureStats",
    "CloneSession",
    "DataPlane",
    "Direction",
    "GroupMember",
    "LinkFaults",
    "LinkStats",
    "MatchKey",
    "PortStats",
    "Reference",
    "Replica",
    "TableEntry",
]

_LOG_BYTES = 512
_MAX_PARSER_ERRORS = 256


class DataPlane(ProgramState):
    """A switch that runs one program. All methods may be called from any thread.

    Names of tables, actions, counters and registers are those of the JSON file. Methods raise
    NotFound for an unknown name, InvalidArgument for a bad value, SoftSwitchError after close().
    """

    def __init__(self, program: Program, library: Path) -> None:
        self.program = program
        self.library = library
        self._lock = threading.RLock()
        self._lib = Library(load_library(library))
        ctx = self._lib.ss_create()
        if not ctx:
            raise ResourceExhausted("no memory for the tables and registers of the program")
        self._ctx: int | None = ctx
        self._ports = Ports(self._lib, ctx)
        self._links = Links(self._lib, ctx)
        self._recorder = Recorder(self._lib, ctx)
        self._replication = Replication(self._lib, ctx)
        self._handle = Handle(self._lib, ctx, self._lock)
        self.profiles = {
            name: ProfileStore(program, profile, self._handle)
            for name, profile in program.action_profiles.items()
        }
        """Action profiles by name."""
        self.meters = {
            name: MeterStore(meter, self._handle, program.tables.get(meter.table or ""))
            for name, meter in program.meter_arrays.items()
        }
        """Meter arrays by name, direct ones too."""
        self.value_sets = {
            name: ValueSetStore(value_set, self._handle)
            for name, value_set in program.value_sets.items()
        }
        """Parser value sets by name."""
        self.digests = DigestQueue(program.digests, self._handle)
        """What packets send to the control plane."""
        self._cpu_port: int | None = None
        try:
            self._tables = {
                name: TableStore(
                    program, table, self._lib, ctx, self.profiles.get(table.profile or "")
                )
                for name, table in program.tables.items()
            }
        except SoftSwitchError:
            self.close()
            raise

    @classmethod
    def load(
        cls, bmv2_json: bytes, *, cache_dir: Path | None = None, sanitize: bool = False
    ) -> Self:
        """Translate, compile (or take from the cache) and start a program.

        Raises BadProgram, UnsupportedConstruct, NoCompiler.
        """
        return cls(*compile_program(bmv2_json, cache_dir, sanitize=sanitize))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the data plane and free everything. May be called again."""
        with self._lock:
            if self._ctx is None:
                return
            try:
                self._ports.stop()
            finally:
                self._recorder.stop()
                self._lib.ss_destroy(self._ctx)
                self._ctx = None
                self._handle.close()

    @contextmanager
    def hold_writes(self) -> Iterator[HeldWrites]:
        """Hold back the writes of the calling thread, to apply them as one (`HeldWrites.apply`).

        Writes to tables, counters, registers, groups and sessions are checked and noted at once,
        so later ones build on them; packets see them when they are applied, all together. Who
        does not apply them has to undo them by opposite writes before the block ends. One thread
        at a time; reads of counters and registers see what packets see.
        """
        with self._lib.hold(self._open()) as held:
            yield held

    # Tables

    def mcast_group_set(self, group_id: int, replicas: Sequence[Replica]) -> None:
        """Create or replace a multicast group."""
        with self._lock:
            self._open()
            self._replication.set_group(group_id, replicas)

    def mcast_group_delete(self, group_id: int) -> None:
        """Remove a multicast group. Raises NotFound."""
        with self._lock:
            self._open()
            self._replication.delete_group(group_id)

    def mcast_groups(self) -> dict[int, tuple[Replica, ...]]:
        """Return all multicast groups."""
        with self._lock:
            return dict(self._replication.groups)

    def clone_session_set(
        self,
        session_id: int,
        replicas: Sequence[Replica],
        class_of_service: int = 0,
        packet_length: int = 0,
    ) -> None:
        """Create or replace a clone session; `packet_length` (bytes) truncates, 0 does not."""
        session = CloneSession(tuple(replicas), class_of_service, packet_length)
        with self._lock:
            self._open()
            self._replication.set_session(session_id, session)

    def clone_session_delete(self, session_id: int) -> None:
        """Remove a clone session. Raises NotFound."""
        with self._lock:
            self._open()
            self._replication.delete_session(session_id)

    def clone_sessions(self) -> dict[int, CloneSession]:
        """Return all clone sessions."""
        with self._lock:
            return dict(self._replication.sessions)

    # Packets in memory

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Run a packet, its clones and recirculations to completion; return (port, packet)s."""
        _check_packet(port, packet)
        out = ctypes.c_void_p()
        with self._lock:
            ctx = self._open()
            size = self._lib.ss_inject(ctx, port, packet, len(packet), ctypes.byref(out))
            if size < 0:
                raise ResourceExhausted("no buffer for the packet")
            raw = ctypes.string_at(out.value, size) if out.value and size else b""
        return split_records(raw)

    def inject_batch(
        self, port: int, packets: Sequence[bytes], rounds: int = 1
    ) -> tuple[float, int]:
        """Run packets `rounds` times without keeping what leaves, to measure the pipeline.

        Returns (nanoseconds of processor time per injected packet, packets that left).
        """
        for packet in packets:
            _check_packet(port, packet)
        if not packets or rounds < 1:
            raise InvalidArgument("inject_batch needs packets and at least one round")
        offsets = [0]
        for packet in packets:
            offsets.append(offsets[-1] + len(packet))
        sent = u64_array([0])
        with self._lock:
            elapsed_ns = self._lib.ss_inject_batch(
                self._open(),
                port,
                b"".join(packets),
                u64_array(offsets),
                len(packets),
                rounds,
                sent,
            )
        return elapsed_ns / (len(packets) * rounds), sent[0]

    # Links

    def set_link_faults(self, port: int, direction: Direction, faults: LinkFaults) -> None:
        """Set what the link of a port does to packets of one direction, from its packet 0 on.

        What waits on the link keeps its time; `LinkFaults()` ends all faults.
        """
        with self._lock:
            self._open()
            self._links.set_faults(port, direction, faults)

    def set_link_state(self, port: int, *, up: bool) -> None:
        """Cut the link of a port, in both directions and with what is on it, or mend it."""
        with self._lock:
            self._open()
            for direction in Direction:
                self._links.set_down(port, direction, down=not up)

    def link_faults(self) -> dict[tuple[int, Direction], LinkFaults]:
        """Return the faults of all links that were given any or were cut."""
        with self._lock:
            return dict(self._links.faults)

    def link_stats(self) -> dict[tuple[int, Direction], LinkStats]:
        """Return the counters of the same links."""
        with self._lock:
            self._open()
            return self._links.stats()

    def advance(self, ns: int) -> list[tuple[int, bytes]]:
        """Let `ns` nanoseconds pass on the links; return (port, packet)s that leave meanwhile.

        The clock of links is virtual, and moves only so, while the data plane is not started.
        """
        with self._lock:
            self._open()
            return split_records(self._links.advance(ns))

    # Captures

    def capture_start(self, options: CaptureOptions) -> None:
        """Record what passes the ports from now on, one pcapng file per port.

        Raises CaptureError; InvalidArgument if a capture is in progress.
        """
        with self._lock:
            self._open()
            self._recorder.start(options, self._ports.names())

    def capture_stop(self) -> CaptureStats:
        """End the capture, with everything written, and return its counters."""
        with self._lock:
            self._open()
            return self._recorder.stop()

    def capture_stats(self) -> CaptureStats:
        """Return the counters of the capture in progress."""
        with self._lock:
            self._open()
            return self._recorder.stats()

    # CPU port

    def set_cpu_port(self, port: int | None) -> None:
        """Keep what leaves by `port` for packet_in() instead of sending it on an interface."""
        with self._lock:
            self._open()
            self._ports.set_cpu(port)
            self._cpu_port = port

    def packet_out(self, packet: bytes) -> None:
        """Run a packet as if received on the CPU port; what leaves goes to the ports."""
        with self._lock:
            ctx = self._open()
            if self._cpu_port is None:
                raise InvalidArgument("the switch has no CPU port: set one first")
            _check_packet(self._cpu_port, packet)
            if self._lib.ss_packet_out(ctx, self._cpu_port, packet, len(packet)) != 0:
                raise ResourceExhausted("no buffer for the packet")

    def packet_in(self, timeout_s: float) -> list[bytes]:
        """Wait for packets that left by the CPU port; [] after the timeout."""
        self._open()
        self._ports.wait_cpu(timeout_s)
        with self._lock:
            self._open()
            return self._ports.take_cpu()

    # Ports

    def attach_port(self, port: int, ifname: str, ring_places: int = RING_PLACES) -> None:
        """Bind a port (0 to 510) to a network interface. Raises PortError.

        `ring_places`: frames that the kernel keeps until the switch takes them, in a ring of 2 KiB
        of memory each; 0: in the socket's buffer, which takes memory only while it is needed.
        """
        with self._lock:
            self._open()
            self._ports.attach(port, ifname, ring_places)
            self._recorder.name(port, ifname)

    def detach_port(self, port: int) -> None:
        """Release a port's interface. Raises PortError."""
        with self._lock:
            self._open()
            self._ports.detach(port)

    def start(self) -> None:
        """Start to forward between the attached ports; more may be attached later."""
        with self._lock:
            self._open()
            self._ports.start()

    def stop(self) -> None:
        """Stop forwarding; ports stay attached."""
        with self._lock:
            self._open()
            self._ports.stop()

    def port_stats(self) -> dict[int, PortStats]:
        """Return the counters of the attached ports."""
        with self._lock:
            self._open()
            return self._ports.stats()

    def drop_stats(self) -> dict[str, int]:
        """Return how many packets went nowhere, by reason."""
        with self._lock:
            ctx = self._open()
            names: list[str] = self._lib.ss_drop_reasons().decode().split()
            out = u64_array([0] * len(names))
            self._lib.ss_drop_stats(ctx, out)
            return dict(zip(names, out, strict=True))

    def parser_errors(self) -> dict[str, int]:
        """Return how many packets the parser found each error in; v1model goes on with them."""
        with self._lock:
            out = u64_array([0] * _MAX_PARSER_ERRORS)
            self._lib.ss_parser_errors(self._open(), out)
        known = self.program.errors.items()
        return {name: out[code] for name, code in known if 0 < code < _MAX_PARSER_ERRORS}

    def log_messages(self) -> list[str]:
        """Return the messages of log_msg since the last call (at most the newest 256)."""
        lines: list[str] = []
        room = ctypes.create_string_buffer(_LOG_BYTES)
        with self._lock:
            while self._lib.ss_log_read(self._open(), room):
                lines.append(room.value.decode(errors="replace"))
        return lines


def _check_packet(port: int, packet: bytes) -> None:
    if not 0 <= port <= MAX_PORT:
        raise InvalidArgument(f"port {port}, allowed is 0 to {MAX_PORT}")
    if len(packet) > MAX_PACKET_BYTES:
        raise InvalidArgument(f"packet of {len(packet)} bytes, allowed are {MAX_PACKET_BYTES}")
