"""Hash algorithms of the compiled switch against published check values and slow definitions."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from softswitch.dataplane import DataPlane
from softswitch.errors import UnsupportedConstruct
from tests.softswitch_json import ProgramBuilder, call, const, field

pytestmark = pytest.mark.compiler

CHECK = b"123456789"
LONG = b"Nobody inspects the spammish repetition"
VALUES = {
    ("crc16", CHECK): 0xBB3D,
    ("crc16_custom", CHECK): 0xBB3D,
    ("crc32", CHECK): 0xCBF43926,
    ("crc32_custom", CHECK): 0xCBF43926,
    ("crcCCITT", CHECK): 0x29B1,
    ("crc8_custom", CHECK): 0xF4,
    ("csum16", CHECK): 0xFFFF - (0x3132 + 0x3334 + 0x3536 + 0x3738 + 0x3900) % 0xFFFF,
    ("identity", CHECK): int.from_bytes(CHECK[:8], "big"),
    ("xxh64", b""): 0xEF46DB3751D8E999,
    ("xxh64", b"abc"): 0x44BC2CF5AD770999,
    ("xxh64", b"xxhash"): 0x32DD38952C4BC720,
    ("xxh64", LONG): 0xFBCEA83C8A378BF1,
}


def reflect(value: int, bits: int) -> int:
    """The bits of a number in the opposite order."""
    return int(f"{value:0{bits}b}"[::-1], 2)


def crc64(data: bytes) -> int:
    """Polynomial 0x1b, reflected, by long division of the whole message."""
    number = 0
    for byte in data:
        number = number << 8 | reflect(byte, 8)
    number <<= 64
    for position in range(number.bit_length() - 1, 63, -1):
        if number >> position & 1:
            number ^= (1 << 64 | 0x1B) << position - 64
    return reflect(number, 64)


def xor_words(size: int) -> Callable[[bytes], int]:
    """Exclusive or of words of `size` bytes; the last one is filled with zeros."""

    def compute(data: bytes) -> int:
        result = 0
        for i in range(0, len(data), size):
            result ^= int.from_bytes(data[i : i + size].ljust(size, b"\0"), "big")
        return result

    return compute


def hashing(algorithms: list[str], cache: Path) -> DataPlane:
    """A switch that prepends hashes of the packet to the packet."""
    b = ProgramBuilder()
    b.header("out", [[name, 64, False] for name in algorithms])
    b.calculations = [
        {"name": name, "id": i, "algo": name, "input": [{"type": "payload", "value": None}]}
        for i, name in enumerate(algorithms)
    ]
    b.state("start", [])
    b.deparser = ["out"]
    b.run("add", [call("add_header", {"type": "header", "value": "out"})])
    for name in algorithms:
        calculation = {"type": "calculation", "value": name}
        args = (field("out", name), const(0), calculation, const(2**64 - 1))
        b.run(f"run_{name}", [call("modify_field_with_hash_based_offset", *args)])
    return DataPlane.load(b.json(), cache_dir=cache)


def test_hashes_of_strings(tmp_path: Path) -> None:
    """Check strings with published values; random strings of all short lengths for the others."""
    rng = random.Random(5)
    slow = {"xor16": xor_words(2), "xor32": xor_words(4), "crc64_custom": crc64}
    names = sorted({name for name, _ in VALUES} | set(slow))
    strings = {data for _, data in VALUES} | {rng.randbytes(length) for length in range(1, 24)}
    with hashing(names, tmp_path) as switch:
        for data in sorted(strings):
            [(_, packet)] = switch.inject(0, data)
            assert packet[8 * len(names) :] == data
            for i, name in enumerate(names):
                found = int.from_bytes(packet[8 * i : 8 * i + 8], "big")
                expected = slow[name](data) if name in slow else VALUES.get((name, data), found)
                assert found == expected % (2**64 - 1), (name, data)


def test_an_unknown_algorithm_is_refused_by_name(tmp_path: Path) -> None:
    """As bmv2 does it, which has no algorithm of this name either."""
    with pytest.raises(UnsupportedConstruct, match="hash algorithm 'random'"):
        hashing(["random"], tmp_path)
