"""Tables: every lookup structure against a linear scan, and the control plane's errors."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from softswitch.dataplane import DataPlane, MatchKey, TableEntry
from softswitch.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from softswitch.matching import range_prefixes
from tests.softswitch_json import Json, ProgramBuilder, assign, const, field, param

pytestmark = pytest.mark.compiler

FIELDS = [["a", 8, False], ["b", 16, False], ["c", 32, False], ["d", 64, False], ["e", 128, False]]
WIDTHS = {name: width for name, width, _ in FIELDS}


def program(keys: list[tuple[str, str]], *, size: int = 4096, **more: Json) -> bytes:
    """One table `t` over header fields; a hit writes the entry's number into a result header."""
    b = ProgramBuilder()
    b.header("h", FIELDS)
    b.header("result", [["number", 32, False]])
    b.deparser = ["result"]
    b.state("start", [b.extract("h")])
    number = field("result", "number")
    b.run("add", [{"op": "add_header", "parameters": [{"type": "header", "value": "result"}]}])
    hit = b.action("hit", [assign(number, param(0))], [32])
    miss = b.action("miss", [assign(number, const(2**32 - 1))])
    b.table(
        "t",
        [(kind, field("h", name)) for kind, name in keys],
        [hit, miss],
        (miss, []),
        size=size,
        **more,
    )
    return b.json()


def packet(values: dict[str, int]) -> bytes:
    """A packet with these header fields."""
    return b"".join(values.get(n, 0).to_bytes(w // 8, "big") for n, w in WIDTHS.items())


def looked_up(switch: DataPlane, values: dict[str, int]) -> int | None:
    """The number of the entry that a packet hits."""
    [(_, output)] = switch.inject(0, packet(values))
    number = int.from_bytes(output, "big")
    return None if number == 2**32 - 1 else number


def matches(kind: str, width: int, key: MatchKey, value: int) -> bool:
    """What a match of one field means."""
    match kind:
        case "exact":
            return key.value == value
        case "lpm":
            shift = width - key.prefix_len
            return key.value >> shift == value >> shift
        case "range":
            return key.value <= value <= key.high
    return key.value & key.mask == value & key.mask


def best(
    keys: list[tuple[str, str]], entries: list[TableEntry], values: dict[str, int]
) -> set[int]:
    """The numbers of the entries that may win, by a linear scan."""

    def rank(entry: TableEntry) -> int:
        lengths = [m.prefix_len for (k, _), m in zip(keys, entry.key, strict=True) if k == "lpm"]
        return entry.priority or sum(lengths)

    hits = [
        e
        for e in entries
        if all(
            matches(kind, WIDTHS[name], m, values[name])
            for (kind, name), m in zip(keys, e.key, strict=True)
        )
    ]
    top = max((rank(e) for e in hits), default=0)
    return {e.params[0] for e in hits if rank(e) == top}


def random_match(rng: random.Random, kind: str, width: int, pool: list[int]) -> MatchKey:
    """A random match; values come from a small pool so that matches overlap."""
    full = (1 << width) - 1
    value = rng.choice(pool) & full
    match kind:
        case "exact":
            return MatchKey(value)
        case "lpm":
            length = rng.randint(0, width)
            return MatchKey(value & full & ~(full >> length), prefix_len=length)
        case "range":
            other = rng.choice(pool) & full
            return MatchKey(min(value, other), high=max(value, other))
        case "optional":
            mask = rng.choice([0, full])
        case _:
            mask = rng.choice([0, full, 0xF0 & full, full & ~0xFF])
    return MatchKey(value & mask, mask=mask)


KEYS = [
    [("exact", "a")],
    [("exact", "b")],
    [("exact", "a"), ("exact", "c")],
    [("exact", "d"), ("exact", "e"), ("exact", "a")],
    [("lpm", "c")],
    [("lpm", "d")],
    [("lpm", "e")],
    [("exact", "a"), ("lpm", "c")],
    [("ternary", "c")],
    [("ternary", "a"), ("exact", "b"), ("lpm", "c")],
    [("ternary", "e"), ("optional", "d")],
    [("range", "b")],
    [("range", "a"), ("ternary", "c"), ("exact", "b")],
    [("range", "b"), ("range", "a")],
]


@pytest.mark.parametrize("keys", KEYS, ids=lambda k: "-".join(f"{kind}_{n}" for kind, n in k))
def test_lookup_agrees_with_a_linear_scan(
    keys: list[tuple[str, str]],
) -> None:
    """Adding, changing and removing entries never leaves a wrong lookup behind."""
    rng = random.Random(repr(keys))
    pool = [rng.getrandbits(128) for _ in range(8)] + [0, 2**128 - 1]
    pool += [v ^ 1 for v in pool] + [v ^ 0x80 for v in pool]
    entries: dict[tuple[tuple[MatchKey, ...], int], TableEntry] = {}
    ranked = any(kind in ("ternary", "optional", "range") for kind, _ in keys)
    with DataPlane.load(program(keys)) as switch:
        for step in range(400):
            if entries and rng.random() < 0.35:
                identity = rng.choice(list(entries))
                if rng.random() < 0.5:
                    switch.table_delete("t", *identity)
                    del entries[identity]
                else:
                    changed = TableEntry(*identity, "hit", (step,))
                    switch.table_modify("t", changed)
                    entries[identity] = changed
            else:
                key = tuple(random_match(rng, kind, WIDTHS[n], pool) for kind, n in keys)
                entry = TableEntry(key, rng.randint(1, 50) if ranked else 0, "hit", (step,))
                if (key, entry.priority) in entries:
                    with pytest.raises(AlreadyExists):
                        switch.table_add("t", entry)
                else:
                    switch.table_add("t", entry)
                    entries[key, entry.priority] = entry
            values = {n: rng.choice(pool) & (1 << w) - 1 for n, w in WIDTHS.items()}
            allowed = best(keys, list(entries.values()), values)
            found = looked_up(switch, values)
            assert found in allowed if allowed else found is None, (step, values)
        assert set(switch.table_entries("t")) == set(entries.values())


def test_exact_table_holds_many_entries() -> None:
    """Growing and shrinking a hash table loses nothing."""
    rng = random.Random(7)
    keys = rng.sample(range(2**32), 5000)
    with DataPlane.load(program([("exact", "c")], size=8192)) as switch:
        for number, key in enumerate(keys):
            switch.table_add("t", TableEntry((MatchKey(key),), 0, "hit", (number,)))
        for key in keys[::2]:
            switch.table_delete("t", (MatchKey(key),), 0)
        for number, key in enumerate(keys):
            assert looked_up(switch, {"c": key}) == (None if number % 2 == 0 else number)


@pytest.mark.parametrize("width", [1, 4, 8])
def test_range_prefixes_cover_exactly_the_range(width: int) -> None:
    """The prefixes of every range match its numbers and no other, each once."""
    for low in range(1 << width):
        for high in range(low, 1 << width, 3):
            prefixes = range_prefixes(low, high, width)
            covered = [v for v in range(1 << width) for p, m in prefixes if v & m == p]
            assert covered == list(range(low, high + 1))


@pytest.fixture(name="exact")
def exact_switch() -> Iterator[DataPlane]:
    """A switch with one exact table of size 2."""
    with DataPlane.load(program([("exact", "a")], size=2)) as switch:
        yield switch


def test_a_full_table_refuses_entries(exact: DataPlane) -> None:
    """max_size is the limit, and deleting makes room."""
    for value in (1, 2):
        exact.table_add("t", TableEntry((MatchKey(value),), 0, "hit", (value,)))
    third = TableEntry((MatchKey(3),), 0, "hit", (3,))
    with pytest.raises(ResourceExhausted, match="size is 2"):
        exact.table_add("t", third)
    exact.table_delete("t", (MatchKey(1),), 0)
    exact.table_add("t", third)
    assert looked_up(exact, {"a": 3}) == 3
    assert looked_up(exact, {"a": 1}) is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (TableEntry((MatchKey(256),), 0, "hit", (1,)), "does not fit 8 bits"),
        (TableEntry((), 0, "hit", (1,)), "has 1 key fields"),
        (TableEntry((MatchKey(1),), 3, "hit", (1,)), "takes no priority"),
        (TableEntry((MatchKey(1),), 0, "hit", ()), "takes 1 parameters"),
        (TableEntry((MatchKey(1),), 0, "hit", (2**32,)), "does not fit 32 bits"),
        (TableEntry((MatchKey(1),), 0, "nothing", ()), "does not allow action"),
    ],
)
def test_bad_entries_are_refused(exact: DataPlane, entry: TableEntry, message: str) -> None:
    """The error says what was given and what is allowed; nothing is added."""
    with pytest.raises(InvalidArgument, match=message):
        exact.table_add("t", entry)
    assert exact.table_entries("t") == []


