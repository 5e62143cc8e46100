"""Expressions: compiled code against Python's unbounded integers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from softswitch.dataplane import DataPlane
from tests.softswitch_json import Json, ProgramBuilder, assign, const, field, op

pytestmark = pytest.mark.compiler

NATIVE = (1, 3, 8, 13, 16, 24, 32, 48, 63, 64, 65, 96, 128)
WIDE = (129, 130, 192, 256, 300, 521)
SIGNED = (8, 32, 64, 129, 250, 256)
CASES = 180


def names() -> list[tuple[str, int, bool]]:
    """The input fields: name, width, sign."""
    fields = [(f"u{w}", w, False) for w in NATIVE + WIDE]
    return fields + [(f"s{w}", w, True) for w in SIGNED]


class Sample:
    """A random expression as JSON and as a Python function of the inputs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def number(self, depth: int) -> tuple[Json, Any]:
        """A numeric expression."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            if rng.random() < 0.3:
                value = rng.choice([0, 1, 7, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**96 - 5])
                return const(value), lambda env: value
            name, _, _ = rng.choice(names())
            return field("h", name), lambda env: env[name]
        kind = rng.choice("+ - * / % & | ^ ~ neg << >> mod ? b2d sat".split())  # noqa: SIM905
        if kind in ("~", "neg"):
            a, fa = self.number(depth - 1)
            if kind == "~":
                return op("~", None, a), lambda env: ~fa(env)
            return op("-", None, a), lambda env: -fa(env)
        if kind in ("<<", ">>"):
            return self._shift(kind, depth)
        if kind == "mod":
            width = rng.choice([8, 16, 33, 64, 100, 128, 129, 256, 300])
            a, fa = self.number(depth - 1)
            return op("two_comp_mod", a, const(width)), lambda env: wrap(fa(env), width)
        if kind == "sat":
            return self._saturate(depth)
        if kind == "?":
            c, fc = self.boolean(depth - 1)
            a, fa = self.number(depth - 1)
            b, fb = self.number(depth - 1)
            return op("?", a, b, c), lambda env: fa(env) if fc(env) else fb(env)
        if kind == "b2d":
            c, fc = self.boolean(depth - 1)
            return op("b2d", None, c), lambda env: int(fc(env))
        a, fa = self.number(depth - 1)
        b, fb = self.number(depth - 1)
        apply = {
            "+": lambda x, y: x + y,
            "-": lambda x, y: x - y,
            "*": lambda x, y: x * y,
            "/": divide,
            "%": lambda x, y: x - y * divide(x, y) if y else 0,
            "&": lambda x, y: x & y,
            "|": lambda x, y: x | y,
            "^": lambda x, y: x ^ y,
        }[kind]
        return op(kind, a, b), lambda env: apply(fa(env), fb(env))

    def _shift(self, kind: str, depth: int) -> tuple[Json, Any]:
        a, fa = self.number(depth - 1)
        if self.rng.random() < 0.5:
            amount = self.rng.choice([0, 1, 7, 31, 32, 63, 64, 65, 127, 128, 200])
            b, fb = const(amount), lambda env: amount
        else:
            b, fb = field("h", "u8"), lambda env: env["u8"]
        if kind == "<<":
            # p4c masks what it shifts left.
            mask = 2 ** self.rng.choice([64, 128, 300]) - 1
            return op("&", op("<<", a, b), const(mask)), lambda env: (fa(env) << fb(env)) & mask
        return op(">>", a, b), lambda env: fa(env) >> fb(env)

    def _saturate(self, depth: int) -> tuple[Json, Any]:
        a, fa = self.number(depth - 1)
        width = self.rng.choice([8, 32, 64, 127, 128, 250])
        if self.rng.random() < 0.5:
            top = 2**width - 1
            return op("usat_cast", a, const(width)), lambda env: min(max(fa(env), 0), top)
        half = 2 ** (width - 1)
        return op("sat_cast", a, const(width)), lambda env: min(max(fa(env), -half), half - 1)

    def boolean(self, depth: int) -> tuple[Json, Any]:
        """A truth value."""
        rng = self.rng
        kind = rng.choice(["==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "d2b"])
        if depth > 0 and kind in ("and", "or"):
            a, fa = self.boolean(depth - 1)
            b, fb = self.boolean(depth - 1)
            if kind == "and":
                return op("and", a, b), lambda env: fa(env) and fb(env)
            return op("or", a, b), lambda env: fa(env) or fb(env)
        if depth > 0 and kind == "not":
            a, fa = self.boolean(depth - 1)
            return op("not", None, a), lambda env: not fa(env)
        if kind == "d2b":
            a, fa = self.number(max(depth - 1, 0))
            return op("d2b", None, a), lambda env: fa(env) != 0
        a, fa = self.number(max(depth - 1, 0))
        b, fb = self.number(max(depth - 1, 0))
        compare = {
            "!=": lambda x, y: x != y,
            "<": lambda x, y: x < y,
            "<=": lambda x, y: x <= y,
            ">": lambda x, y: x > y,
            ">=": lambda x, y: x >= y,
        }.get(kind, lambda x, y: x == y)
        chosen = kind if kind in ("!=", "<", "<=", ">", ">=") else "=="
        return op(chosen, a, b), lambda env: compare(fa(env), fb(env))


def divide(a: int, b: int) -> int:
    """The quotient, cut towards zero; zero when the divisor is."""
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def wrap(value: int, width: int) -> int:
    """Two's complement of `width` bits."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def pad(fields: list[list[Any]]) -> list[list[Any]]:
    """Append a field that fills the last byte."""
    rest = -sum(f[1] for f in fields) % 8
    return [*fields, ["pad", rest, False]] if rest else fields


