"""Byte strings of P4Runtime (specification, section "Bytestrings").

Big-endian, unsigned, of any length on the way in as long as the value fits; the shortest form
on the way out.
"""

from __future__ import annotations

from softswitch.p4runtime.errors import out_of_range


def encode(value: int) -> bytes:
    """Return the shortest byte string of an unsigned value; zero is one byte."""
    return value.to_bytes((value.bit_length() + 7) >> 3 or 1, "big")


def decode(data: bytes, width: int, what: str) -> int:
    """Return the unsigned value of `data`, which must fit in `width` bits.

    Raises P4RuntimeError (OUT_OF_RANGE) naming `what` if `data` is empty or the value too large.
    """
    value = int.from_bytes(data, "big")
    if not data:
        raise out_of_range(f"{what}: the byte string is empty; give at least one byte")
    if value >> width:
        raise out_of_range(f"{what}: {shown(data)} does not fit in {width} bits")
    return value


def encode_signed(value: int) -> bytes:
    """Return the shortest two's complement byte string of a signed value."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) >> 3, "big", signed=True)


def decode_signed(data: bytes, width: int, what: str) -> int:
    """Return the signed value of a two's complement byte string that must fit in int<width>."""
    if not data:
        raise out_of_range(f"{what}: the byte string is empty; give at least one byte")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise out_of_range(f"{what}: {shown(data)} does not fit in int<{width}>")
    return value


def shown(data: bytes) -> str:
    """Return a short hexadecimal form of `data` for messages."""
    return f"0x{data[:16].hex()}" + ("…" if len(data) > 16 else "")
