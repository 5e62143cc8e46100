"""Table look-ups of many copies at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from softswitch.codegen.alike import Row
from softswitch.codegen.columns import NotAlike, SeriesTable, step_of
from softswitch.codegen.copies import Mask, both, text_of
from softswitch.codegen.keys import KeyLayout
from softswitch.codegen.layout import Layout
from softswitch.codegen.storage import CopyStorage
from softswitch.codegen.vector import Vectors
from softswitch.ir import Const, Expr, Field, HeaderRef, Op
from softswitch.program import Table


@dataclass
class LookupCode:
    """Translates the look-ups of one roll; `tables` are those that must lie side by side."""

    vectors: Vectors
    storage: CopyStorage
    tables: SeriesTable = field(default_factory=SeriesTable)

    @property
    def layout(self) -> Layout:
        """The layout of the program."""
        return self.storage.layout

    def lookup(self, tables: list[Table], mask: Mask) -> Iterator[str]:
        """Yield the statements that declare the entries e_ at at_, the action_ and hit_."""
        first = tables[0]
        layouts = [KeyLayout(table) for table in tables]
        if any(_form(table) != _form(first) for table in tables):
            raise NotAlike
        if not has_plain_entries(first):
            raise NotAlike
        numbers = [table.index for table in tables]
        rows = self._key_rows(tables)
        size = f"sizeof(struct ss_entry{first.index})"
        which = self.storage.hoist("struct ss_table *", f"c->tables + {first.index}")
        step = step_of(numbers)
        yield "ss_v at_, e_;"
        yield "ss_m hit_;"
        if layouts[0].kind == "SS_DIRECT":
            yield from self._direct(tables, layouts[0], rows, which)
        else:
            yield from self._scalar_lookup(first, layouts[0], rows, (which, step), mask)
        yield f"const ss_m missing_ = {both(mask, '~hit_')};"
        yield "if (ss_m_any(missing_)) {"
        yield "    uint64_t a_[SS_WIDTH];"
        yield "    ss_v_store(a_, at_);"
        yield "    SS_V_EACH(e, missing_)"
        yield f"        a_[e] = (uintptr_t){which}[{step} * (int)(k + e)].default_entry;"
        yield "    at_ = ss_v_load(a_);"
        yield f"    e_ = ss_v_entry(at_, {size});"
        yield "}"
        yield f"const ss_v action_ = {self.member(first, 'action')};"

    @staticmethod
    def member(table: Table, name: str, kind: str = "v") -> str:
        """Return the vector of a member of the entries looked up, "m": where it is set."""
        struct = f"struct ss_entry{table.index}"
        where = f"offsetof({struct}, {name}), sizeof(({struct} *)0)->{name}"
        return f"ss_{kind}_member(e_, at_, sizeof({struct}), {where})"

    def _key_rows(self, tables: list[Table]) -> list[Row]:
        rows: list[Row] = []
        for i, key in enumerate(tables[0].keys):
            if key.width > 64:
                raise NotAlike
            row: list[Expr] = []
            for table in tables:
                part = table.keys[i]
                header = self.layout.program.headers[part.header]
                if part.field < 0 or not (header.metadata or part.header in self.layout.views):
                    raise NotAlike
                expr: Expr = Field(HeaderRef(part.header), part.field)
                row.append(expr if part.mask is None else Op("&", (expr, Const(part.mask))))
            rows.append(tuple(row))
        return rows

    def _part(self, tables_key_header: int, row: Row) -> str:
        """Return a part of a key; a field of an invalid header counts as zero."""
        text = self.vectors.number(row)
        valid = self.layout.static_valid(tables_key_header)
        if valid == "1":
            return text
        return f"({text} & ss_v_if({self.storage.hoist('bool', valid)}))"

    def _words(self, table: Table, layout: KeyLayout, rows: list[Row]) -> list[str]:
        words: list[list[str]] = [[] for _ in range(layout.words)]
        for piece in layout.pieces:
            text = self._part(table.keys[piece.field].header, rows[piece.field])
            words[piece.word].append(f"({text} << {piece.shift})" if piece.shift else text)
        return [" | ".join(terms) for terms in words]

    def _direct(
        self, tables: list[Table], layout: KeyLayout, rows: list[Row], which: str
    ) -> Iterator[str]:
        first = tables[0]
        base = self.storage.hoist("uint64_t", f"(uintptr_t){which}->entries")
        [index] = self._words(first, layout, rows)
        size = f"sizeof(struct ss_entry{first.index})"
        members = self.layout.plan.tables.beside(first.name)[1]
        start, at = base, f"({index}) * ({members} * {size})"
        if tables[1].name != first.name:
            self.tables.add([table.name for table in tables])
            start, at = f"{base} + k * {size}", f"{at} + {self.storage.steps(size)}"
        at = f"ss_v_all({start}) + {at}"
        yield f"at_ = {at};"
        yield f"e_ = ss_v_entry(at_, {size});"
        yield f"hit_ = {self.member(first, 'action', 'm')};"

    def _scalar_lookup(
        self, table: Table, layout: KeyLayout, rows: list[Row], place: tuple[str, int], mask: Mask
    ) -> Iterator[str]:
        """Yield a loop that looks up one copy after the other."""
        words = self._words(table, layout, rows)
        for i, word in enumerate(words):
            yield f"const ss_v k{i}_ = {word};"
        if layout.lpm_index >= 0:
            key = table.keys[layout.lpm_index]
            part = self._part(key.header, rows[layout.lpm_index])
            yield f"const ss_v f_ = {part} << {64 - key.width};"
        which, step = place
        yield "uint64_t a_[SS_WIDTH]; unsigned found_ = 0;"
        yield f"ss_v_store(a_, ss_v_all((uintptr_t){which}->default_entry));"
        yield f"SS_V_EACH(e, {text_of(mask)}) {{"
        yield f"    const struct ss_table *t = &{which}[{step} * (int)(k + e)];"
        values = ", ".join(f"k{i}_[e]" for i in range(len(words))) or "0"
        yield f"    const uint64_t q[] = {{{values}}};"
        if layout.lpm_index >= 0:
            count = (layout.lpm_width + 7) // 8
            yield "    const uint64_t f[] = {f_[e]};"
            yield f"    const uint32_t root = ss_map_get(&t->map, q, {layout.words});"
            yield "    if (root == SS_NONE) continue;"
            yield f"    const uint32_t h = ss_lpm_get(&t->lpm, root, f, {count});"
        elif layout.kind == "SS_EXACT":
            yield f"    const uint32_t h = ss_map_get(&t->map, q, {layout.words});"
        else:
            yield f"    const uint32_t h = ss_tuples_get(&t->tuples, q, {layout.words});"
        yield "    if (h == SS_NONE) continue;"
        yield f"    a_[e] = (uintptr_t)((const struct ss_entry{table.index} *)t->entries + h);"
        yield "    found_ |= 1u << e;"
        yield "}"
        yield "at_ = ss_v_load(a_);"
        yield "hit_ = ss_m_of(found_);"
        yield f"e_ = ss_v_entry(at_, sizeof(struct ss_entry{table.index}));"


def has_plain_entries(table: Table) -> bool:
    """Return True for a table with a key whose entries are actions and nothing else."""
    direct = table.with_counters or table.support_timeout or table.meter or table.profile
    return bool(table.keys) and not direct


def _form(table: Table) -> object:
    """Return what tables that are alike have in common."""
    layout = KeyLayout(table)
    keys = [(key.width, key.header) for key in table.keys]
    return keys, layout.kind, layout.lpm_index, layout.pieces, len(table.actions)
