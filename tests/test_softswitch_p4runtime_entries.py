"""Entries that come with the program, and types that controllers see as something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4d, p4r

from softswitch.p4runtime.errors import P4RuntimeError
from softswitch.p4runtime.translation import Names, SdnName, SdnNumber
from tests.p4rt_programs import Served, served
from tests.p4rt_support import delete, exact, insert, modify, refused

pytest_plugins = ("tests.p4rt_fixtures",)
pytestmark = pytest.mark.compiler

Code = grpc.StatusCode


@pytest.fixture
def switch(p4rt_cache: Path) -> Iterator[Served]:
    """A served switch with entries of its own."""
    with served("softswitch_entries", p4rt_cache) as each:
        yield each


def send(
    switch: Served, a: int = 0, b: int = 0, c: int = 0, tenant: int = 0, port: int = 1
) -> tuple[int, int, int, int]:
    """What the tables wrote: first, second, tenant, port."""
    packet = a.to_bytes(2, "big") + b.to_bytes(2, "big") + c.to_bytes(4, "big") + bytes(2)
    packet += tenant.to_bytes(2, "big") + bytes(2)
    [(_, out)] = switch.dataplane.inject(port, packet)
    word = int.from_bytes(out[10:12], "big")
    return out[8], out[9], word & 0xFFF, int.from_bytes(out[12:14], "big")


def ternary(field_id: int, value: bytes, mask: bytes) -> p4r.FieldMatch:
    """A ternary match."""
    return p4r.FieldMatch(field_id=field_id, ternary=p4r.FieldMatch.Ternary(value=value, mask=mask))


def code(error: p4r.Error) -> grpc.StatusCode:
    """The canonical code of an error."""
    return next(c for c in Code if c.value[0] == error.canonical_code)


def test_entries_of_the_program_have_their_priorities(switch: Served) -> None:
    """Where a low number wins in P4, and where the order does."""
    assert send(switch, 0x0111, 5)[0] == 1
    assert send(switch, 0x0111, 6)[0] == 2
    assert send(switch, 0x0200, 5)[0] == 0
    assert send(switch, 0x0123, 5, 0x0A010203)[1] == 1
    assert send(switch, 0x0123, 5, 0x0B010203)[1] == 2
    assert send(switch, 0x8000, 5)[1] == 0


def test_entries_without_const_can_be_changed(switch: Served) -> None:
    """They are read, modified and deleted like those of a controller; const ones are not."""
    first, second = switch.read(table_entry=p4r.TableEntry(table_id=switch.ids["initial"]))
    assert not first.is_const
    assert first.priority > second.priority
    first.action.action.params[0].value = b"\x09"
    switch.client.write(modify(table_entry=first))
    assert send(switch, 0x0111, 5)[0] == 9
    switch.client.write(delete(table_entry=first))
    assert send(switch, 0x0111, 5)[0] == 2
    switch.client.write(insert(table_entry=first))
    assert send(switch, 0x0111, 5)[0] == 9
    fixed = switch.read(table_entry=p4r.TableEntry(table_id=switch.ids["fixed"]))
    assert [entry.is_const for entry in fixed] == [True, True]
    fixed[0].is_const = False
    assert code(refused(switch.client, delete(table_entry=fixed[0]))) is Code.PERMISSION_DENIED


def translated(switch: Served, port: bytes, tenant: bytes, new: bytes) -> p4r.TableEntry:
    """An entry of the table over translated types."""
    return p4r.TableEntry(
        table_id=switch.ids["translated"],
        match=[ternary(1, port, b"\xff\xff\xff\xff"), exact(2, tenant)],
        priority=1,
        action=p4r.TableAction(action=switch.action("assign", port, new)),
    )


def test_translated_values_are_read_back_as_written(switch: Served) -> None:
    """Ports have 32 bits to controllers and 9 in the program; tenants have names."""
    entry = translated(switch, b"\x01\x02", b"red", b"blue")
    switch.client.write(insert(table_entry=entry))
    [found] = switch.read(table_entry=p4r.TableEntry(table_id=switch.ids["translated"]))
    assert found == entry
    # Names get the largest numbers: red 4095, blue 4094.
    assert send(switch, tenant=4095, port=0x102)[2:] == (4094, 0x102)
    assert send(switch, tenant=4095, port=2)[2:] == (4095, 0)
    plain = translated(switch, b"\x03", b"17", b"blue")
    switch.client.write(insert(table_entry=plain))
    assert send(switch, tenant=17, port=3)[2:] == (4094, 3)
    switch.client.write(delete(table_entry=entry), delete(table_entry=plain))
    assert switch.read(table_entry=p4r.TableEntry(table_id=switch.ids["translated"])) == []


def test_bad_translated_values_are_refused(switch: Served) -> None:
    """A port that the program cannot hold, a mask that leaves out upper bits, no name at all."""
    good = translated(switch, b"\x01", b"red", b"blue")
    switch.client.write(insert(table_entry=good))
    large = translated(switch, b"\x02\x00", b"red", b"blue")
    partial = translated(switch, b"\x01", b"red", b"blue")
    partial.match[0].ternary.mask = b"\x01\xff"
    empty = translated(switch, b"\x01", b"", b"blue")
    taken = translated(switch, b"\x01", b"4095", b"blue")
    bad = translated(switch, b"\x01", b"\xff", b"blue")
    for entry, expected in (
        (large, Code.OUT_OF_RANGE),
        (partial, Code.INVALID_ARGUMENT),
        (empty, Code.INVALID_ARGUMENT),
        (taken, Code.INVALID_ARGUMENT),
        (bad, Code.INVALID_ARGUMENT),
    ):
        assert code(refused(switch.client, insert(table_entry=entry))) is expected, entry


def test_masks_and_prefixes_of_translated_numbers() -> None:
    """Bits that only controllers have are always covered; those that only the program has too."""
    wider, narrower = SdnNumber(9, 32), SdnNumber(32, 9)
    assert wider.read_mask(b"\xff\xff\xfe\x10", "mask") == 0x010
    assert wider.write_mask(0x010) == b"\xff\xff\xfe\x10"
    assert wider.more_bits == 23
    assert narrower.read_mask(b"\x01", "mask") == 0xFFFFFE01
    assert narrower.write_mask(0xFFFFFE01) == b"\x01"
    with pytest.raises(P4RuntimeError, match="cover"):
        wider.read_mask(b"\x10", "mask")


def test_names_run_out() -> None:
    """Names of interfaces stand for their ports; every number has one name at most."""
    names = SdnName(2, Names(2, {"veth1": 1, "far": 9}))
    assert names.read(b"veth1", "port") == 1
    assert names.write(1) == b"veth1"
    assert names.read(b"0", "port") == 0
    assert [names.read(name, "port") for name in (b"x", b"y", b"x")] == [3, 2, 3]
    with pytest.raises(P4RuntimeError, match="have a name"):
        names.read(b"z", "port")
    with pytest.raises(P4RuntimeError, match="veth1"):
        names.read(b"1", "port")


def test_digests_of_every_kind_of_value(switch: Served) -> None:
    """Truth values, errors, enums, signed numbers, names; a tuple; two digests of one packet."""
    for name in ("kinds_t", "digest_0"):
        entry = p4r.DigestEntry(digest_id=switch.ids[name])
        switch.client.write(insert(digest_entry=entry))
    send(switch, 0xD1D1, 5, 0x01020304, tenant=6)
    lists = [switch.client.receive().digest for _ in range(2)]
    data = {each.digest_id: each.data[0] for each in lists}
    assert list(data[switch.ids["kinds_t"]].struct.members) == [
        p4d.P4Data(bool=True),
        p4d.P4Data(error="NoError"),
        p4d.P4Data(enum="BLUE"),
        p4d.P4Data(enum_value=b"\x07"),
        p4d.P4Data(bitstring=b"\xfb"),
        p4d.P4Data(bitstring=b"6"),
    ]
    assert list(data[switch.ids["digest_0"]].tuple.members) == [
        p4d.P4Data(bitstring=b"\x05"),
        p4d.P4Data(bitstring=b"\x01\x02\x03\x04"),
    ]


def test_an_action_profile_that_no_table_uses(switch: Served) -> None:
    """The compiler leaves it out of the program: it is known, and has no members."""
    assert switch.read(action_profile_member=p4r.ActionProfileMember()) == []
    message = p4r.ActionProfileMember(action_profile_id=switch.ids["unused"], member_id=1)
    error = refused(switch.client, insert(action_profile_member=message))
    assert code(error) is Code.UNIMPLEMENTED
    assert "no table uses" in error.message
