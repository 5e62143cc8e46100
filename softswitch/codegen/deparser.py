"""The deparser, and what keeps headers that are views alive while packets are copied."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.bitpack import emit
from softswitch.codegen.layout import Layout


def _size(layout: Layout, header: int) -> str:
    return layout.size_bytes(layout.program.headers[header].type, layout.header(header))


def deparser(layout: Layout) -> Iterator[str]:
    """Yield ss_emit_size and ss_emit, which writes the valid headers, of so many bytes, at d.

    The bytes of a view may lie where another header is to be written: those that are not in their
    place already are set aside first.
    """
    order = layout.program.deparser
    views = [h for h in order if h in layout.views]
    yield "static inline uint32_t ss_emit_size(const struct ss_phv *p)"
    yield "{"
    yield "    uint32_t size = 0; (void)p;"
    for run in _runs(layout):
        terms = " + ".join(f"{layout.static_valid(h)} * {_size(layout, h)}" for h in run)
        yield f"    {_if_any(layout, run)}size += (uint32_t)({terms});"
    yield "    return size;"
    yield "}"
    yield "static void ss_emit(const struct ss_phv *p, uint8_t *d, uint32_t size)"
    yield "{"
    yield "    const uint8_t *const end = d + size;"
    yield "    (void)p; (void)end;"
    if views:
        yield "    struct ss_kept kept;"
        yield "    const uint8_t *at = d;"
        for h in order:
            if h in layout.views:
                size = _size(layout, h)
                yield f"    const uint8_t *v{h} = {layout.view(h)};"
                yield f"    if ({layout.static_valid(h)} && v{h} != at)"
                yield f"        v{h} = memcpy(kept.v{h}, v{h}, {size});"
            yield f"    at += {layout.static_valid(h)} * {_size(layout, h)};"
    for run in _runs(layout):
        if len(run) > 1:
            yield "    if (d == end) return;"
        yield f"    {_if_any(layout, run)}{{"
        for h in run:
            yield from (f"        {line}" for line in _emit_header(layout, h))
        yield "    }"
    yield "}"


def _emit_header(layout: Layout, header: int) -> Iterator[str]:
    size = _size(layout, header)
    yield f"if ({layout.static_valid(header)}) {{"
    if header in layout.views:
        yield f"    if (v{header} != d) memcpy(d, v{header}, {size});"
    else:
        yield from (f"    {line}" for line in emit(layout, header, "d"))
    yield f"    d += {size};"
    yield "}"


def _runs(layout: Layout) -> list[list[int]]:
    """Return the headers in order; those of a stack that follow one another together."""
    headers = layout.program.headers

    def same_stack(a: int, b: int) -> bool:
        return headers[a].stack is not None and headers[a].stack == headers[b].stack

    runs: list[list[int]] = []
    for h in layout.program.deparser:
        if runs and same_stack(runs[-1][-1], h) and _slot(layout, h) > _slot(layout, runs[-1][-1]):
            runs[-1].append(h)
        else:
            runs.append([h])
    return runs


def _slot(layout: Layout, header: int) -> int:
    return layout.valid_slots[header]


def _if_any(layout: Layout, run: list[int]) -> str:
    """Return a test that skips headers of which none is valid: most stacks are empty."""
    if len(run) == 1:
        return ""
    first, last = _slot(layout, run[0]), _slot(layout, run[-1])
    return f"if (ss_any(p->valid + {first}, {last - first + 1})) "


def kept_struct(layout: Layout) -> Iterator[str]:
    """Yield struct ss_kept: room for the bytes of all views."""
    yield "struct ss_kept {"
    for h in sorted(layout.views):
        yield f"    uint8_t v{h}[{layout.program.headers[h].type.width // 8}];"
    yield "    uint8_t slack[SS_SLACK];"
    yield "};"


def keep_views(layout: Layout) -> Iterator[str]:
    """Yield ss_keep_views, which makes a packet's views outlive its buffer."""
    yield "static void ss_keep_views(struct ss_phv *p, struct ss_kept *k)"
    yield "{"
    yield "    (void)p; (void)k;"
    for h in sorted(layout.views):
        yield f"    {layout.view(h)} = memcpy(k->v{h}, {layout.view(h)}, sizeof k->v{h});"
    yield "}"
