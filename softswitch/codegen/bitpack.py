"""Fields of a header from and to bytes, in straight lines of loads and stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from softswitch.codegen.layout import Layout, c_type, is_wide
from softswitch.codegen.loads import read_bits
from softswitch.program import HeaderType


def extract(header_type: HeaderType, target: str, base: str) -> Iterator[str]:
    """Yield statements that fill the members of `target` from the bytes at `base`.

    The C variable n holds the number of bytes of a varbit field.
    """
    for i, field in enumerate(header_type.fields):
        if field.varbit:
            yield f"{target}.f{i}_len = (uint16_t)n;"
            if field.offset % 8:
                yield f"ss_get_bits({target}.f{i}, n, {base}, {field.offset}, n * 8);"
            else:
                yield f"memcpy({target}.f{i}, {base} + {field.offset // 8}, n);"
            base = f"({base} + n)"
        elif is_wide(field.width) and (field.offset % 8 or field.width % 8):
            size = f"{(field.width + 7) // 8}"
            yield f"ss_get_bits({target}.f{i}, {size}, {base}, {field.offset}, {field.width});"
        elif is_wide(field.width):
            count = field.width // 8
            yield f"memcpy({target}.f{i}, {base} + {field.offset // 8}, {count});"
        else:
            text = read_bits(base, field.offset, field.width)
            yield f"{target}.f{i} = ({c_type(field.width)}){text};"


def _store_bytes(base: str, byte: int, text: str, count: int) -> Iterator[str]:
    """Yield stores of the low `count` (up to 8) bytes of a uint64_t."""
    if count in (1, 2, 4, 8):
        yield f"ss_st{count * 8}({base} + {byte}, {text});"
        return
    yield f"{{ uint64_t v = {text};"
    done = 0
    for size in (4, 2, 1):
        if count - done >= size:
            rest = count - done - size
            yield f"  ss_st{size * 8}({base} + {byte + done}, v >> {rest * 8});"
            done += size
    yield "}"


Store = Callable[[str, int, str, int], Iterable[str]]
"""(base, byte offset, uint64_t value, number of bytes) to statements."""


class Packer:
    """Collects (value, width) items and stores them as whole bytes at fixed offsets."""

    def __init__(self, base: str, store: Store = _store_bytes, offset: int = 0) -> None:
        self.base = base
        self.store = store
        self.offset = offset
        self.lines: list[str] = []
        self._group: list[tuple[str, int]] = []

    def put(self, text: str, width: int, native: int = 64) -> None:
        """Append the low `width` bits of an unsigned value of `native` bits (64 or 128)."""
        while width > 64 or (self._pending and self._pending + width > 64):
            take = min(width, 64 - self._pending)
            rest = width - take
            self._append(f"(uint64_t)({text} >> {rest})", take)
            width = rest
        if width:
            self._append(f"(uint64_t)({text})" if native > 64 else text, width)

    @property
    def _pending(self) -> int:
        return sum(width for _, width in self._group)

    def _append(self, text: str, width: int) -> None:
        if not width:
            return
        self._group.append((text, width))
        self.offset += width
        if self.offset % 8 == 0:
            self._flush()

    def _flush(self) -> None:
        total = self._pending
        start = (self.offset - total) // 8
        terms = []
        left = total
        for text, width in self._group:
            left -= width
            value = f"((uint64_t)({text}) & UINT64_C({(1 << width) - 1}))" if width < 64 else text
            terms.append(f"({value} << {left})" if left else f"({value})")
        self._group = []
        joined = " | ".join(terms)
        self.lines += self.store(self.base, start, f"(uint64_t)({joined})", total // 8)

    def copy(self, source: str, width: int) -> None:
        """Append a wide field, given as an array of bytes."""
        if self.store is _store_bytes and self.offset % 8 == 0 and width % 8 == 0:
            self.lines.append(f"memcpy({self.base} + {self.offset // 8}, {source}, {width // 8});")
            self.offset += width
            return
        position = -width % 8
        while width:
            part = min(width, 64)
            self.put(f"(uint64_t)ss_peek_bits({source}, {position}, {part})", part)
            position += part
            width -= part


def emit(layout: Layout, header: int, base: str) -> list[str]:
    """Return statements that write a header's bytes at `base`."""
    info = layout.program.headers[header]
    if any(f.varbit and f.offset % 8 for f in info.type.fields):
        size = layout.size_bytes(info.type, layout.header(header))
        lines = [f"memset({base}, 0, {size}); uint32_t bits = 0;"]
        for i in range(len(info.type.fields)):
            lines += append_bits(layout, (header, i), base)
        return lines
    packer = Packer(base)
    lines = []
    for i, field in enumerate(info.type.fields):
        text = layout.static_field(header, i)
        if field.varbit:
            start = f"{base} + {packer.offset // 8}"
            lines += [*packer.lines, f"memcpy({start}, {text}, {text}_len);"]
            packer = Packer(f"({base} + {text}_len)", offset=packer.offset)
        elif is_wide(field.width):
            packer.copy(text, field.width)
        else:
            packer.put(text, field.width, 64 if field.width <= 64 else 128)
    return lines + packer.lines


def append_bits(layout: Layout, ref: tuple[int, int], buffer: str) -> Iterator[str]:
    """Yield statements that append a field to a bit string, of which there are `bits` bits."""
    field, text = layout.program.field(*ref), layout.static_field(*ref)
    if field.varbit:
        yield f"for (uint32_t i = 0; i < {text}_len; i++)"
        yield f"    ss_put_bits({buffer}, &bits, {text}[i], 8);"
    elif is_wide(field.width):
        rest = (field.width - 1) // 8
        yield f"ss_put_bits({buffer}, &bits, {text}[0], {field.width - 8 * rest});"
        yield f"for (uint32_t i = 1; i <= {rest}; i++)"
        yield f"    ss_put_bits({buffer}, &bits, {text}[i], 8);"
    else:
        yield f"ss_put_bits({buffer}, &bits, {text}, {field.width});"
