"""Hash algorithms of the compiled switch against published check values and slow definitions."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from softswitch.compiler import build
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


RUNTIME = """
#include "hashes.h"
uint64_t sum_of(const uint8_t *d, uint32_t n, uint32_t odd)
{
    return ss_csum_fold(ss_csum_turn(ss_csum_add_bytes(0, d, n), odd));
}
uint32_t any_of(const uint8_t *d, uint32_t n) { return ss_any(d, n); }
"""


def test_sums_of_bytes(tmp_path: Path) -> None:
    """Internet checksums of runs of any length, at even and at odd places of the whole."""
    library = ctypes.CDLL(str(build(RUNTIME, tmp_path / "cache")))
    rng = random.Random(4)
    for length in [*range(150), 1500, 9000, 10240]:
        for data in (rng.randbytes(length), bytes(length), b"\xff" * length):
            for odd in (0, 1):
                padded = bytes(odd) + data + bytes((odd + length) % 2)
                total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
                folded = (total - 1) % 0xFFFF + 1 if total else 0
                assert library.sum_of(data, length, odd) == 0xFFFF - folded, (length, odd)


def test_any_byte(tmp_path: Path) -> None:
    """One byte that is not zero is found wherever it is, and none beyond the end."""
    library = ctypes.CDLL(str(build(RUNTIME, tmp_path / "cache")))
    for length in range(40):
        assert not library.any_of(bytes(length) + b"\1" * 8, length)
        for place in range(length):
            data = bytes(place) + b"\x80" + bytes(length - place - 1)
            assert library.any_of(data, length), (length, place)
