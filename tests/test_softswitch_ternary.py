"""Ternary tables: any masks, priorities and changes, against a linear scan."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.dataplane import DataPlane, MatchKey, TableEntry
from tests.test_softswitch_tables import best, looked_up, packet, program

pytestmark = pytest.mark.compiler

Identity = tuple[tuple[MatchKey, ...], int]
KEYS = [("ternary", "a"), ("range", "b")]
BYTES = st.sampled_from([0, 1, 2, 3, 0x0F, 0x10, 0x80, 0xA5, 0xFF])
MATCHES = st.builds(
    lambda value, mask, ends: (MatchKey(value & mask, mask=mask), MatchKey(ends[0], high=ends[1])),
    BYTES,
    st.integers(0, 255),
    st.tuples(BYTES, BYTES).map(sorted),
)
CHANGES = st.lists(st.tuples(MATCHES, st.integers(1, 6), st.sampled_from([0, 0, 1])), min_size=20)


@pytest.fixture(name="switch", scope="module")
def running() -> Iterator[DataPlane]:
    """One switch for all examples: each leaves its table empty."""
    with DataPlane.load(program(KEYS)) as switch:
        yield switch


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES, seed=st.integers(0, 2**32 - 1))
def test_any_changes_agree_with_a_linear_scan(
    switch: DataPlane, changes: list[tuple[tuple[MatchKey, ...], int, int]], seed: int
) -> None:
    """Overlapping masks and ranges, equal priorities, removal in any order."""
    rng = random.Random(seed)
    entries: dict[Identity, TableEntry] = {}

    def check() -> None:
        for _ in range(20):
            values = {"a": rng.randrange(256), "b": rng.randrange(256)}
            allowed = best(KEYS, list(entries.values()), values | {"c": 0, "d": 0, "e": 0})
            assert looked_up(switch, values) in (allowed or {None})

    for number, (key, priority, removes) in enumerate(changes):
        identity = (key, priority)
        if identity not in entries:
            entries[identity] = TableEntry(key, priority, "hit", (number,))
            switch.table_add("t", entries[identity])
        if removes:
            victim = rng.choice(list(entries))
            switch.table_delete("t", *victim)
            del entries[victim]
    check()
    for identity in rng.sample(list(entries), len(entries)):
        switch.table_delete("t", *identity)
        del entries[identity]
        if len(entries) % 16 == 0:
            check()


def spread(rng: random.Random) -> int:
    """Any mask: every bucket is split again and again."""
    return rng.randrange(256)


def nested(rng: random.Random) -> int:
    """Masks that contain each other."""
    return 0xFF & ~(0xFF >> rng.randrange(9))


@pytest.mark.parametrize("draw", [spread, nested])
@pytest.mark.parametrize("priorities", [1, 10_000])
def test_all_values_of_a_crowded_table(
    draw: Callable[[random.Random], int], priorities: int
) -> None:
    """Hundreds of overlapping entries of 8 bits; every value is looked up as they come and go."""
    rng = random.Random(f"{draw.__name__} {priorities}")
    keys = [("ternary", "a")]
    entries: dict[Identity, TableEntry] = {}
    with DataPlane.load(program(keys)) as switch:

        def check() -> None:
            outputs = [switch.inject(0, packet({"a": value})) for value in range(256)]
            for value, [(_, output)] in enumerate(outputs):
                hits = [
                    e for e in entries.values() if (e.key[0].value ^ value) & e.key[0].mask == 0
                ]
                top = max((e.priority for e in hits), default=0)
                allowed = {e.params[0] for e in hits if e.priority == top} or {2**32 - 1}
                assert int.from_bytes(output, "big") in allowed

        for number in range(600):
            mask = draw(rng)
            identity = (MatchKey(rng.randrange(256) & mask, mask=mask),), rng.randint(1, priorities)
            if identity not in entries:
                entries[identity] = TableEntry(*identity, "hit", (number,))
                switch.table_add("t", entries[identity])
            if number % 100 == 99:
                check()
        for count, identity in enumerate(rng.sample(list(entries), len(entries))):
            switch.table_delete("t", *identity)
            del entries[identity]
            if count % 100 == 99:
                check()
        check()
