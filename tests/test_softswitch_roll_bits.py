"""Loops over copies: bits, masks and wide numbers that have instructions of their own."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from softswitch.codegen import generate
from softswitch.codegen.rolls import plan
from softswitch.load import load_program
from tests.random_copies import register
from tests.softswitch_json import ProgramBuilder, assign, call, const, field, op
from tests.test_softswitch_rolls import Both

COPIES = 16
MARKS = ("set", "clear", "one", "zero", "small", "equal")


def program() -> bytes:
    """16 copies, each with a bit and 15 more bits of the packet and a bit of what all share.

    Each marks with its bit what holds, and keeps 96 bits of what it saw in a register.
    """
    b = ProgramBuilder()
    b.header("in", [[f"{n}{k}", w, False] for k in range(COPIES) for n, w in (("n", 1), ("v", 15))])
    b.header("tail", [["x", 16, False], ["y", 8, False]])
    wide = [[f"r{k}", 96, False] for k in range(COPIES)]
    b.header("md", [[name, 16, False] for name in MARKS] + wide, metadata=True)
    b.header("out", [[name, 16, False] for name in MARKS])
    b.deparser = ["out"]
    b.state("start", [b.extract("in"), b.extract("tail")])
    x, y = field("tail", "x"), field("tail", "y")
    for k in range(COPIES):
        b.registers.append({"name": f"cell{k}", "id": k, "size": 4, "bitwidth": 96})
        n, v = field("in", f"n{k}"), field("in", f"v{k}")
        bit = op("&", op(">>", x, const(k)) if k else x, const(1))
        small = op("&", op("&", v, const(0x7FF)), y)
        for name, holds in (
            ("set", op("==", bit, const(1))),
            ("clear", op("!=", bit, const(1))),
            ("one", op("!=", n, const(0))),
            ("zero", op("==", n, const(0))),
            ("small", op("==", small, const(3))),
            ("equal", op("==", op("&", op("&", v, const(7)), op("&", x, const(7))), x)),
        ):
            b.when(f"{name}{k}", holds)
            marked = op("|", field("md", name), const(1 << k))
            b.run(f"mark_{name}{k}", [assign(field("md", name), marked)])
        seen = op("|", op("<<", x, const(80)), op("|", op("<<", v, const(40)), y))
        written = call("register_write", register(f"cell{k}"), const(1), field("md", f"r{k}"))
        b.run(f"keep{k}", [assign(field("md", f"r{k}"), seen), written])
    shown = [assign(field("out", name), field("md", name)) for name in MARKS]
    out = call("add_header", {"type": "header", "value": "out"})
    b.run("send", [out, *shown, assign(field("standard_metadata", "egress_spec"), const(1))])
    return b.json()


@pytest.mark.compiler
def test_bits_and_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What copies see of random packets, which is what the same copies see one by one."""
    source = program()
    loaded = load_program(source)
    assert [roll.count for roll in plan(loaded).rolls] == [COPIES]
    text = generate(loaded)
    assert "ss_m_of((unsigned)" in text
    assert "ss_m_test(" in text
    both = Both.load(source, tmp_path, monkeypatch)
    rng = random.Random(8)
    for _ in range(60):
        words = [rng.choice([rng.getrandbits(16), 3 | rng.getrandbits(16)]) for _ in range(COPIES)]
        x, y = rng.getrandbits(rng.choice([2, 4, 16])), rng.choice([0, 3, 255, rng.getrandbits(8)])
        packet = struct.pack(f">{COPIES}HHB", *words, x, y)
        [(_, raw)] = both.inject(0, packet)
        expected = dict.fromkeys(MARKS, 0)
        for k, word in enumerate(words):
            n, v = word >> 15, word & 0x7FFF
            expected["set"] |= (x >> k & 1) << k
            expected["clear"] |= (x >> k & 1 ^ 1) << k
            expected["one"] |= n << k
            expected["zero"] |= (n ^ 1) << k
            expected["small"] |= (v & 0x7FF & y == 3) << k
            expected["equal"] |= (v & x & 7 == x) << k
        assert dict(zip(MARKS, struct.unpack(f">{len(MARKS)}H", raw), strict=True)) == expected
        for k, word in enumerate(words):
            [cell] = both.rolled.register_read(f"cell{k}", 1, 1)
            assert cell == x << 80 | (word & 0x7FFF) << 40 | y
    both.compare_registers(loaded)
    both.close()