def build(samples: list[tuple[Json, int]]) -> bytes:
    """A program that writes each expression, truncated to a width, into an output header."""
    b = ProgramBuilder()
    b.header("h", pad([[name, width, sign] for name, width, sign in names()]))
    b.header("out", pad([[f"o{i}", width, False] for i, (_, width) in enumerate(samples)]))
    b.deparser = ["out"]
    b.state("start", [b.extract("h")])
    b.run("add", [{"op": "add_header", "parameters": [{"type": "header", "value": "out"}]}])
    for i, (expression, _) in enumerate(samples):
        b.run(f"e{i}", [assign(field("out", f"o{i}"), expression)])
    return b.json()


def draw(rng: random.Random, count: int) -> list[tuple[Json, int, Any]]:
    """Random expressions, the widths that they are stored with, and functions of the inputs."""
    chosen: list[tuple[Json, int, Any]] = []
    for _ in range(count):
        expression, function = Sample(rng).number(rng.randint(1, 4))
        chosen.append((expression, rng.choice(NATIVE + WIDE), function))
    return chosen


def pack(values: list[int], widths: list[int]) -> bytes:
    """Concatenate fields, most significant first, and pad to bytes."""
    total = sum(widths)
    number = 0
    for value, width in zip(values, widths, strict=True):
        number = number << width | (value & (1 << width) - 1)
    return (number << -total % 8).to_bytes((total + 7) // 8, "big")


def random_value(rng: random.Random, width: int) -> int:
    """A value that is often at the edge of its range."""
    edges = [0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]
    return rng.choice(edges) & (1 << width) - 1 if rng.random() < 0.3 else rng.getrandbits(width)


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_match_unbounded_integers(seed: int, tmp_path: Path) -> None:
    """Every expression gives the low bits of the mathematical result."""
    rng = random.Random(seed)
    samples = draw(rng, CASES)
    widths = [width for _, width, _ in samples]
    program = build([(expression, width) for expression, width, _ in samples])
    with DataPlane.load(program, cache_dir=tmp_path / "cache") as switch:
        for _ in range(40):
            raw = [random_value(rng, width) for _, width, _ in names()]
            env = {
                name: wrap(value, width) if sign else value
                for (name, width, sign), value in zip(names(), raw, strict=True)
            }
            packet = pack(raw, [width for _, width, _ in names()])
            expected = pack([function(env) for _, _, function in samples], widths)
            [(_, output)] = switch.inject(0, packet)
            if output != expected:
                difference = int.from_bytes(output, "big") ^ int.from_bytes(expected, "big")
                position = len(output) * 8 - difference.bit_length()
                index = next(i for i in range(len(widths)) if sum(widths[: i + 1]) > position)
                pytest.fail(f"seed {seed}: {samples[index][0]} on {env}")


def test_shift_by_a_field_beyond_the_width_gives_zero(tmp_path: Path) -> None:
    """Shift amounts are not taken modulo the width of the machine."""
    mask = const(2**64 - 1)
    left = op("&", op("<<", field("h", "u64"), field("h", "u8")), mask)
    right = op(">>", field("h", "u64"), field("h", "u8"))
    with DataPlane.load(build([(left, 64), (right, 64)]), cache_dir=tmp_path) as switch:
        widths = [width for _, width, _ in names()]
        values = [(1 << width) - 1 for width in widths]
        values[2] = 200
        [(_, output)] = switch.inject(0, pack(values, widths))
        assert output == bytes(16)


def test_products_beyond_128_bits_are_compared_exactly(tmp_path: Path) -> None:
    """(2^128 - 1)^2 has 1 as its low bits and is not 1."""
    product = op("*", field("h", "u128"), field("h", "u128"))
    samples = [
        (op("b2d", None, op("==", product, const((2**128 - 1) ** 2 - d))), 8) for d in (0, 1)
    ]
    with DataPlane.load(build(samples), cache_dir=tmp_path) as switch:
        widths = [width for _, width, _ in names()]
        [(_, output)] = switch.inject(0, pack([(1 << width) - 1 for width in widths], widths))
        assert output == b"\x01\x00"


def test_constants_are_shifted_beyond_the_width_of_an_int(tmp_path: Path) -> None:
    """C would compute `5 >> 33` in 32 bits, where that has no defined value."""
    samples = [(op(">>", const(value), const(33)), 64) for value in (5, 2**40, 2**31)]
    with DataPlane.load(build(samples), cache_dir=tmp_path) as switch:
        widths = [width for _, width, _ in names()]
        [(_, output)] = switch.inject(0, pack([0] * len(widths), widths))
        assert output == bytes(8) + (2**7).to_bytes(8, "big") + bytes(8)
