"""Actions to C functions: one statement per primitive, parameters as native arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from softswitch.codegen.calculations import Calculations
from softswitch.codegen.digests import send_digest
from softswitch.codegen.expressions import Expressions
from softswitch.codegen.layout import Layout, c_type, is_wide
from softswitch.codegen.locality import fields_of
from softswitch.codegen.state import meter_run
from softswitch.errors import BadProgram
from softswitch.ir import (
    Arg,
    ArrayRef,
    Const,
    DigestRef,
    Expr,
    Field,
    HeaderAt,
    HeaderExpr,
    HeaderRef,
    LastHeader,
    Op,
    Primitive,
    StackRef,
    Text,
    UnionRef,
    Vector,
    is_bool,
)
from softswitch.program import Action, RegisterArray

_STOPPING = frozenset(["exit", "assert", "assume"])


MAX_LOOP_STEPS = 1 << 16
"""Jumps backwards that an action may take for one packet."""


def may_stop(action: Action) -> bool:
    """Return True when the pipeline can end after this action."""
    loops = any(target <= source for source, target in _jumps(action))
    return loops or any(p.op in _STOPPING for p in action.primitives)


def _jumps(action: Action) -> list[tuple[int, int]]:
    """Return the (position, target) of every jump of an action."""
    return [
        (i, primitive.args[-1].value)
        for i, primitive in enumerate(action.primitives)
        if primitive.op in ("_jump", "_jump_if_zero") and isinstance(primitive.args[-1], Const)
    ]


def takes_locals(layout: Layout, action: Action) -> str | None:
    """Return the piece of a pipeline whose local variables the action uses."""
    return layout.local_piece(fields_of(action.primitives))


def c_string(text: str) -> str:
    """Return a C string constant; everything unusual becomes an octal escape."""
    plain = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 {}.,:;=_-+()")
    out = (chr(b) if chr(b) in plain else f"\\{b:03o}" for b in text.encode()[:256])
    return '"' + "".join(out) + '"'


class Actions:
    """Translates the actions and primitives of one program."""

    def __init__(self, expressions: Expressions, calculations: Calculations) -> None:
        self.e = expressions
        self.layout = expressions.layout
        self.program = expressions.layout.program
        self.calculations = calculations

    def function(self, action: Action) -> Iterator[str]:
        """Yield the definition of an action's function."""
        params = ""
        for i, param in enumerate(action.params):
            kind = "const uint64_t *" if is_wide(param.width) else f"{c_type(param.width)} "
            params += f", {kind}a{i}"
        piece = takes_locals(self.layout, action)
        # Inlining is what turns the local variables of a piece into registers.
        inline = "inline" if piece is None else "inline __attribute__((always_inline))"
        local = "" if piece is None else f", struct ss_local_{piece} *l"
        yield (
            f"static {inline} void ss_action{action.index}"
            f"(struct ss_ctx *c, struct ss_phv *p{local}{params})"
        )
        yield "{"
        targets = {target for _, target in _jumps(action)}
        if any(target <= source for source, target in _jumps(action)):
            yield "    unsigned steps = 0;"
        yield "    (void)c; (void)p;" + "".join(f" (void)a{i};" for i in range(len(action.params)))
        for i, primitive in enumerate(action.primitives):
            if i in targets:
                yield f"L{i}:;"
            yield from (f"    {line}" for line in self.primitive(primitive, i, "return;"))
        if len(action.primitives) in targets:
            yield f"L{len(action.primitives)}:;"
        yield "}"

    @staticmethod
    def _jump(source: int, target: int) -> str:
        if target > source:
            return f"goto L{target};"
        # A loop that does not end would stop the switch: the packet fails instead.
        fail = "p->x.failed = p->x.exit = true; return;"
        return f"{{ if (++steps > {MAX_LOOP_STEPS}) {{ {fail} }} goto L{target}; }}"

    def primitive(  # noqa: PLR0912 - one case per primitive
        self, primitive: Primitive, index: int, stop: str
    ) -> Iterator[str]:
        """Yield the statements of a primitive; `stop` leaves after a failed assertion."""
        self.e.where = primitive.where
        match primitive.op, primitive.args:
            case "assign", (Field() as target, value):
                yield self.assign(target, _expr(value))
            case "assign_VL", (Field() as target, Field() as source):
                yield self._assign_varbit(target, source)
            case "assign_union", (UnionRef(headers=to), UnionRef(headers=source)):
                yield from self._assign_headers(to, source)
            case "assign_header" | "copy_header", (target, value):
                yield from self._assign_header(_header(target), _header(value))
            case "assign_header_stack" | "assign_union_stack", (
                StackRef(stack=to),
                StackRef(stack=source),
            ):
                yield from self._assign_stack(to, source)
            case "add_header", (target,):
                yield from self._add_header(_header(target))
            case "add_header_fast", (target,):
                yield self._make_valid(_header(target))
            case "remove_header", (target,):
                yield from self._remove_header(_header(target))
            case "push" | "pop", (StackRef(stack=stack), count):
                yield from self._shift_stack(primitive.op, stack, _expr(count))
            case "_jump", (Const(value=target),):
                yield self._jump(index, target)
            case "_jump_if_zero", (condition, Const(value=target)):
                yield f"if (!({self._truth(_expr(condition))})) {self._jump(index, target)}"
            case "exit", ():
                yield "p->x.exit = true;"
            case "assert" | "assume", (condition,):
                truth = self._truth(_expr(condition))
                yield f"if (!({truth})) {{ p->x.failed = p->x.exit = true; {stop} }}"
            case "log_msg", (Text(text=text), Vector(items=items)):
                yield self._log(text, items)
            case "no_op", ():
                return
            case _:
                yield from self._switch_primitive(primitive)

    def _switch_primitive(self, primitive: Primitive) -> Iterator[str]:
        """Yield the statements of primitives that act on the switch's state or decisions."""
        e = self.e
        match primitive.op, primitive.args:
            case "mark_to_drop" | "drop", _:
                yield "ss_set_egress_spec(p, SS_DROP_PORT); ss_set_mcast_grp(p, 0);"
            case "count", (ArrayRef(name=name), index):
                counter = self.program.counter_arrays[name]
                yield f"{{ uint64_t i = {e.modular(_expr(index), 64)};"
                yield f"  if (i < {counter.size}) ss_count(&c->state.c{counter.index}[i], p); }}"
            case "register_read", (Field() as target, ArrayRef(name=name), index):
                register = self.program.register_arrays[name]
                yield f"{{ uint64_t i = {e.modular(_expr(index), 64)};"
                yield f"  if (i < {register.size}) {self._load_cell(register, target)} }}"
            case "register_write", (ArrayRef(name=name), index, value):
                register = self.program.register_arrays[name]
                yield f"{{ uint64_t i = {e.modular(_expr(index), 64)};"
                yield f"  if (i < {register.size}) {self._store_cell(register, _expr(value))} }}"
            case "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress", (session, fields):
                number = e.modular(_expr(session), 16)
                yield f"p->x.clone = ((uint32_t){number} & 0x7fff) | SS_CLONE_REQUESTED;"
                yield f"p->x.clone_list = (uint16_t){e.modular(_expr(fields), 16)};"
            case "resubmit" | "recirculate", (fields,):
                yield f"p->x.{primitive.op} = (uint16_t){e.modular(_expr(fields), 16)};"
            case "truncate", (length,):
                yield f"{{ uint32_t n = (uint32_t){e.modular(_expr(length), 32)} + 1;"
                yield "  if (!p->x.truncate || n < p->x.truncate) p->x.truncate = n; }"
            case "modify_field_with_hash_based_offset", (
                Field() as target,
                base,
                ArrayRef(name=calculation),
                size,
            ):
                yield f"{{ uint64_t n = {e.modular(_expr(size), 64)};"
                yield f"  uint64_t v = {self.calculations.call(calculation)} % (n ? n : 1)"
                yield f"    + {e.modular(_expr(base), 64)};"
                yield f"  {self.e.put(target, 'v', 64)} }}"
            case "modify_field_rng_uniform", (Field() as target, low, high):
                yield f"{{ uint64_t low = {e.modular(_expr(low), 64)};"
                yield f"  uint64_t high = {e.modular(_expr(high), 64)};"
                store = self.e.put(target, "ss_random_in(c, low, high)", 64)
                yield f"  if (low <= high) {store} }}"
            case "execute_meter", (ArrayRef(name=name), index, Field() as target):
                meter = self.program.meter_arrays[name]
                yield f"{{ uint64_t i = {e.modular(_expr(index), 64)};"
                run = meter_run(meter, f"&c->state.m{meter.index}[i]")
                yield f"  if (i < {meter.size}) {self.e.put(target, run, 2)} }}"
            case "generate_digest", (_, DigestRef() as call):
                yield from send_digest(e, self.program.digests[call.name], call)
            case _:
                raise BadProgram(f"{primitive.where}: arguments of {primitive.op} are wrong")

    def _cell(self, register: RegisterArray) -> str:
        """Return cell i of a register."""
        members = self.layout.plan.registers.beside(register.name)[1]
        return f"c->state.r{register.index}[i{f' * {members}' if members > 1 else ''}]"

    def _load_cell(self, register: RegisterArray, target: Field) -> str:
        """Return the statement that copies cell i of a register to a field."""
        cell, width = self._cell(register), register.width
        if not is_wide(width):
            return self.e.put(target, cell, width)
        n = (width + 63) // 64
        if self.e.is_wide_number(target):
            return self.e.wide.store(target, cell, n)
        return self.e.put(target, f"ss_w_low({cell}, {n})", 128)

    def _store_cell(self, register: RegisterArray, value: Expr) -> str:
        """Return the statement that truncates a value into cell i of a register."""
        cell, width = self._cell(register), register.width
        if not is_wide(width):
            return f"{cell} = {self.e.store(value, width)};"
        n = (width + 63) // 64
        return f"ss_w_cut({cell}, {self.e.wide.number(value, n)}, {n}, {width});"

    def _truth(self, expr: Expr) -> str:
        return self.e.boolean(expr)

    def assign(self, target: Field, value: Expr) -> str:
        """Return the statement that truncates a value into a field."""
        width = self.layout.field_type(target).width
        if self.e.is_wide_number(target):
            return self._assign_wide(target, value, width)
        return f"{self.e.field(target)} = {self.e.store(value, width)};"

    def _assign_wide(self, target: Field, value: Expr, width: int) -> str:
        count, words = (width + 7) // 8, (width + 63) // 64
        field = self.e.field(target)
        varbit = self.layout.field_type(target).varbit
        match value:
            case Field() if not varbit and self._same_bytes(target, value):
                return f"memmove({field}, {self.e.field(value)}, {count});"
            case Const(value=number) if not varbit:
                data = (number & (1 << width) - 1).to_bytes(count, "big")
                octets = ", ".join(str(b) for b in data)
                return f"memcpy({field}, (const uint8_t[]){{{octets}}}, {count});"
            case Op(op="&", args=(Field() as source, Const(value=mask))) if (
                mask == (1 << width) - 1 and not varbit and self._same_bytes(target, source)
            ):
                return f"memmove({field}, {self.e.field(source)}, {count});"
        return self.e.wide.store(target, self.e.wide.number(value, words), words)

    def _same_bytes(self, a: Field, b: Field) -> bool:
        x, y = self.layout.field_type(a), self.layout.field_type(b)
        return x.width == y.width and x.varbit == y.varbit

    def _assign_header(self, to: HeaderExpr, source: HeaderExpr) -> Iterator[str]:
        if self.layout.header_type(to).name != self.layout.header_type(source).name:
            raise BadProgram(f"{self.e.where}: headers of different types are assigned")
        if self.layout.is_metadata(to) or self.layout.is_metadata(source):
            for i, kind in enumerate(self.layout.header_type(to).fields):
                a, b = Field(to, i), Field(source, i)
                yield self._assign_varbit(a, b) if kind.varbit else self.assign(a, b)
            return
        yield f"if (({self.e.valid(to)} = {self.e.valid(source)}))"
        yield f"    {{ {self.e.header(to)} = {self.e.header(source)}; {self._make_valid(to)} }}"

    def _assign_headers(
        self, to: Sequence[HeaderExpr], source: Sequence[HeaderExpr]
    ) -> Iterator[str]:
        if len(to) != len(source):
            raise BadProgram(f"{self.e.where}: stacks of different sizes are assigned")
        for a, b in zip(to, source, strict=True):
            yield from self._assign_header(a, b)

    def _assign_stack(self, to: int, source: int) -> Iterator[str]:
        yield f"p->next[{to}] = p->next[{source}];"
        yield from self._assign_headers(self._members(to), self._members(source))

    def _members(self, stack: int) -> Sequence[HeaderExpr]:
        """Return the headers of a stack; those of a stack of unions, union by union."""
        stacks = self.program.stacks
        if stack < len(stacks):
            return [HeaderRef(header) for header in stacks[stack].members]
        unions = self.program.union_stacks[stack - len(stacks)].unions
        return [HeaderRef(header) for union in unions for header in union]

    def _assign_varbit(self, to: Field, source: Field) -> str:
        a, b = self.layout.field_type(to), self.layout.field_type(source)
        if not a.varbit or not b.varbit or a.width < b.width:
            raise BadProgram(f"{self.e.where}: assign_VL needs varbit fields of the same size")
        x, y = self.e.field(to), self.e.field(source)
        return f"{x}_len = {y}_len; memmove({x}, {y}, {y}_len);"

    def _make_valid(self, header: HeaderExpr) -> str:
        if isinstance(header, HeaderRef):
            return self.layout.make_valid(header.header)
        others = self.layout.siblings(header.stack)
        lines = [f"{self.e.valid(replace(header, stack=other))} = 0;" for other in others]
        return " ".join([f"{self.e.valid(header)} = 1;", *lines])

    def _size_bytes(self, header: HeaderExpr) -> str:
        return self.layout.size_bytes(self.layout.header_type(header), self.e.header(header))

    def _add_header(self, header: HeaderExpr) -> Iterator[str]:
        if self.layout.is_metadata(header):
            return
        lvalue = self.e.header(header)
        yield f"if (!{self.e.valid(header)}) {{"
        yield f"    memset(&{lvalue}, 0, sizeof {lvalue});"
        yield f"    {self._make_valid(header)}"
        yield f"    p->x.packet_length += {self._size_bytes(header)};"
        yield "}"

    def _remove_header(self, header: HeaderExpr) -> Iterator[str]:
        if self.layout.is_metadata(header):
            return
        yield f"if ({self.e.valid(header)}) {{"
        yield f"    {self.e.valid(header)} = 0;"
        yield f"    p->x.packet_length -= {self._size_bytes(header)};"
        yield "}"

    def _shift_stack(self, op: str, stack: int, count: Expr) -> Iterator[str]:
        """Yield a loop for a header stack, or for each column of a stack of unions."""
        depth, following = self.layout.depth(stack), f"p->next[{stack}]"
        yield f"{{ uint64_t n = SS_SLOT({self.e.modular(count, 64)}, {depth});"
        if op == "push":
            yield f"  {following} = (uint32_t)SS_SLOT({following} + n, {depth});"
        else:
            yield f"  {following} -= (uint32_t)({following} < n ? {following} : n);"
        for column in self.layout.columns(stack):
            s, v = f"p->h.s{column}", f"p->valid[{self.layout.first_valid(column)} + "
            if op == "push":
                yield f"  for (uint64_t i = {depth}; i-- > n;)"
                yield f"    {{ {s}[i] = {s}[i - n]; {v}i] = {v}i - n]; }}"
                yield f"  for (uint64_t i = 0; i < n; i++) {v}i] = 0;"
            else:
                yield f"  for (uint64_t i = 0; i + n < {depth}; i++)"
                yield f"    {{ {s}[i] = {s}[i + n]; {v}i] = {v}i + n]; }}"
                yield f"  for (uint64_t i = {depth} - n; i < {depth}; i++) {v}i] = 0;"
        yield "}"

    def _log(self, text: str, items: tuple[Expr, ...]) -> str:
        values = []
        for item in items:
            limbs, count = self.e.wide.exact(Op("b2d", (item,)) if is_bool(item) else item)
            values.append(f"{{{limbs}, {count}}}")
        array = f"(const struct ss_number[]){{{', '.join(values)}}}" if items else "NULL"
        return f"ss_log_message(c, {c_string(text)}, {array}, {len(items)});"


def _expr(arg: Arg) -> Expr:
    if isinstance(arg, ArrayRef | DigestRef | Text | Vector):
        raise BadProgram(f"a value is needed, not a {type(arg).__name__}")
    return arg


def _header(arg: Arg) -> HeaderExpr:
    if not isinstance(arg, HeaderRef | HeaderAt | LastHeader):
        raise BadProgram(f"a header is needed, not a {type(arg).__name__}")
    return arg
