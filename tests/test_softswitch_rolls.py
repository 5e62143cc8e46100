"""Alike parts of a pipeline as one loop over vectors: the same results as one after the other."""

from __future__ import annotations

import platform
import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from controller.artifacts import PROGRAMS, Artifact
from host_stack.wire import DrainFormat
from softswitch import compiler
from softswitch.codegen import generate, rolls, unit
from softswitch.codegen.flow import Flow
from softswitch.codegen.plan import Plan
from softswitch.codegen.rolls import plan
from softswitch.dataplane import DataPlane, MatchKey, TableEntry
from softswitch.load import load_program
from softswitch.program import MatchType, Program
from tests.memory_network import frame
from tests.random_copies import COPIES, random_program, register
from tests.softswitch_json import ProgramBuilder, assign, call, const, field, op
from tests.switch_under_test import SERVER, SLOT, SwitchUnderTest, embedded

SEEDS = (1, 2, 3, 5, 6, 7, 8, 9, 12, 13)
"""Random programs whose copies are alike after all: constants may make one simpler than others."""


# Finding them


@pytest.mark.parametrize(("name", "lanes"), list(PROGRAMS.items()))
def test_lanes_become_loops(name: str, lanes: int) -> None:
    """All lanes of the compiled programs are in two loops, and no action of theirs is left."""
    program = load_program(Artifact.load(name).device_config)
    made = plan(program)
    full = [roll for roll in made.rolls if roll.count == lanes]
    assert len(full) >= 2
    registers = {name for series in made.registers.all for name in series}
    assert len(registers) >= lanes
    assert [hint.registers for _, hint in made.hints] == [tuple(made.registers.all[0])]
    assert len(generate(program)) < 7_200 * lanes + 120_000


def test_what_copies_share_stays_out_of_loops() -> None:
    """A field that one copy writes and the next one reads makes them depend on each other."""
    for depends in (False, True):
        b = ProgramBuilder()
        b.header("in", [[f"f{k}", 16, False] for k in range(16)])
        b.header("md", [["sum", 16, False], ["other", 16, False]], metadata=True)
        b.state("start", [b.extract("in")])
        for k in range(16):
            total = op("+", field("md", "sum"), field("in", f"f{k}"))
            b.run(f"add{k}", [assign(field("md", "sum"), op("&", total, const(0xFFFF)))])
            if depends:
                b.run(f"look{k}", [assign(field("md", "other"), field("md", "sum"))])
        assert bool(plan(load_program(b.json())).rolls) is not depends


