"""Hashes over fields, and the checksums that use them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

from softswitch.codegen.bitpack import Packer, append_bits
from softswitch.codegen.expressions import Expressions
from softswitch.codegen.layout import is_wide
from softswitch.codegen.wide import literal
from softswitch.ir import BoolConst, Calculation, CalculationInput, Checksum, Field, HeaderRef

_HASHES = {
    "csum16": "csum16",
    "cksum16": "csum16",
    "crc16": "crc16",
    "crc32": "crc32",
    "crcCCITT": "crcccitt",
    # The custom ones with the parameters that bmv2 starts with.
    "crc8_custom": "crc8",
    "crc16_custom": "crc16",
    "crc32_custom": "crc32",
    "crc64_custom": "crc64",
    "xor16": "xor16",
    "xor32": "xor32",
    "xxh64": "xxh64",
    "identity": "identity",
}
_SUMS = frozenset(["csum16", "cksum16"])


def _add_to_sum(_base: str, byte: int, text: str, count: int) -> Iterator[str]:
    """Yield the addition of `count` bytes at offset `byte` to a one's complement sum."""
    # 2^16 is 1 modulo 2^16 - 1: only whether the bytes end at an odd offset matters.
    if (byte + count) % 2:
        yield f"part = ss_csum_add_odd(part, {text});"
    else:
        yield f"part = ss_csum_add(part, {text});"


def _constant_parts(item: CalculationInput) -> Iterator[tuple[str, int]]:
    """Yield (text, width) parts of up to 64 bits of a constant input."""
    width = item.width if item.kind == "constant" else 0
    while width > 0:
        part = (width - 1) % 64 + 1
        width -= part
        yield literal(item.value >> width & (1 << part) - 1), part


