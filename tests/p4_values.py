"""What programs of tests/p4_run.py work on: numbers with a width, headers, structs and packets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bits:
    """A number; without a width where the program gives it none."""

    value: int
    width: int | None = None
    signed: bool = False

    @staticmethod
    def of(value: int, width: int | None, signed: bool = False) -> Bits:
        """A number that wraps around in its width."""
        if width is not None:
            value &= (1 << width) - 1
            if signed and value >> (width - 1):
                value -= 1 << width
        return Bits(value, width, signed)


class Record:
    """A header or a struct: numbers and records by name, and whether a header is valid.

    `noise` makes the numbers of a header that nobody wrote.
    """

    def __init__(self, kind: str, members: dict[str, Any], noise: Callable[[int], int]) -> None:
        self.is_header = kind == "header"
        self.valid = not self.is_header
        self.types: dict[str, tuple[int, bool]] = {}
        self.fields: dict[str, Any] = {}
        self._noise = noise
        for name, value in members.items():
            self.fields[name] = value
            if isinstance(value, Bits):
                width = value.width or 0
                self.types[name] = (width, value.signed)
                self.fields[name] = noise(width) if self.is_header else value.value

    @property
    def width(self) -> int:
        """Of a header, in bits."""
        return sum(width for width, _ in self.types.values())

    def get(self, name: str) -> Any:
        """A record, or a number; noise if the header is not valid."""
        if name not in self.types:
            return self.fields[name]
        width, signed = self.types[name]
        value = self.fields[name] if self.valid else self._noise(width)
        return Bits.of(value, width, signed)

    def set(self, name: str, value: Bits) -> None:
        """Write a number."""
        self.fields[name] = Bits.of(value.value, *self.types[name]).value

    def unpack(self, data: int) -> None:
        """Take all fields, first one highest."""
        self.valid = True
        for name, (width, signed) in reversed(self.types.items()):
            self.fields[name] = Bits.of(data, width, signed).value
            data >>= width

    def pack(self) -> int:
        """All fields, first one highest."""
        data = 0
        for name, (width, _) in self.types.items():
            data = data << width | self.fields[name] & ((1 << width) - 1)
        return data


@dataclass
class Packet:
    """Bytes that are parsed, or put together; `at` is the next bit."""

    data: bytes
    at: int = 0

    def take(self, bits: int, stays: bool = False) -> int:
        """Bits from here on; `EOFError` behind the end."""
        end = self.at + bits
        if end > 8 * len(self.data):
            raise EOFError
        if bits == 0:
            return 0
        found = int.from_bytes(self.data[self.at // 8 : (end + 7) // 8], "big")
        found = (found >> (-end % 8)) & ((1 << bits) - 1)
        self.at = self.at if stays else end
        return found


def checksum_of(data: int, width: int) -> int:
    """The Internet checksum of `width` bits."""
    words = data << (-width % 16)
    total = 0
    while words:
        total += words & 0xFFFF
        words >>= 16
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def matches(keys: list[int], wanted: list[tuple[int, int] | None]) -> bool:
    """Whether all keys are as values and masks say; None is as any."""
    pairs = zip(keys, wanted, strict=True)
    return all(each is None or key & each[1] == each[0] for key, each in pairs)
