"""How values travel: as they are, or as another type (`@p4runtime_translation`).

A translated type is a number of another width, with the same value, or a name. Names stand for
numbers of the data plane: the name of an interface for its port, a decimal number for itself; any
other name gets the largest number that stands for nothing yet, when it is first used.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4t

from softswitch.p4runtime import values
from softswitch.p4runtime.errors import exhausted, invalid, unimplemented
from softswitch.program import MatchType

MAX_NAME_BYTES = 256


@dataclass(frozen=True)
class WireType:
    """The values of a type of `width` bits, as they are."""

    width: int

    def read(self, data: bytes, what: str) -> int:
        """Return the data plane's value of a byte string; raises P4RuntimeError."""
        return values.decode(data, self.width, what)

    def write(self, value: int) -> bytes:
        """Return the canonical byte string of a value."""
        return values.encode(value)

    def read_mask(self, data: bytes, what: str) -> int:
        """Return the data plane's mask of a byte string; raises P4RuntimeError."""
        return values.decode(data, self.width, what)

    def write_mask(self, mask: int) -> bytes:
        """Return the canonical byte string of a mask."""
        return values.encode(mask)

    @property
    def more_bits(self) -> int:
        """Bits that controllers see on top of the data plane's (negative: fewer)."""
        return 0


@dataclass(frozen=True)
class SdnNumber(WireType):
    """Numbers of `sdn_width` bits to controllers. Masks cover all bits that only one side has."""

    sdn_width: int

    @property
    def more_bits(self) -> int:
        """Bits that controllers see on top of the data plane's (negative: fewer)."""
        return self.sdn_width - self.width

    def read(self, data: bytes, what: str) -> int:
        """Return the data plane's value of a byte string; raises P4RuntimeError."""
        value = values.decode(data, self.sdn_width, what)
        return values.decode(values.encode(value), self.width, what)

    def read_mask(self, data: bytes, what: str) -> int:
        """Return the data plane's mask of a byte string; raises P4RuntimeError."""
        mask = values.decode(data, self.sdn_width, what)
        if mask >> self.width != self._upper(self.more_bits):
            raise invalid(f"{what}: it must cover the {self.more_bits} bits above {self.width}")
        return (mask & ((1 << self.width) - 1)) | self._upper(-self.more_bits) << self.sdn_width

    def write_mask(self, mask: int) -> bytes:
        """Return the canonical byte string of a mask."""
        own = mask & ((1 << self.sdn_width) - 1)
        return values.encode(own | self._upper(self.more_bits) << self.width)

    @staticmethod
    def _upper(bits: int) -> int:
        return (1 << bits) - 1 if bits > 0 else 0


class Names:
    """The numbers of `width` bits that names stand for. Thread-safe."""

    def __init__(self, width: int, ports: Mapping[str, int]) -> None:
        self._lock = threading.Lock()
        self._numbers = {name: port for name, port in ports.items() if port < 1 << width}
        self._names = {port: name for name, port in self._numbers.items()}
        self._limit = 1 << width
        self._free = self._limit - 1

    def number(self, name: str, what: str) -> int:
        """Return the number of a name; raises P4RuntimeError when none is left."""
        with self._lock:
            found = self._numbers.get(name)
            if found is not None:
                return found
            found = self._decimal(name)
            if found is None:
                found = self._next(what)
            elif found in self._names:
                raise invalid(f"{what}: {found} has the name {self._names[found]!r}")
            self._numbers[name] = found
            self._names[found] = name
            return found

    def name(self, number: int) -> str:
        """Return the name of a number."""
        with self._lock:
            return self._names.get(number, str(number))

    def adopt(self, former: Names) -> None:
        """Let names stand for what they stood for in a pipeline before, where that is free."""
        with former._lock:
            numbers = list(former._numbers.items())
        with self._lock:
            for name, number in numbers:
                if name not in self._numbers and number not in self._names:
                    self._numbers[name] = number
                    self._names[number] = name

    def _decimal(self, name: str) -> int | None:
        if name.isascii() and name.isdigit() and str(int(name[:40])) == name:
            number = int(name)
            return number if number < self._limit else None
        return None

    def _next(self, what: str) -> int:
        while self._free in self._names:
            self._free -= 1
        if self._free < 0:
            raise exhausted(f"{what}: all {self._limit} numbers have a name")
        return self._free


@dataclass(frozen=True)
class SdnName(WireType):
    """Names to controllers. Only exact and optional matches can be translated."""

    names: Names

    def read(self, data: bytes, what: str) -> int:
        """Return the data plane's value of a name; raises P4RuntimeError."""
        if not 1 <= len(data) <= MAX_NAME_BYTES:
            raise invalid(f"{what}: a name has 1 to {MAX_NAME_BYTES} bytes, not {len(data)}")
        try:
            return self.names.number(data.decode(), what)
        except UnicodeDecodeError:
            raise invalid(f"{what}: {values.shown(data)} is not a name in UTF-8") from None

    def write(self, value: int) -> bytes:
        """Return the name of a value."""
        return self.names.name(value).encode()


class Translations:
    """The types of a P4Info; `ports` are the names of interfaces and their ports."""

    def __init__(self, types: p4t.P4TypeInfo, ports: Mapping[str, int]) -> None:
        self._types = types.new_types
        self._ports = ports
        self._names: dict[tuple[str, int], Names] = {}

    def of(self, item: Any, width: int, what: str) -> WireType:
        """Return how an item travels that has `width` bits in the program.

        Raises P4RuntimeError if an item that is not translated has another width in P4Info.
        """
        translated = self.named(item.type_name.name, width) if item.HasField("type_name") else None
        if translated is not None:
            return translated
        if item.bitwidth != width:
            raise invalid(
                f"{what} is {item.bitwidth} bits wide in P4Info and {width} in the program"
            )
        return WireType(width)

    def named(self, type_name: str, width: int) -> WireType | None:
        """Return how a type travels if it is translated, else None."""
        if type_name not in self._types or not self._types[type_name].HasField("translated_type"):
            return None
        translated = self._types[type_name].translated_type
        if translated.WhichOneof("sdn_type") == "sdn_bitwidth":
            return SdnNumber(width, translated.sdn_bitwidth)
        key = type_name, width
        if key not in self._names:
            self._names[key] = Names(width, self._ports)
        return SdnName(width, self._names[key])

    def adopt(self, former: Translations) -> None:
        """Let names stand for what they stood for in a pipeline before, type by type."""
        for key, names in former._names.items():
            if key in self._names:
                self._names[key].adopt(names)


def check_match(wire: WireType, kind: MatchType, what: str) -> None:
    """Raise P4RuntimeError if a field of this type cannot be matched this way."""
    if isinstance(wire, SdnName) and kind not in (MatchType.EXACT, MatchType.OPTIONAL):
        raise unimplemented(f"{what} is a name to controllers and {kind}: names have no order")
