"""The state of a running program that writers and readers reach by name.

Its tables, counters and registers; every write is atomic for packets.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

from softswitch.batch import Library
from softswitch.binding import u32_array, u64_array
from softswitch.errors import InvalidArgument, NotFound, SoftSwitchError
from softswitch.meters import DEFAULT_ENTRY
from softswitch.program import CounterArray, MatchKey, Program, RegisterArray, TableEntry
from softswitch.tables import TableStore


class ProgramState:
    """Tables, counters and registers of a `DataPlane`."""

    program: Program
    _lib: Library
    _lock: threading.RLock
    _ctx: int | None
    _tables: dict[str, TableStore]

    def _open(self) -> int:
        if self._ctx is None:
            raise SoftSwitchError("the data plane is closed")
        return self._ctx

    def _table(self, name: str) -> TableStore:
        self._open()
        if name not in self._tables:
            raise NotFound(f"the program has no table {name!r}")
        return self._tables[name]

    def table_add(self, table: str, entry: TableEntry) -> None:
        """Add an entry. Raises AlreadyExists or ResourceExhausted (the table is full)."""
        with self._lock:
            self._table(table).add(entry)

    def table_modify(self, table: str, entry: TableEntry) -> None:
        """Change the action and parameters of an entry. Raises NotFound."""
        with self._lock:
            self._table(table).modify(entry)

    def table_delete(self, table: str, key: Sequence[MatchKey], priority: int) -> None:
        """Remove an entry. Raises NotFound."""
        with self._lock:
            self._table(table).delete(key, priority)

    def table_thaw(self, table: str) -> None:
        """Let the entries that the program gives a table be changed.

        The JSON does not tell `entries` from `const entries`; P4Info does.
        """
        with self._lock:
            self._table(table).thaw()

    def table_entries(self, table: str) -> list[TableEntry]:
        """Return all entries of a table, constant ones included."""
        with self._lock:
            return self._table(table).entries()

    def table_set_default(self, table: str, action: str, params: Sequence[int]) -> None:
        """Change what happens on a miss."""
        with self._lock:
            self._table(table).set_default(action, params)

    def table_get_default(self, table: str) -> tuple[str, tuple[int, ...]]:
        """Return the default action and its parameters ("" when there is none)."""
        with self._lock:
            return self._table(table).get_default()

    def table_reset_default(self, table: str) -> None:
        """Return to the default action of the program."""
        with self._lock:
            self._table(table).reset_default()

    def entry_index(self, table: str, key: Sequence[MatchKey], priority: int) -> int:
        """Return the index of an entry's direct resources. Raises NotFound."""
        with self._lock:
            return self._table(table).handle(key, priority)

    def last_hits_us(self, table: str, indices: Sequence[int]) -> list[int]:
        """Return when entries, by `entry_index`, were added or hit last (see `clock_us`)."""
        with self._lock:
            index, out = self._table(table).table.index, u64_array([0] * len(indices))
            handles = u32_array(indices)
            self._lib.ss_hits_read(self._open(), index, handles, len(indices), out)
            return list(out[: len(indices)])

    # Time

    def clock_us(self) -> int:
        """Return the time of the data plane in microseconds since its start."""
        with self._lock:
            now_us: int = self._lib.ss_clock_read(self._open())
            return now_us

    def set_clock_us(self, now_us: int | None) -> None:
        """Stop the data plane's clock at a time, or let it run again (None); for tests."""
        with self._lock:
            self._lib.ss_clock_set(self._open(), -1 if now_us is None else now_us)

    # Counters

    def _counter(self, name: str) -> CounterArray:
        self._open()
        counter = self.program.counter_arrays.get(name)
        if counter is None or counter.is_direct:
            raise NotFound(f"the program has no indirect counter {name!r}")
        return counter

    def counter_size(self, name: str) -> int:
        """Return the number of cells of a counter."""
        return self._counter(name).size

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """Return (packets, bytes) of a cell."""
        return self.counters_read(name, index, 1)[0]

    def counters_read(self, name: str, start: int, count: int) -> list[tuple[int, int]]:
        """Return (packets, bytes) of a run of cells, read at one moment."""
        with self._lock:
            counter = self._counter(name)
            _check_run("counter", name, counter.size, start, count)
            out = u64_array([0] * (2 * count))
            self._lib.ss_counters_read(self._open(), 0, counter.index, start, count, out)
            return list(zip(out[0 : 2 * count : 2], out[1 : 2 * count : 2], strict=True))

    def counter_write(self, name: str, index: int, packets: int, octets: int) -> None:
        """Set a cell."""
        with self._lock:
            counter = self._counter(name)
            _check_run("counter", name, counter.size, index, 1)
            _check_counter_value(packets, octets)
            self._lib.ss_counter_write(self._open(), 0, counter.index, index, packets, octets)

    def direct_counter_read(
        self, table: str, key: Sequence[MatchKey] | None, priority: int
    ) -> tuple[int, int]:
        """Return (packets, bytes) of an entry; key None is the default entry. Raises NotFound."""
        with self._lock:
            store = self._table(table)
            handle = DEFAULT_ENTRY if key is None else store.handle(key, priority)
            if not store.table.with_counters:
                raise NotFound(f"table {table!r} has no direct counter")
            # An entry that is held back may have no place in the data plane yet: its counts are 0.
            out = u64_array([0, 0])
            self._lib.ss_counters_read(self._open(), 1, store.table.index, handle, 1, out)
            return out[0], out[1]

    def direct_counter_write(
        self, table: str, key: Sequence[MatchKey] | None, priority: int, packets: int, octets: int
    ) -> None:
        """Set the counter of an entry; key None is the default entry. Raises NotFound."""
        with self._lock:
            store = self._table(table)
            handle = DEFAULT_ENTRY if key is None else store.handle(key, priority)
            _check_counter_value(packets, octets)
            ctx, index = self._open(), store.table.index
            if self._lib.ss_counter_write(ctx, 1, index, handle, packets, octets) != 0:
                raise NotFound(f"table {table!r} has no direct counter")

    # Registers

    def _register(self, name: str) -> tuple[RegisterArray, int]:
        self._open()
        register = self.program.register_arrays.get(name)
        if register is None:
            raise NotFound(f"the program has no register {name!r}")
        native = (n for n in (1, 2, 4, 8, 16) if register.width <= 8 * n)
        return register, next(native, (register.width + 63) // 64 * 8)

    def register_read(self, name: str, start: int, count: int) -> list[int]:
        """Return a run of cells, read at one moment."""
        with self._lock:
            register, size = self._register(name)
            _check_run("register", name, register.size, start, count)
            room = ctypes.create_string_buffer(count * size)
            self._lib.ss_registers_read(self._open(), register.index, start, count, room)
            raw = room.raw
        return [int.from_bytes(raw[i : i + size], "little") for i in range(0, count * size, size)]

    def register_write(self, name: str, index: int, value: int, count: int = 1) -> None:
        """Set a cell, or a run of `count` cells to the same value."""
        with self._lock:
            register, size = self._register(name)
            _check_run("register", name, register.size, index, count)
            if not 0 <= value < 1 << register.width:
                raise InvalidArgument(
                    f"register {name!r}: {value:#x} does not fit {register.width} bits"
                )
            data = value.to_bytes(size, "little") * count
            self._lib.ss_registers_write(self._open(), register.index, index, count, data)

    def registers_save(self, name: str) -> bytes:
        """Return all cells as the data plane has them, for `registers_load`."""
        with self._lock:
            register, size = self._register(name)
            room = ctypes.create_string_buffer(register.size * size)
            self._lib.ss_registers_read(self._open(), register.index, 0, register.size, room)
            return room.raw

    def registers_load(self, name: str, cells: bytes) -> None:
        """Set the first cells to what `registers_save` of a register of the same width gave."""
        with self._lock:
            register, size = self._register(name)
            count, rest = divmod(len(cells), size)
            if rest:
                raise InvalidArgument(f"register {name!r} has cells of {size} bytes each")
            _check_run("register", name, register.size, 0, count)
            self._lib.ss_registers_write(self._open(), register.index, 0, count, cells)

    # Packet replication


def _check_run(kind: str, name: str, size: int, start: int, count: int) -> None:
    if start < 0 or count < 1 or start + count > size:
        raise InvalidArgument(
            f"{kind} {name!r} has {size} cells: {start} to {start + count - 1} was asked for"
        )


def _check_counter_value(packets: int, octets: int) -> None:
    if not 0 <= packets < 1 << 64 or not 0 <= octets < 1 << 64:
        raise InvalidArgument("a counter holds 64-bit numbers of packets and bytes")