def test_missing_objects_are_not_found(exact: DataPlane) -> None:
    """Unknown tables and entries raise NotFound."""
    with pytest.raises(NotFound, match="no table 'x'"):
        exact.table_entries("x")
    with pytest.raises(NotFound, match="no entry"):
        exact.table_delete("t", (MatchKey(1),), 0)
    with pytest.raises(NotFound, match="no entry"):
        exact.table_modify("t", TableEntry((MatchKey(1),), 0, "miss", ()))


def test_default_action_can_be_changed_and_reset(exact: DataPlane) -> None:
    """A miss runs the new default with its parameters, then the program's again."""
    exact.table_set_default("t", "hit", (77,))
    assert exact.table_get_default("t") == ("hit", (77,))
    assert looked_up(exact, {"a": 9}) == 77
    exact.table_reset_default("t")
    assert exact.table_get_default("t") == ("miss", ())
    assert looked_up(exact, {"a": 9}) is None


def test_const_entries_match_by_program_priority_and_are_immutable() -> None:
    """A low priority number in the JSON file wins; entries cannot be changed."""

    def constant(value: int, mask: int, number: int, priority: int) -> Json:
        return {
            "match_key": [{"match_type": "ternary", "key": hex(value), "mask": hex(mask)}],
            "action_entry": {"action_id": 1, "action_data": [hex(number)]},
            "priority": priority,
        }

    source = program(
        [("ternary", "a")],
        entries=[constant(0x10, 0xF0, 1, 1), constant(0x12, 0xFF, 2, 2), constant(0, 0, 3, 3)],  # type: ignore[arg-type]
    )
    with DataPlane.load(source) as switch:
        assert looked_up(switch, {"a": 0x12}) == 1
        assert looked_up(switch, {"a": 0x22}) == 3
        assert [e.is_const for e in switch.table_entries("t")] == [True] * 3
        with pytest.raises(InvalidArgument, match="const"):
            switch.table_add("t", TableEntry((MatchKey(1, mask=255),), 1, "hit", (1,)))


def test_a_range_that_needs_too_many_prefixes_is_refused() -> None:
    """Two awkward 64-bit ranges would need more rules than the limit."""
    with DataPlane.load(program([("range", "d"), ("range", "e")])) as switch:
        key = (MatchKey(1, high=2**64 - 2), MatchKey(1, high=2**128 - 2))
        with pytest.raises(ResourceExhausted, match="prefixes"):
            switch.table_add("t", TableEntry(key, 1, "hit", (1,)))
