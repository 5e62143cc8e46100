"""Asking memory early for the cells that packets to come will touch.

Where a roll finds its cells is often said by numbers that change seldom (those of a job, a flow, a
port) and by fields of the packet. What was true of the last packet is taken for true of the next
ones of the same length: while one is processed, the cells of one that comes later in its batch are
already fetched. A wrong guess costs a little time and changes nothing. Only batches from interfaces
are treated so: after the kernel has received one, the caches are its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.columns import NotAlike
from softswitch.codegen.expressions import Expressions
from softswitch.codegen.plan import Hint, Roll
from softswitch.codegen.rolled import RolledCode
from softswitch.codegen.storage import Usage
from softswitch.program import Pipeline

MAX_WORDS = 64
"""Numbers that are kept from packet to packet: SS_HINT_WORDS."""


class HintCode:
    """Translates one hint: what is kept at the roll `place`, and what is done with it."""

    def __init__(
        self,
        expressions: Expressions,
        pipeline: Pipeline,
        place: Roll,
        usage: Usage,
        hint: Hint,
        first_word: int = 0,
    ) -> None:
        code = RolledCode(expressions, pipeline, place, usage)
        self.body = list(code.code.prefetch(hint))
        self.storage = code.storage
        self.count = place.count
        self.first_word = first_word
        self.kept = [c for c in self.storage.hoisted() if c[0].startswith("const ")]
        if first_word + len(self.kept) > MAX_WORDS:
            raise NotAlike
        for text in (*self.body, *self.storage.variables()):
            if "p->" in text or "l->" in text:
                raise NotAlike  # a packet that is not parsed yet has neither
        list(self.save())

    @property
    def words(self) -> int:
        """Return how many numbers are kept."""
        return len(self.kept)

    def _word(self, number: int) -> str:
        return f"c->hints[{self.first_word + number}]"

    def save(self) -> Iterator[str]:
        """Yield the statements that keep what is true of this packet."""
        yield "c->hint_length = p->x.len;"
        for i, (kind, text, _) in enumerate(self.kept):
            value = text.removeprefix(" = ")
            match kind:
                case "const uint64_t":
                    yield f"{self._word(i)} = {value};"
                case "const ss_v":
                    inner = value.removeprefix("ss_v_all(").removesuffix(")")
                    yield f"{self._word(i)} = {inner};"
                case "const uint8_t *":
                    yield f"{self._word(i)} = (uint64_t)({value} - p->x.data);"
                case _:
                    raise NotAlike

    def use(self) -> Iterator[str]:
        """Yield the statements that fetch the cells of the packet at d, `room` bytes long."""
        yield "{"
        for kind, text, name in self.storage.hoisted():
            if not kind.startswith("const "):
                yield f"    {kind} {name}{text};"
        for i, (kind, _, name) in enumerate(self.kept):
            if kind == "const uint8_t *":
                span = f"{self.storage.largest_step * self.count} + SS_SLACK"
                yield f"    if (room < {span} || {self._word(i)} > room - ({span})) return;"
                yield f"    const uint8_t *{name} = d + {self._word(i)};"
            elif kind == "const ss_v":
                yield f"    const ss_v {name} = ss_v_all({self._word(i)});"
            else:
                yield f"    const uint64_t {name} = {self._word(i)};"
        yield "    uint64_t spare_[2] = {0}; (void)spare_;"
        yield f"    for (unsigned k = 0; k < {self.count}; k += SS_WIDTH) {{"
        yield from (f"        {line}" for line in (*self.storage.variables(), *self.body))
        yield "    }"
        yield "}"


def hint_function(codes: list[HintCode]) -> Iterator[str]:
    """Yield ss_hint; a packet has SS_SLACK readable bytes behind it, which `room` counts."""
    yield "static inline void ss_hint(const struct ss_ctx *c, const uint8_t *d, size_t room)"
    yield "{"
    yield "    (void)c; (void)d; (void)room;"
    for code in codes:
        yield from (f"    {line}" for line in code.use())
    yield "}"
