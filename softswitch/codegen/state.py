"""Registers, counters and preserved fields: the structs that core.h builds on."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.layout import Layout, c_type, declare, is_wide
from softswitch.program import MeterArray, RegisterArray


def state_struct(layout: Layout) -> Iterator[str]:
    """Yield struct ss_state: a pointer per register and counter array, and where they lie."""
    program = layout.program
    yield "struct ss_counter;"
    yield "struct ss_meter;"
    yield "struct ss_state {"
    yield "    struct ss_arena arena;"
    for register in program.register_arrays.values():
        if is_wide(register.width):
            yield f"    uint64_t (*r{register.index})[{(register.width + 63) // 64}];"
        else:
            yield f"    {c_type(register.width)} *r{register.index};"
    for counter in program.counter_arrays.values():
        if not counter.is_direct:
            yield f"    struct ss_counter *c{counter.index};"
    for meter in program.meter_arrays.values():
        if meter.table is None:
            yield f"    struct ss_meter *m{meter.index};"
    yield "};"


def meter_run(meter: MeterArray, pointer: str) -> str:
    """Return the call that gives the color of a packet."""
    length = "p->x.ingress_length"
    amount = length if meter.counts_bytes else "1"
    return f"ss_meter_run({pointer}, c->now_us, {amount}, {length})"


def state_functions(layout: Layout) -> Iterator[str]:
    """Yield the functions that allocate, free and find arrays."""
    program = layout.program
    registers = list(program.register_arrays.values())
    members = {r.index: layout.plan.registers.beside(r.name) for r in registers}
    counters = [c for c in program.counter_arrays.values() if not c.is_direct]
    arrays = [(f"r{r.index}", r.size * members[r.index][1]) for r in _firsts(layout)]
    arrays += [(f"c{c.index}", c.size) for c in counters]
    meters = [m for m in program.meter_arrays.values() if m.table is None]
    arrays += [(f"m{m.index}", m.size) for m in meters]
    yield "static bool ss_state_open(struct ss_state *s)"
    yield "{"
    yield "    uint64_t room = 0;"
    for name, size in arrays:
        yield f"    room += SS_ARENA_ROOM(UINT64_C({size}) * sizeof *s->{name});"
    yield "    if (!ss_arena_open(&s->arena, room)) return false;"
    for name, size in arrays:
        yield (f"    s->{name} = ss_arena_take(&s->arena, UINT64_C({size}) * sizeof *s->{name});")
    for names in layout.plan.registers.all:
        first, *others = (program.register_arrays[str(name)].index for name in names)
        yield from (f"    s->r{n} = s->r{first} + {i};" for i, n in enumerate(others, 1))
    yield "    return true;"
    yield "}"
    yield "static void ss_state_close(struct ss_state *s) { ss_arena_close(&s->arena); }"
    yield "static uint8_t *ss_register_array(struct ss_state *s, uint32_t which, uint64_t *size,"
    yield "                                  uint64_t *step)"
    yield "{"
    yield "    (void)s;"
    yield "    switch (which) {"
    for register in registers:
        name = f"r{register.index}"
        yield f"    case {register.index}: *size = sizeof *s->{name};"
        yield f"        *step = {members[register.index][1]} * *size; return (uint8_t *)s->{name};"
    yield "    default: *size = *step = 0; return NULL;"
    yield "    }"
    yield "}"
    yield from _finder("counter", "c", [c.index for c in counters])
    yield from _finder("meter", "m", [m.index for m in meters])


def _firsts(layout: Layout) -> list[RegisterArray]:
    """Return the registers that have memory of their own: others lie beside the first of a list."""
    registers = layout.program.register_arrays.values()
    return [r for r in registers if layout.plan.registers.beside(r.name)[0] == 0]


def _finder(kind: str, prefix: str, numbers: list[int]) -> Iterator[str]:
    """Yield the function that finds a counter or meter array by its number."""
    yield f"static struct ss_{kind} *ss_{kind}_array(struct ss_state *s, uint32_t which)"
    yield "{"
    yield "    (void)s;"
    yield "    switch (which) {"
    yield from (f"    case {number}: return s->{prefix}{number};" for number in numbers)
    yield "    default: return NULL;"
    yield "    }"
    yield "}"


def saved_struct(layout: Layout) -> Iterator[str]:
    """Yield struct ss_saved: the fields of one field list at a time."""
    yield "struct ss_saved {"
    yield "    union {"
    for fields in layout.program.field_lists.values():
        kinds = [layout.program.field(*ref) for ref in fields.fields]
        members = " ".join(declare(f"f{i}", k.width, varbit=k.varbit) for i, k in enumerate(kinds))
        if members:
            yield f"        struct {{ {members} }} l{fields.id};"
    yield "        uint8_t none;"
    yield "    };"
    yield "};"


def saved_functions(layout: Layout) -> Iterator[str]:
    """Yield ss_save_list and ss_load_list."""
    yield ("static void ss_save_list(struct ss_saved *s, const struct ss_phv *p, uint32_t list)")
    yield from _copies(layout, save=True)
    yield ("static void ss_load_list(struct ss_phv *p, const struct ss_saved *s, uint32_t list)")
    yield from _copies(layout, save=False)


def _copies(layout: Layout, *, save: bool) -> Iterator[str]:
    yield "{"
    yield "    (void)s; (void)p;"
    yield "    switch (list) {"
    for fields in layout.program.field_lists.values():
        yield f"    case {fields.id}:"
        for i, (header, field) in enumerate(fields.fields):
            saved = f"s->l{fields.id}.f{i}"
            live = layout.static_field(header, field)
            to, source = (saved, live) if save else (live, saved)
            info = layout.program.field(header, field)
            if info.varbit:
                yield f"        {to}_len = {source}_len;"
            if info.varbit or is_wide(info.width):
                yield f"        memcpy({to}, {source}, sizeof {to});"
            else:
                yield f"        {to} = {source};"
        yield "        break;"
    yield "    default: break;"
    yield "    }"
    yield "}"
