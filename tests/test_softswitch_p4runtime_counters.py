"""Indirect counters and registers: single cells, wildcards, bounds."""

from __future__ import annotations

import pytest
from finsy.proto import p4d, p4r, rpc_code

from tests.p4rt_support import IDS, Client, delete, insert, modify, refused

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

COUNTER, SOURCE, OFFSET = IDS["port_counter"], IDS["last_source"], IDS["offset"]


def counter(index: int | None, packets: int | None = None, octets: int = 0) -> p4r.CounterEntry:
    """Return an entry of the counter; None leaves index or data unset."""
    entry = p4r.CounterEntry(counter_id=COUNTER)
    if index is not None:
        entry.index.index = index
    if packets is not None:
        entry.data.CopyFrom(p4r.CounterData(packet_count=packets, byte_count=octets))
    return entry


def register(register_id: int, index: int | None, data: bytes | None = None) -> p4r.RegisterEntry:
    """Return an entry of a register; None leaves index or data unset."""
    entry = p4r.RegisterEntry(register_id=register_id)
    if index is not None:
        entry.index.index = index
    if data is not None:
        entry.data.bitstring = data
    return entry


def read_counter(client: Client, entry: p4r.CounterEntry) -> list[p4r.CounterEntry]:
    """Read counter cells."""
    return [found.counter_entry for found in client.read(p4r.Entity(counter_entry=entry))]


def read_register(client: Client, entry: p4r.RegisterEntry) -> list[p4r.RegisterEntry]:
    """Read register cells."""
    return [found.register_entry for found in client.read(p4r.Entity(register_entry=entry))]


def test_counter_cells(primary: Client) -> None:
    """One cell, all cells, and nothing at all where data is unset."""
    primary.write(modify(counter_entry=counter(3, 7, 700)))
    assert read_counter(primary, counter(3)) == [counter(3, 7, 700)]
    assert read_counter(primary, counter(2)) == [counter(2, 0, 0)]
    primary.write(modify(counter_entry=counter(3)))
    assert read_counter(primary, counter(3)) == [counter(3, 7, 700)]
    everything = read_counter(primary, counter(None))
    assert [entry.index.index for entry in everything] == list(range(16))
    assert read_counter(primary, p4r.CounterEntry()) == everything
    primary.write(modify(counter_entry=counter(None, 1, 2)))
    assert read_counter(primary, counter(None)) == [counter(cell, 1, 2) for cell in range(16)]


def test_register_cells(primary: Client) -> None:
    """Unsigned and signed cells in their shortest forms, one or all."""
    primary.write(modify(register_entry=register(SOURCE, 1, b"\x00\x0a\x0b")))
    assert read_register(primary, register(SOURCE, 1)) == [register(SOURCE, 1, b"\x0a\x0b")]
    primary.write(modify(register_entry=register(OFFSET, None, b"\xff\xfe")))
    assert read_register(primary, register(OFFSET, None)) == [
        register(OFFSET, cell, b"\xfe") for cell in range(4)
    ]
    everything = read_register(primary, p4r.RegisterEntry())
    assert len(everything) == 12
    assert everything[0] == register(SOURCE, 0, b"\x00")


@pytest.mark.parametrize(
    ("update", "code", "words"),
    [
        (insert(counter_entry=counter(0, 1)), "INVALID_ARGUMENT", "use MODIFY"),
        (delete(counter_entry=counter(0, 1)), "INVALID_ARGUMENT", "use MODIFY"),
        (modify(counter_entry=counter(-1, 1)), "INVALID_ARGUMENT", "0 to 15"),
        (modify(counter_entry=counter(16, 1)), "OUT_OF_RANGE", "0 to 15"),
        (modify(counter_entry=counter(0, -1)), "INVALID_ARGUMENT", "negative"),
        (modify(counter_entry=p4r.CounterEntry()), "NOT_FOUND", "port_counter"),
        (insert(register_entry=register(SOURCE, 0, b"\1")), "INVALID_ARGUMENT", "use MODIFY"),
        (modify(register_entry=register(SOURCE, -1, b"\1")), "INVALID_ARGUMENT", "0 to 7"),
        (modify(register_entry=register(SOURCE, 8, b"\1")), "OUT_OF_RANGE", "0 to 7"),
        (modify(register_entry=register(SOURCE, 0)), "INVALID_ARGUMENT", "not set"),
        (modify(register_entry=register(SOURCE, 0, b"")), "OUT_OF_RANGE", "empty"),
        (modify(register_entry=register(SOURCE, 0, b"\1" + bytes(6))), "OUT_OF_RANGE", "48 bits"),
        (modify(register_entry=register(OFFSET, 0, b"\x00\x80\x00")), "OUT_OF_RANGE", "int<16>"),
        (modify(register_entry=register(COUNTER, 0, b"\1")), "NOT_FOUND", "last_source"),
        (
            modify(
                register_entry=p4r.RegisterEntry(register_id=SOURCE, data=p4d.P4Data(bool=True))
            ),
            "INVALID_ARGUMENT",
            "bitstring",
        ),
    ],
)
def test_refused_writes(primary: Client, update: p4r.Update, code: str, words: str) -> None:
    """Bounds, kinds and data are checked; the message says what is allowed."""
    error = refused(primary, update)
    assert rpc_code.Code.Name(error.canonical_code) == code
    assert words in error.message


@pytest.mark.parametrize(
    "query",
    [
        p4r.Entity(counter_entry=p4r.CounterEntry(index=p4r.Index(index=1))),
        p4r.Entity(register_entry=p4r.RegisterEntry(index=p4r.Index(index=1))),
        p4r.Entity(counter_entry=counter(16)),
        p4r.Entity(register_entry=register(OFFSET, 4)),
    ],
)
def test_refused_reads(primary: Client, query: p4r.Entity) -> None:
    """A cell that does not exist cannot be read."""
    with pytest.raises(Exception, match="index"):
        primary.read(query)
