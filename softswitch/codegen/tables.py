"""Tables: entry structs, encoders, key builders and lookups."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.entries import encoder, entry_struct
from softswitch.codegen.keys import KeyLayout
from softswitch.codegen.layout import Layout, is_wide
from softswitch.errors import UnsupportedConstruct
from softswitch.ir import TableNode
from softswitch.program import KeyField, Table


def _local_piece(layout: Layout, table: Table) -> str | None:
    return layout.local_piece((k.header, k.field) for k in table.keys)


def lookup_call(layout: Layout, table: Table) -> str:
    """Return the expression that looks a packet up: an entry, or NULL on a miss."""
    if not table.keys:
        return "NULL"
    return f"ss_lookup{table.index}(c, p{', l' if _local_piece(layout, table) else ''})"


class Tables:
    """Translates the tables of one program."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.program = layout.program
        self.tables = list(layout.program.tables.values())
        self.keys = {t.name: KeyLayout(t) for t in self.tables}
        self._forms: dict[tuple[tuple[int, ...], ...], int] = {}

    def definitions(self) -> Iterator[str]:
        """Yield entry structs, encoders, lookups and the array of table descriptions."""
        single = self.layout.plan.single_nodes(self.program)
        looked_up = {node.table for node in single if isinstance(node, TableNode)}
        for table in self.tables:
            yield from self._entry(table)
            if table.keys and table.name in looked_up:
                yield from self._lookup(table)
        yield "static const struct ss_table_info ss_table_infos[] = {"
        for table in self.tables:
            key = self.keys[table.name]
            words = key.bits if key.kind == "SS_DIRECT" else key.words
            wanted = (table.with_counters, table.meter is not None, table.support_timeout)
            direct = ", ".join("true" if each else "false" for each in wanted)
            n = table.index
            member, members = self.layout.plan.tables.beside(table.name)
            yield (
                f"    {{{key.kind}, {words}, {key.lpm_width}, sizeof(struct ss_entry{n}), "
                f"{member}, {members}, {direct}, ss_encode{n}}},"
            )
        yield "    {SS_KEYLESS, 0, 0, 0, 0, 1, false, false, false, 0}"
        yield "};"
        series = [name for names in self.layout.plan.tables.all for name in names]
        placed = [*series, *(t.name for t in self.tables if t.name not in set(series))]
        order = ", ".join(str(self.keys[str(name)].table.index) for name in placed)
        yield f"static const uint32_t ss_table_order[] = {{{order or 0}}};"

    def _entry(self, table: Table) -> Iterator[str]:
        """Yield the struct of an entry and the function that fills one."""
        n = table.index
        if table.profile is None:
            actions = [self.program.actions[a] for a in table.actions.values()]
            form = tuple(tuple(param.width for param in action.params) for action in actions)
            same = self._forms.setdefault(form, n)
            if same != n:
                yield f"#define ss_entry{n} ss_entry{same}"
                yield f"#define ss_encode{n} ss_encode{same}"
                return
            yield from entry_struct(f"ss_entry{n}", actions)
            yield from encoder(f"ss_encode{n}", f"ss_entry{n}", actions)
            return
        yield f"struct ss_entry{n} {{ uint32_t action, target; }}; /* action: 0 if free */"
        yield f"static void ss_encode{n}(void *entry, uint32_t target, const uint64_t *w)"
        yield "{"
        yield "    (void)w;"
        yield f"    *(struct ss_entry{n} *)entry = (struct ss_entry{n}){{1, target}};"
        yield "}"

    def _value(self, key: KeyField, low: int, width: int) -> str:
        """Return bits [low, low + width) of a key field; an invalid header counts as zero."""
        if key.field < 0:
            return f"(uint64_t){self.layout.static_valid(key.header)}"
        text = self.layout.static_field(key.header, key.field)
        if self.program.field(key.header, key.field).varbit:
            raise UnsupportedConstruct("varbit field in a key", f"key field {key.name!r}")
        if is_wide(key.width):
            total = (key.width + 7) // 8 * 8
            text = f"(uint64_t)ss_peek_bits({text}, {total - low - width}, {width})"
        elif key.width > 64:
            text = f"(uint64_t)({text} >> {low})"
        if key.mask is not None:
            mask = key.mask >> low & ((1 << width) - 1)
            text = f"({text} & UINT64_C({mask}))"
        valid = self.layout.static_valid(key.header)
        return f"(uint64_t){text}" if valid == "1" else f"({valid} ? (uint64_t){text} : 0)"

    def _key_words(self, table: Table) -> list[str]:
        layout = self.keys[table.name]
        words: list[list[str]] = [[] for _ in range(layout.words)]
        for piece in layout.pieces:
            key = table.keys[piece.field]
            text = self._value(key, piece.low, piece.width)
            words[piece.word].append(f"({text} << {piece.shift})" if piece.shift else text)
        return [" | ".join(terms) for terms in words]

    def _lpm_words(self, key: KeyField) -> list[str]:
        """Return the left-aligned words of the lpm field."""
        words = []
        for high in range(key.width, 0, -64):
            width = min(64, high)
            text = self._value(key, high - width, width)
            words.append(f"({text} << {64 - width})" if width < 64 else text)
        return words

    def _lookup(self, table: Table) -> Iterator[str]:
        n, layout = table.index, self.keys[table.name]
        entry = f"const struct ss_entry{n}"
        piece = _local_piece(self.layout, table)
        local = f", const struct ss_local_{piece} *l" if piece else ""
        inline = "inline __attribute__((always_inline))" if piece else "inline"
        yield (
            f"static {inline} {entry} *ss_lookup{n}"
            f"(const struct ss_ctx *c, const struct ss_phv *p{local})"
        )
        yield "{"
        yield f"    const struct ss_table *t = &c->tables[{n}];"
        yield f"    {entry} *entries = ({entry} *)t->entries;"
        words = self._key_words(table)
        if layout.kind == "SS_DIRECT":
            members = self.layout.plan.tables.beside(table.name)[1]
            index = f"({words[0]}) * {members}" if members > 1 else f"({words[0]})"
            yield f"    {entry} *e = entries + {index};"
            yield "    return e->action ? e : NULL;"
            yield "}"
            return
        yield f"    const uint64_t k[] = {{{', '.join(words) or '0'}}};"
        if layout.lpm_index >= 0:
            key = table.keys[layout.lpm_index]
            yield f"    const uint64_t f[] = {{{', '.join(self._lpm_words(key))}}};"
            yield f"    uint32_t root = ss_map_get(&t->map, k, {layout.words});"
            yield "    if (root == SS_NONE) return NULL;"
            yield f"    uint32_t h = ss_lpm_get(&t->lpm, root, f, {(key.width + 7) // 8});"
        elif layout.kind == "SS_EXACT":
            yield f"    uint32_t h = ss_map_get(&t->map, k, {layout.words});"
        else:
            yield f"    uint32_t h = ss_tuples_get(&t->tuples, k, {layout.words});"
        yield "    return h == SS_NONE ? NULL : entries + h;"
        yield "}"