def test_hopeless_programs_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks alike everywhere, and never is, does not take time without end."""
    tried = []

    def refuse(*args: object) -> None:
        tried.append(args)

    b = ProgramBuilder()
    b.header("md", [["x", 32, False], ["y", 32, False]], metadata=True)
    for k in range(200):
        b.run(f"mix{k}", [assign(field("md", "x"), op("^", field("md", "y"), const(k)))])
    monkeypatch.setattr(rolls, "_with", refuse)
    assert plan(load_program(b.json())).rolls == ()
    assert len(tried) == rolls.MAX_FAILURES


def test_flow_within_a_copy() -> None:
    """0 branches to 1 or 2, 2 to 3 or 4; 1, 3 and 4 meet in 5."""
    flow = Flow(((1, 2), (5,), (3, 4), (5,), (5,), (6,)))
    assert [flow.same_as(node) for node in range(6)] == [0, 1, 2, 3, 4, 0]
    assert flow.region(2) == range(2, 5)
    assert flow.region(0) == range(6)
    assert flow.edges_into[5] == 3


# Results


@dataclass
class Both:
    """The same program as it is, and with its loops."""

    plain: DataPlane
    rolled: DataPlane

    @classmethod
    def load(cls, source: bytes, folder: Path, patch: pytest.MonkeyPatch) -> Both:
        """Compile both; a different cache for each, since the program is the same."""
        with patch.context() as patched:
            patched.setattr(unit, "plan", lambda _: Plan())
            plain = DataPlane.load(source, cache_dir=folder / "plain")
        return cls(plain, DataPlane.load(source, cache_dir=folder / "rolled"))

    def each(self) -> tuple[DataPlane, DataPlane]:
        """Both of them."""
        return self.plain, self.rolled

    def inject(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """What both make of a packet."""
        expected, found = (switch.inject(port, packet) for switch in self.each())
        assert found == expected
        return found

    def compare_registers(self, program: Program) -> None:
        """All cells are the same."""
        for name in program.register_arrays:
            saved = [switch.registers_save(name) for switch in self.each()]
            assert saved[0] == saved[1], name

    def close(self) -> None:
        """Close both."""
        for switch in self.each():
            switch.close()


def random_entries(rng: random.Random, program: Program, both: Both) -> None:
    """Give tables random entries and default actions, the same to both."""
    for table in program.tables.values():
        if not table.keys or table.is_const:
            continue
        names = list(table.actions)
        for entry in both.plain.table_entries(table.name):
            for switch in both.each():
                switch.table_delete(table.name, entry.key, entry.priority)
        seen = set()
        for _ in range(min(table.max_size, 40)):
            key = tuple(random_key(rng, k.match_type, k.width) for k in table.keys)
            if key in seen:
                continue
            seen.add(key)
            priority = len(seen) if table.uses_priority else 0
            entry = TableEntry(key, priority, *random_call(rng, program, table.actions, names))
            for switch in both.each():
                switch.table_add(table.name, entry)
        if not table.default_is_const and rng.random() < 0.5:
            name, params = random_call(rng, program, table.actions, names)
            for switch in both.each():
                switch.table_set_default(table.name, name, params)


def random_call(
    rng: random.Random, program: Program, actions: dict[str, int], names: list[str]
) -> tuple[str, tuple[int, ...]]:
    """An action of a table with parameters, small ones mostly: many are amounts to shift by."""
    name = rng.choice(names)
    widths = [p.width for p in program.actions[actions[name]].params]
    return name, tuple(rng.getrandbits(min(w, rng.choice([3, 5, w]))) for w in widths)


def random_key(rng: random.Random, kind: MatchType, width: int) -> MatchKey:
    """A key that packets of few different bits can hit."""
    value = rng.getrandbits(min(width, 8))
    if kind is MatchType.LPM:
        length = rng.randrange(width + 1)
        return MatchKey(value >> (width - length) << (width - length), prefix_len=length)
    if kind is MatchType.TERNARY:
        mask = rng.getrandbits(width)
        return MatchKey(value & mask, mask=mask)
    return MatchKey(value)


@contextmanager
def both_provisioned(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[list[SwitchUnderTest]]:
    """Libra's program without loops and with them, each with the same job."""
    with ExitStack() as stack:
        found = []
        for name in ("plain", "rolled"):
            with patch.context() as patched:
                patched.setenv("XDG_CACHE_HOME", str(folder / name))
                if name == "plain":
                    patched.setattr(unit, "plan", lambda _: Plan())
                found.append(stack.enter_context(embedded(Artifact.load(), workers=2)))
        yield found


