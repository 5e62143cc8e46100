"""The parser: states become labels of one function."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.actions import Actions
from softswitch.codegen.bitpack import extract
from softswitch.codegen.expressions import Expressions
from softswitch.codegen.layout import is_wide
from softswitch.codegen.loads import read_bits
from softswitch.codegen.value_sets import value_set_test
from softswitch.codegen.wide import literal
from softswitch.ir import (
    AdvanceOp,
    Const,
    Expr,
    ExtractOp,
    KeyPart,
    LookAhead,
    Op,
    ParserOp,
    ParseState,
    PrimitiveOp,
    SetOp,
    Transition,
    VerifyOp,
)
from softswitch.program import HeaderType

# Values for core errors that the program does not declare.
_UNDECLARED = {
    "NoError": 0x7FFFFFF0,
    "PacketTooShort": 0x7FFFFFF1,
    "StackOutOfBounds": 0x7FFFFFF2,
    "HeaderTooShort": 0x7FFFFFF5,
    "ParserInvalidArgument": 0x7FFFFFF3,
    "ParserTimeout": 0x7FFFFFF4,
}
MAX_STEPS = 4096
"""States that a packet may enter by going backwards; then the error is ParserTimeout."""


class Parser:
    """Translates the parser of one program."""

    def __init__(self, expressions: Expressions, actions: Actions) -> None:
        self.e = expressions
        self.layout = expressions.layout
        self.program = expressions.layout.program
        self.actions = actions
        self.order = self._reachable()

    def error(self, name: str) -> int:
        """Return the number of a core error."""
        return self.program.errors.get(name, _UNDECLARED[name])

    def _reachable(self) -> list[int]:
        order: list[int] = []
        todo = [] if self.program.init_state is None else [self.program.init_state]
        while todo:
            index = todo.pop()
            if index in order:
                continue
            order.append(index)
            state = self.program.parse_states[index]
            targets = [state.default, *(t.next_state for t in state.transitions)]
            todo += [t for t in targets if t is not None]
        return order

    def function(self) -> Iterator[str]:
        """Yield the definition of ss_parse."""
        yield "static void ss_parse(struct ss_ctx *c, struct ss_phv *p)"
        yield "{"
        yield "    const uint8_t *d = p->x.data, *end = d + p->x.len;"
        yield "    unsigned steps = 0;"
        yield "    (void)c; (void)end; (void)steps;"
        yield f"    p->x.error = {self.error('NoError')};"
        yield from (f"    {self.layout.view(h)} = ss_no_header;" for h in sorted(self.layout.views))
        for index in self.order:
            yield f"S{index}: __attribute__((unused));"
            yield from self._state(index, self.program.parse_states[index])
        yield "done: __attribute__((unused));"
        yield "    p->x.parsed = (uint32_t)(d - p->x.data);"
        yield "    p->x.payload = d;"
        yield "    p->x.payload_len = p->x.len - p->x.parsed;"
        yield "    ss_verify_checksums(p);"
        yield "}"

    def _fail(self, name: str) -> str:
        return f"{{ p->x.error = {self.error(name)}; goto done; }}"

    def _need(self, count: str) -> str:
        return (
            f"    if (__builtin_expect((uint64_t)(end - d) < {count}, 0)) "
            f"{self._fail('PacketTooShort')}"
        )

    def _state(self, index: int, state: ParseState) -> Iterator[str]:
        self.e.where = f"parser state {state.name!r}"
        for number, op in enumerate(state.ops):
            yield from self._op(op, number)
        position = self.order.index(index)
        if not state.key or not state.transitions:
            yield f"    {self._go(state.default, position)}"
            return
        yield "    {"
        yield from self._key(state.key)
        for transition in state.transitions:
            condition = self._condition(state.key, transition)
            yield f"    if ({condition}) {self._go(transition.next_state, position)}"
        yield "    }"
        yield f"    {self._go(state.default, position)}"

    def _go(self, target: int | None, position: int) -> str:
        if target is None:
            return "goto done;"
        if self.order.index(target) > position:
            return f"goto S{target};"
        fail = self._fail("ParserTimeout")
        return f"{{ if (++steps > {MAX_STEPS}) {fail} goto S{target}; }}"

    def _key(self, key: tuple[KeyPart, ...]) -> Iterator[str]:
        for i, part in enumerate(key):
            if is_wide(part.width):
                if isinstance(part.expr, LookAhead):
                    yield from self._check_ahead(part.expr)
                limbs = self.e.wide.number(part.expr, (part.width + 63) // 64)
                yield f"    const uint64_t *k{i} = {limbs};"
                continue
            kind = "uint64_t" if part.width <= 64 else "u128"
            if isinstance(part.expr, LookAhead):
                yield from self._check_ahead(part.expr)
                text = read_bits("d", part.expr.offset, part.expr.width)
            else:
                # A key is the bits of the field, whatever its sign.
                mask = literal((1 << part.width) - 1)
                text = f"{self.e.modular(part.expr, part.width)} & {mask}"
            yield f"    {kind} k{i} = {text};"

    def _condition(self, key: tuple[KeyPart, ...], transition: Transition) -> str:
        if transition.value_set is not None:
            return value_set_test(self.program.value_sets[transition.value_set])
        terms: list[str] = []
        for i, part in enumerate(key):
            value, mask = transition.values[i], transition.masks[i]
            full = (1 << part.width) - 1
            if value & mask & ~full:
                return "0"
            if is_wide(part.width):
                terms += _limb_terms(f"k{i}", value & full, mask & full, full)
                continue
            if mask & full == full:
                terms.append(f"k{i} == {literal(value & full)}")
            elif mask & full:
                terms.append(f"(k{i} & {literal(mask & full)}) == {literal(value & mask & full)}")
        return " && ".join(terms) or "1"

    def _check_ahead(self, ahead: LookAhead) -> Iterator[str]:
        yield self._need(str((ahead.offset + ahead.width + 7) // 8))

    def _op(self, op: ParserOp, number: int) -> Iterator[str]:
        match op:
            case ExtractOp(header=int(header)):
                yield from self._extract(header, op.varbit_bits)
            case ExtractOp(stack=int(stack)) if stack >= len(self.program.stacks):
                yield from self._extract_union(stack, op.member, op.varbit_bits)
            case ExtractOp(stack=int(stack)):
                yield from self._extract_next(stack, op.varbit_bits)
            case SetOp(target=target, value=value):
                yield from self._check_all_ahead(value)
                yield f"    {self.actions.assign(target, value)}"
            case VerifyOp(condition=condition, error=error):
                yield f"    if (!({self.e.boolean(condition)}))"
                code = self.e.modular(error, 32)
                yield f"        {{ p->x.error = (uint32_t){code}; goto done; }}"
            case AdvanceOp(bits=bits):
                yield from self._advance(bits)
            case PrimitiveOp(primitive=primitive):
                lines = self.actions.primitive(primitive, number, "goto done;")
                yield from (f"    {line}" for line in lines)

    def _check_all_ahead(self, expr: Expr) -> Iterator[str]:
        if isinstance(expr, LookAhead):
            yield from self._check_ahead(expr)
        elif isinstance(expr, Op):
            for arg in expr.args:
                yield from self._check_all_ahead(arg)

    def _measure(self, header_type: HeaderType, bits: Expr | None) -> Iterator[str]:
        """Yield the opening of a block, in which n is the length of the varbit field in bytes."""
        yield "    {"
        size = header_type.width // 8
        if bits is None:
            if size:
                yield self._need(str(size))
            return
        yield from self._check_all_ahead(bits)
        yield f"    uint64_t n = {self.e.length(bits)};"
        yield f"    if (n % 8) {self._fail('ParserInvalidArgument')}"
        yield "    n /= 8;"
        yield self._need(f"{size} + n")
        yield f"    if (n > {(header_type.max_width // 8) - size}) {self._fail('HeaderTooShort')}"

    def _fill(self, header_type: HeaderType, target: str) -> Iterator[str]:
        """Yield the statements that fill a header and move on."""
        yield from (f"    {s}" for s in extract(header_type, target, "d"))
        varbit = " + n" if header_type.varbit is not None else ""
        yield f"    d += {header_type.width // 8}{varbit};"

    def _extract(self, header: int, bits: Expr | None) -> Iterator[str]:
        header_type = self.program.headers[header].type
        yield from self._measure(header_type, bits)
        if header in self.layout.views:
            yield f"    {self.layout.view(header)} = d;"
            yield f"    d += {header_type.width // 8};"
        else:
            yield from self._fill(header_type, self.layout.header(header))
        yield f"    {self.layout.make_valid(header)}"
        yield "    }"

    def _check_stack(self, stack: int) -> str:
        depth = self.layout.depth(stack)
        return f"    if (p->next[{stack}] >= {depth}) {self._fail('StackOutOfBounds')}"

    def _extract_next(self, stack: int, bits: Expr | None) -> Iterator[str]:
        header_type = self.program.stacks[stack].type
        yield self._check_stack(stack)
        yield from self._measure(header_type, bits)
        yield f"    {self.layout.struct_name(header_type)} *h = &p->h.s{stack}[p->next[{stack}]];"
        yield "    (void)h;"
        yield from self._fill(header_type, "(*h)")
        yield f"    p->valid[{self.layout.first_valid(stack)} + p->next[{stack}]++] = 1;"
        yield "    }"

    def _extract_union(self, stack: int, member: int, bits: Expr | None) -> Iterator[str]:
        unions = self.program.union_stacks[stack - len(self.program.stacks)].unions
        yield self._check_stack(stack)
        yield f"    switch (p->next[{stack}]) {{"
        for slot, union in enumerate(unions):
            yield f"    case {slot}:"
            yield from self._extract(union[member], bits)
            yield "    break;"
        yield "    }"
        yield f"    p->next[{stack}]++;"

    def _advance(self, bits: Expr) -> Iterator[str]:
        if isinstance(bits, Const):
            if bits.value < 0 or bits.value % 8:
                yield f"    {self._fail('ParserInvalidArgument')}"
            elif bits.value:
                yield self._need(str(bits.value // 8))
                yield f"    d += {bits.value // 8};"
            return
        yield f"    {{ uint64_t n = {self.e.length(bits)};"
        yield f"    if (n % 8) {self._fail('ParserInvalidArgument')}"
        yield self._need("n / 8")
        yield "    d += n / 8; }"


def _limb_terms(key: str, value: int, mask: int, full: int) -> Iterator[str]:
    """Yield the comparisons of a key of more than 128 bits, limb by limb."""
    for i in range((full.bit_length() + 63) // 64):
        part, wanted, all_bits = (n >> 64 * i & (1 << 64) - 1 for n in (mask, value & mask, full))
        if part:
            # Above the width a field has no bits, but a limb of an expression may.
            kept = f"{key}[{i}]" if part == (1 << 64) - 1 else f"({key}[{i}] & {literal(part)})"
            yield f"{kept} == {literal(wanted & all_bits)}"