class Calculations:
    """Translates calculations and checksums of one program."""

    def __init__(self, expressions: Expressions) -> None:
        self.e = expressions
        self.layout = expressions.layout
        self.program = expressions.layout.program
        self.numbers = {calc.name: i for i, calc in enumerate(self.program.calculations)}

    def call(self, name: str) -> str:
        """Return the call that computes a calculation."""
        return f"ss_calculation{self.numbers[name]}(p)"

    def functions(self) -> Iterator[str]:
        """Yield the functions of all calculations, and of verification and update."""
        for calculation in self.program.calculations:
            yield from self._function(calculation)
        yield from self._verify()
        yield from self._update()

    def _is_varbit(self, item: CalculationInput) -> bool:
        """Return True when an input has a length that is only known at run time."""
        if item.kind == "field":
            return self.program.field(item.header, item.field).varbit
        return item.kind == "header" and self.program.headers[item.header].type.varbit is not None

    def _width(self, item: CalculationInput) -> int:
        """Return the width of an input in bits, the largest one of a varbit field."""
        match item.kind:
            case "field":
                return self.program.field(item.header, item.field).width
            case "header":
                return self.program.headers[item.header].type.max_width
        return item.width

    def _function(self, calculation: Calculation) -> Iterator[str]:
        number = self.numbers[calculation.name]
        payload = any(i.kind == "payload" for i in calculation.inputs)
        inputs = [i for i in calculation.inputs if i.kind != "payload"]
        runs = [(k, list(g)) for k, g in groupby(inputs, key=self._owner)]
        size = sum(self._width(i) for i in inputs)
        room = (size + 7) // 8 + 16
        yield f"static uint64_t ss_calculation{number}(const struct ss_phv *p)"
        yield "{"
        lengths = [sum(self._width(i) for i in items) for _, items in runs]
        varbit = any(self._is_varbit(i) for i in inputs)
        whole_bytes = not any(n % 8 for n in lengths)
        if calculation.algorithm in _SUMS and whole_bytes and not payload and not varbit:
            yield from self._sum(runs)
            return
        yield f"    uint8_t buf[{room}{' + SS_HEADROOM + SS_MAX_PACKET' if payload else ''}];"
        if all(self._is_aligned(items) for _, items in runs):
            yield "    uint32_t n = 0;"
            for owner, items in runs:
                yield from self._aligned_run(owner, items)
        else:
            yield f"    memset(buf, 0, {room});"
            yield "    uint32_t bits = 0;"
            for item in inputs:
                yield from self._append_bits(item)
            yield "    uint32_t n = (bits + 7) / 8;"
        if payload:
            yield "    memcpy(buf + n, p->x.payload, p->x.payload_len);"
            yield "    n += p->x.payload_len;"
        yield f"    return ss_hash_{_HASHES[calculation.algorithm]}(buf, n);"
        yield "}"

    def _is_aligned(self, items: list[CalculationInput]) -> bool:
        """Return True when inputs, and varbit fields within them, are whole bytes."""
        offset = 0
        for item in items:
            for ref in self._field_refs(item):
                if self.program.field(*ref).varbit and offset % 8:
                    return False
                offset += self.program.field(*ref).width
            if item.kind == "constant":
                offset += item.width
        return offset % 8 == 0

    def _sum(self, runs: list[tuple[int, list[CalculationInput]]]) -> Iterator[str]:
        """Yield the body of an Internet checksum that needs no copy of its input."""
        yield "    uint64_t sum = 0;"
        yield "    uint32_t odd = 0; (void)odd; /* whether the next run starts at an odd byte */"
        ever_odd = False
        for owner, items in runs:
            condition = "" if owner < 0 else f"if ({self.layout.static_valid(owner)}) "
            yield f"    {condition}{{"
            yield "        uint64_t part = 0;"
            yield from (f"        {line}" for line in self._add_run(owner, items))
            yield f"        sum += {'ss_csum_turn(part, odd)' if ever_odd else 'part'};"
            if sum(self._width(i) for i in items) % 16:
                ever_odd = True
                yield "        odd ^= 1;"
            yield "    }"
        yield "    return ss_csum_fold(sum);"
        yield "}"

    def _add_run(self, owner: int, items: list[CalculationInput]) -> Iterator[str]:
        """Yield the statements that add inputs of one header."""
        refs = [ref for item in items for ref in self._field_refs(item)]
        fields = [self.program.field(*ref) for ref in refs]
        follow = all(a.offset + a.width == b.offset for a, b in pairwise(fields))
        if owner in self.layout.views and follow and fields[0].offset % 8 == 0:
            start, end = fields[0].offset // 8, (fields[-1].offset + fields[-1].width) // 8
            view = self.layout.view(owner)
            yield f"part = ss_csum_add_bytes(part, {view} + {start}, {end - start});"
            return
        packer = Packer("", store=_add_to_sum)
        for item in items:
            self._pack(packer, item)
        yield from packer.lines

    def _owner(self, item: CalculationInput) -> int:
        """Return the header whose validity decides about an input, or -1."""
        if item.kind == "constant" or self.program.headers[item.header].metadata:
            return -1
        return item.header

    def _aligned_run(self, owner: int, items: list[CalculationInput]) -> Iterator[str]:
        """Yield statements for inputs that are whole bytes together and valid together."""
        condition = "" if owner < 0 else f"if ({self.layout.static_valid(owner)}) "
        yield f"    {condition}{{"
        packer = Packer("(buf + n)")
        for item in items:
            for ref in self._field_refs(item):
                if not self.program.field(*ref).varbit:
                    self._pack_field(packer, ref)
                    continue
                text = self.layout.static_field(*ref)
                yield from (f"        {line}" for line in packer.lines)
                yield f"        n += {packer.offset // 8};"
                yield f"        memcpy(buf + n, {text}, {text}_len); n += {text}_len;"
                packer = Packer("(buf + n)")
            self._pack_constant(packer, item)
        yield from (f"        {line}" for line in packer.lines)
        yield f"        n += {packer.offset // 8};"
        yield "    }"

    def _field_refs(self, item: CalculationInput) -> list[tuple[int, int]]:
        """Return the fields of an input that is no constant."""
        if item.kind == "field":
            return [(item.header, item.field)]
        if item.kind == "header":
            count = len(self.program.headers[item.header].type.fields)
            return [(item.header, i) for i in range(count)]
        return []

    def _pack(self, packer: Packer, item: CalculationInput) -> None:
        for ref in self._field_refs(item):
            self._pack_field(packer, ref)
        self._pack_constant(packer, item)

    def _pack_field(self, packer: Packer, ref: tuple[int, int]) -> None:
        width, text = self.program.field(*ref).width, self.layout.static_field(*ref)
        if is_wide(width):
            packer.copy(text, width)
        else:
            packer.put(text, width, 64 if width <= 64 else 128)

    @staticmethod
    def _pack_constant(packer: Packer, item: CalculationInput) -> None:
        for text, width in _constant_parts(item):
            packer.put(text, width)

    def _append_bits(self, item: CalculationInput) -> Iterator[str]:
        owner = self._owner(item)
        condition = "" if owner < 0 else f"if ({self.layout.static_valid(owner)}) "
        yield f"    {condition}{{"
        for ref in self._field_refs(item):
            yield from (f"        {line}" for line in append_bits(self.layout, ref, "buf"))
        for text, width in _constant_parts(item):
            yield f"        ss_put_bits(buf, &bits, {text}, {width});"
        yield "    }"

    def _condition(self, checksum: Checksum) -> str:
        self.e.where = f"checksum {checksum.name!r}"
        return self.e.boolean(checksum.condition)

    def _verify(self) -> Iterator[str]:
        yield "static inline void ss_verify_checksums(struct ss_phv *p)"
        yield "{"
        yield "    (void)p;"
        for checksum in self.program.checksums:
            if not checksum.verify or checksum.condition == BoolConst(False):
                continue
            valid = self.layout.static_valid(checksum.header)
            target = self.e.modular(Field(HeaderRef(checksum.header), checksum.field), 64)
            yield f"    if ({valid} && {self._condition(checksum)}"
            yield f"        && {self.call(checksum.calculation)} != {target})"
            yield "        p->x.checksum_error = true;"
        yield "}"

    def _update(self) -> Iterator[str]:
        yield "static inline void ss_update_checksums(struct ss_phv *p)"
        yield "{"
        yield "    (void)p;"
        for checksum in self.program.checksums:
            if not checksum.update:
                continue
            target = Field(HeaderRef(checksum.header), checksum.field)
            yield f"    if ({self._condition(checksum)})"
            yield f"        {self.e.put(target, self.call(checksum.calculation), 64)}"
        yield "}"