@pytest.mark.compiler
def test_random_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of any bits, drains in both formats; entries change on the way."""
    program = load_program(Artifact.load().device_config)
    rng, bits = random.Random(11), np.random.default_rng(11)
    with both_provisioned(tmp_path, monkeypatch) as switches:
        both = Both(*(switch.dataplane() for switch in switches))
        lanes = switches[0].artifact.layout.lanes
        kinds, batch = set(), list[bytes]()
        for number in range(600):
            if number % 20 == 19:
                change_exponents(rng, program, both)
            used = rng.choice([lanes, lanes, rng.randrange(1, lanes)])
            values = bits.integers(0, 1 << 32, used, dtype=np.uint32)
            if rng.random() < 0.8:  # mostly such as jobs have
                values = (bits.standard_normal(used) * 1e-2).astype(np.float32).view(np.uint32)
            rows = bits.integers(0, 8, used)
            rank, round_ = rng.randrange(2), rng.randrange(2)
            record = switches[0].grad(rank, rows, values.view(np.float32), round_)
            record["used"] &= rng.choice([2**lanes - 1, rng.getrandbits(lanes)])
            outs = [switch.push(rank, record) for switch in switches]
            assert outs[0] == outs[1]
            batch.append(frame(f"10.0.0.{2 + rank}", SERVER, record.tobytes()))
            if len(batch) == 40:
                batch[20:] = [raw[: rng.randrange(len(raw))] for raw in batch[20:]]
                sent = [switch.inject_batch(2, batch, 2)[1] for switch in both.each()]
                assert sent[0] == sent[1]
                batch.clear()
            kinds.update(len(out.payload) for out in outs[0])
            form = rng.choice(list(DrainFormat))
            drained = [switch.drain(number % 8, 3, form, round_) for switch in switches]
            assert drained[0] == drained[1]
        assert len(kinds) == 2  # acknowledged, and escaped
        both.compare_registers(program)


def change_exponents(rng: random.Random, program: Program, both: Both) -> None:
    """Change, remove or add look-up entries of a lane, and what happens without one."""
    name = rng.choice([n for n in program.tables if n.endswith(".exponents")])
    table = program.tables[name]
    action, params = random_call(rng, program, table.actions, list(table.actions)[:3])
    for exponent in rng.sample(range(100, 130), 3):
        key = (MatchKey(SLOT), MatchKey(exponent))
        present = any(e.key == key for e in both.plain.table_entries(name))
        gone = rng.random() < 0.3
        for switch in both.each():
            if present and gone:
                switch.table_delete(name, key, 0)
            elif present:
                switch.table_modify(name, TableEntry(key, 0, action, params))
            else:
                switch.table_add(name, TableEntry(key, 0, action, params))
    for switch in both.each():
        switch.table_set_default(name, action, params)


@pytest.mark.compiler
@pytest.mark.parametrize("seed", SEEDS)
def test_random_copies(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random work on fields, registers, tables and headers, with copies left over."""
    compare_random_copies(seed, tmp_path, monkeypatch)


