"""How table keys are packed into 64-bit words, for the generated lookup and the control plane.

A field of up to 64 bits lies within one word; a wider one is cut into pieces of 64 bits from its
low end. Pieces fill a word from bit 0 on and start a new one when they do not fit. Where the key is
the index of the entry, the last field takes the low bits: keys that only differ in it, the finest
one mostly, are neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from softswitch.program import MatchType, Table

DIRECT_BITS = 16
"""Exact keys of at most this many bits index the entries directly."""


@dataclass(frozen=True)
class Piece:
    """Bits [low, low + width) of key field `field`, at `shift` in word `word`."""

    field: int
    low: int
    width: int
    word: int
    shift: int


@dataclass(frozen=True)
class KeyLayout:
    """The packed key of a table: all fields but the lpm field of an lpm table."""

    table: Table

    @cached_property
    def lpm_index(self) -> int:
        """Index of the field that is matched by the trie, -1 when there is none."""
        if self.table.match_type is not MatchType.LPM:
            return -1
        return next(i for i, k in enumerate(self.table.keys) if k.match_type is MatchType.LPM)

    @property
    def lpm_width(self) -> int:
        """Width in bits of the field that is matched by the trie, 0 when there is none."""
        return self.table.keys[self.lpm_index].width if self.lpm_index >= 0 else 0

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces in the order of the key."""
        if self.kind == "SS_DIRECT":
            return self._index_pieces
        pieces: list[Piece] = []
        word = used = 0
        for index, key in enumerate(self.table.keys):
            if index == self.lpm_index:
                continue
            for low in range(0, key.width, 64):
                width = min(64, key.width - low)
                if used + width > 64:
                    word, used = word + 1, 0
                pieces.append(Piece(index, low, width, word, used))
                used += width
        return tuple(pieces)

    @property
    def _index_pieces(self) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        used = self.bits
        for index, key in enumerate(self.table.keys):
            used -= key.width
            pieces.append(Piece(index, 0, key.width, 0, used))
        return tuple(pieces)

    @cached_property
    def words(self) -> int:
        """Number of words of the packed key."""
        return self.pieces[-1].word + 1 if self.pieces else 0

    @cached_property
    def bits(self) -> int:
        """Number of bits of the whole key."""
        return sum(key.width for key in self.table.keys)

    @property
    def kind(self) -> str:
        """The lookup structure, as enum ss_table_kind names it."""
        if not self.table.keys:
            return "SS_KEYLESS"
        if self.table.match_type is MatchType.LPM:
            return "SS_LPM"
        if self.table.match_type is MatchType.EXACT:
            return "SS_DIRECT" if self.bits <= DIRECT_BITS else "SS_EXACT"
        return "SS_TERNARY"

    @property
    def lpm_words(self) -> int:
        """Number of words of the left-aligned lpm field."""
        return (self.lpm_width + 63) // 64

    def pack(self, values: Sequence[int]) -> list[int]:
        """Return the words of a key with these field values."""
        words = [0] * self.words
        for p in self.pieces:
            words[p.word] |= (values[p.field] >> p.low & ((1 << p.width) - 1)) << p.shift
        return words

    def pack_lpm(self, value: int) -> list[int]:
        """Return the words of the lpm field, left-aligned, most significant first."""
        count = self.lpm_words
        value <<= 64 * count - self.lpm_width
        return [value >> 64 * (count - 1 - i) & (1 << 64) - 1 for i in range(count)]
