"""Fields from bytes: loads that cover them, shifted and masked."""

from __future__ import annotations


def _load(base: str, byte: int, count: int) -> tuple[str, int]:
    """Return a load that covers `count` (up to 8) bytes at `byte`, and how many bytes it reads."""
    size = next(s for s in (1, 2, 4, 8) if s >= count)
    return f"ss_ld{size * 8}({base} + {byte})", size


def read_bits(base: str, offset: int, width: int) -> str:
    """Return the number in bits [offset, offset + width) of `base` (up to 128 bits)."""
    byte, bit = divmod(offset, 8)
    if bit + width <= 64:
        text, size = _load(base, byte, (bit + width + 7) // 8)
        shift = size * 8 - bit - width
        if shift:
            text = f"({text} >> {shift})"
        return text if bit == 0 else f"({text} & UINT64_C({(1 << width) - 1}))"
    # The high part ends at a byte boundary, so that the low part is whole bytes or one load.
    high = max(width - 64, 8 - bit) if bit else width - 64
    low = width - high
    high_text = read_bits(base, offset, high)
    return f"((u128){high_text} << {low} | {read_bits(base, offset + high, low)})"