@pytest.mark.compiler
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names kinds of x86 processors")
@pytest.mark.parametrize(
    ("processor", "needs"), [("x86-64", "sse2"), ("x86-64-v3", "avx2"), ("x86-64-v4", "avx512dq")]
)
def test_random_copies_on_other_processors(
    processor: str, needs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without AVX-512's permutations of bytes, without AVX-512, without AVX."""
    if f" {needs} " not in Path("/proc/cpuinfo").read_text():
        pytest.skip(f"this processor has no {needs}")
    flags = tuple(f"-march={processor}" if "-march" in f else f for f in compiler.FLAGS)
    monkeypatch.setattr(compiler, "FLAGS", flags)
    for seed in SEEDS[:2]:
        compare_random_copies(seed, tmp_path / str(seed), monkeypatch)


@pytest.mark.compiler
def test_fields_with_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of 16 signed numbers are negative, which are below -4 when halved."""
    b = ProgramBuilder()
    b.header("in", [[f"f{k}", 16, False] for k in range(16)])
    fields = [["below", 16, False], ["low", 16, False], *([f"z{k}", 16, True] for k in range(16))]
    b.header("md", fields, metadata=True)
    b.header("out", [["below", 16, False], ["low", 16, False]])
    b.deparser = ["out"]
    b.state("start", [b.extract("in")])
    for k in range(16):
        number = field("md", f"z{k}")
        b.run(f"set{k}", [assign(number, op("two_comp_mod", field("in", f"f{k}"), const(16)))])
        for name, value, limit in (
            ("below", number, 0),
            ("low", op(">>", number, const(1)), (1 << 64) - 4),
        ):
            least = op("two_comp_mod", const(limit), const(64))
            b.when(f"{name}{k}", op("<", value, least))
            marked = op("|", field("md", name), const(1 << k))
            b.run(f"mark_{name}{k}", [assign(field("md", name), marked)])
    shown = [assign(field("out", n), field("md", n)) for n in ("below", "low")]
    out = call("add_header", {"type": "header", "value": "out"})
    b.run("send", [out, *shown, assign(field("standard_metadata", "egress_spec"), const(1))])
    assert [roll.count for roll in plan(load_program(b.json())).rolls] == [16]
    both = Both.load(b.json(), tmp_path, monkeypatch)
    rng = random.Random(5)
    for _ in range(50):
        numbers = [
            rng.choice([rng.randrange(-9, 9), rng.randrange(-32768, 32768)]) for _ in range(16)
        ]
        [(_, raw)] = both.inject(0, struct.pack(">16h", *numbers))
        below, low = struct.unpack(">HH", raw)
        assert below == sum(1 << k for k, n in enumerate(numbers) if n < 0)
        assert low == sum(1 << k for k, n in enumerate(numbers) if n >> 1 < -4)
    both.close()


@pytest.mark.compiler
def test_registers_that_others_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers of one loop that all copies of another read, and one node alone."""
    b = ProgramBuilder()
    b.header("in", [[f"f{k}", 16, False] for k in range(16)])
    b.header("md", [["one", 32, False], *([f"m{k}", 32, False] for k in range(16))], metadata=True)
    b.deparser = ["in"]
    b.state("start", [b.extract("in")])
    for i, name in enumerate([*(f"r{k}" for k in range(16)), *(f"s{k}" for k in range(16)), "t"]):
        b.registers.append({"name": name, "id": i, "size": 16, "bitwidth": 32})
    cells = [op("&", field("in", f"f{k}"), const(15)) for k in range(16)]
    for k in range(16):
        more = op("+", field("in", f"f{k}"), const(k))
        b.run(f"own{k}", [call("register_write", register(f"r{k}"), cells[k], more)])
    one = [
        call("register_read", field("md", "one"), register("r5"), cells[2]),
        call("register_write", register("t"), cells[3], field("md", "one")),
    ]
    b.run("one", [*one, assign(field("standard_metadata", "egress_spec"), const(1))])
    for k in range(16):
        copied = field("md", f"m{k}")
        read = call("register_read", copied, register("r3"), cells[k])
        b.run(f"copy{k}", [read, call("register_write", register(f"s{k}"), cells[k], copied)])
    program = load_program(b.json())
    assert [roll.count for roll in plan(program).rolls] == [16, 16]
    both = Both.load(b.json(), tmp_path, monkeypatch)
    rng = random.Random(6)
    for _ in range(50):
        both.inject(0, struct.pack(">16H", *(rng.randrange(1 << 16) for _ in range(16))))
    both.compare_registers(program)
    assert any(both.rolled.registers_save("t")) and any(both.rolled.registers_save("s9"))
    both.close()


def compare_random_copies(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run random packets through a random program with and without its loop."""
    source = random_program(seed)
    program = load_program(source)
    assert [roll.count for roll in plan(program).rolls] == [16]
    both = Both.load(source, tmp_path, monkeypatch)
    rng = random.Random(seed)
    lengths = set()
    for _ in range(4):
        random_entries(rng, program, both)
        for _ in range(150):
            packet = bytearray(rng.randbytes(6 * COPIES + 5))
            if rng.random() < 0.7:  # small numbers, which keys and indices are
                packet = bytearray(byte & rng.choice([1, 15]) for byte in packet)
            packet[-1] = rng.randrange(6)
            [(_, out)] = both.inject(0, bytes(packet[: rng.choice([1000, 1000, 50])]))
            lengths.add(len(out))
    both.compare_registers(program)
    both.close()
    assert len(lengths) > 1
