"""Primitives of many copies at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from softswitch.codegen.alike import Row, all_ones
from softswitch.codegen.columns import NotAlike, SeriesTable
from softswitch.codegen.layout import Layout, c_type
from softswitch.codegen.locality import FieldKey
from softswitch.codegen.plan import Hint
from softswitch.codegen.ranges import Range, unsigned
from softswitch.codegen.storage import CopyStorage
from softswitch.codegen.vector import Fits, Vectors, keys_of, operations
from softswitch.ir import ArrayRef, Const, Expr, Field, HeaderRef, Op, Primitive
from softswitch.program import Action, RegisterArray

Mask = str | None
"""C text of the mask of copies that do something; None: all of them do."""

MAX_EXPANSION = 8
"""Assignments that are followed back to say which cells are touched."""

ROLLED = frozenset(
    ["assign", "register_read", "register_write", "add_header", "remove_header", "no_op"]
)
"""Primitives that can be done for many copies at once."""

_REDUCTIONS = frozenset(["|", "&", "^", "+"])
_NEUTRAL = {"|": "0", "^": "0", "+": "0", "&": "-UINT64_C(1)"}


def both(a: Mask, b: Mask) -> Mask:
    """Return the mask of copies that are in both."""
    if a is None or b is None:
        return a or b
    return f"({a} & {b})"


def pick(mask: Mask, yes: str, no: str) -> str:
    """Return a value where the mask is set, another one elsewhere."""
    return yes if mask is None else f"ss_v_pick({mask}, {yes}, {no})"


def text_of(mask: Mask) -> str:
    """Return a mask as C text."""
    return mask or "ss_m_if(true)"


@dataclass
class Gathered:
    """What copies add to a field that they share: the operation, or the value that all assign."""

    key: FieldKey
    op: str
    name: str
    value: Expr | None = None


@dataclass
class CopyCode:
    """Translates what the nodes of one roll do; `Roll`'s control flow is in `rolled`."""

    vectors: Vectors
    storage: CopyStorage
    registers: SeriesTable = field(default_factory=SeriesTable)
    gathered: dict[FieldKey, Gathered] = field(default_factory=dict)
    registers_read: dict[str, int | None] = field(default_factory=dict)
    assigned: dict[FieldKey, Row] = field(default_factory=dict)
    hints: list[Hint] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        """The layout of the program."""
        return self.storage.layout

    def call(self, actions: Sequence[Action], params: list[str], mask: Mask) -> Iterator[str]:
        """Yield the statements of one action per copy; `params` are vectors."""
        count = len(actions[0].primitives)
        if any(len(action.primitives) != count for action in actions):
            raise NotAlike
        self.storage.params = params
        for i in range(count):
            yield from self.primitive([action.primitives[i] for action in actions], mask)

    def primitive(self, calls: list[Primitive], mask: Mask) -> Iterator[str]:
        """Yield the statements of one primitive per copy."""
        op = calls[0].op
        args = list(zip(*(call.args for call in calls), strict=False))
        if any(call.op != op or len(call.args) != len(args) for call in calls):
            raise NotAlike
        self.vectors.e.where = calls[0].where
        match op:
            case "assign":
                yield from self._assign(_fields(args[0]), _expressions(args[1]), mask)
            case "register_read":
                yield from self._register_read(
                    _fields(args[0]), self._registers(args[1]), _expressions(args[2]), mask
                )
            case "register_write":
                yield from self._register_write(
                    self._registers(args[0]), _expressions(args[1]), _expressions(args[2]), mask
                )
            case "add_header" | "remove_header":
                yield from self._header(op, _headers(args[0]), mask)
            case "no_op":
                return
            case _:
                raise NotAlike

    # Fields

    def _assign(self, targets: tuple[Field, ...], values: Row, mask: Mask) -> Iterator[str]:
        values = self.vectors.simple(values)
        keys = keys_of(targets)
        if len(set(keys)) == 1 and keys[0] not in self.storage.private:
            yield self._gather(targets[0], values, mask)
            return
        self._remember(keys, values)
        width = self.storage.width(keys)
        kind = self.layout.field_type(targets[0])
        if kind.saturating or kind.varbit or width > 128:
            raise NotAlike
        if width > 64:
            high, low = self.vectors.pair(values)
            high = high if self._fits(values, width) else self.storage.cut(high, width - 64)
            yield from self._put_pair(keys, high, low, mask)
            return
        text = self.vectors.number(values)
        bounds = self.vectors.range(values)
        if not (bounds[0] >= 0 and bounds[1] < 1 << width):
            bounds = unsigned(width)
            text = text if width == 64 else self.storage.cut(text, width)
        yield from self.put(keys, text, mask, bounds)

    def _remember(self, keys: tuple[FieldKey, ...], values: Row) -> None:
        """Remember what variables are likely to hold: what differs from copy to copy."""
        if self.storage.is_private(keys) and (
            keys[0] not in self.assigned or not self.vectors.is_shared(values)
        ):
            self.assigned.update(dict.fromkeys(keys, values))

    def _hint(self, registers: list[RegisterArray], index: Row) -> None:
        """Note which cells are touched, by what is known before the first copy."""
        names = tuple(register.name for register in registers)
        if len(set(names)) > 1 and all(hint.registers != names for hint in self.hints):
            row = tuple(self._expanded(expr, k, 0) for k, expr in enumerate(index))
            self.hints.append(Hint(names, row))

    def _expanded(self, expr: Expr, copy: int, depth: int) -> Expr:
        if isinstance(expr, Field) and depth < MAX_EXPANSION:
            [key] = keys_of((expr,))
            known = self.assigned.get(key)
            return expr if known is None else self._expanded(known[copy], copy, depth + 1)
        if isinstance(expr, Op):
            return Op(expr.op, tuple(self._expanded(arg, copy, depth) for arg in expr.args))
        return expr

    def prefetch(self, hint: Hint) -> Iterator[str]:
        """Yield the statements that ask for cells."""
        registers = [self.layout.program.register_arrays[name] for name in hint.registers]
        opening, _ = self._cells(registers, hint.index, None)
        yield f"{opening} ss_v_prefetch(at_); }}"

    def put(
        self, keys: tuple[FieldKey, ...], text: str, mask: Mask, bounds: Range
    ) -> Iterator[str]:
        """Yield the assignment of a vector, of no more bits than the fields have, to a column."""
        if self.storage.is_private(keys):
            name = self.storage.variable(keys)
            yield f"{name} = {pick(None if self.storage.is_fresh(keys) else mask, text, name)};"
            self.storage.note(keys, bounds)
        elif self.layout.program.headers[keys[0][0]].metadata:
            array = self.storage.array(keys)
            yield f"ss_v_store({array}, {pick(mask, text, f'ss_v_load({array})')});"
        else:
            kind = c_type(self.storage.width(keys))
            target = self.storage.stack_field(keys)
            yield f"{{ const ss_v v_ = {text};"
            yield f"  SS_V_EACH(e, {text_of(mask)}) {target} = ({kind})v_[e]; }}"

    def _put_pair(
        self, keys: tuple[FieldKey, ...], high: str, low: str, mask: Mask
    ) -> Iterator[str]:
        old_high, old_low = self.storage.load_pair(keys)
        mask = None if self.storage.is_fresh(keys) else mask
        self.storage.note(keys, unsigned(self.storage.width(keys)))
        yield f"{{ const ss_v h_ = {high}, l_ = {low};"
        yield f"  {old_high} = {pick(mask, 'h_', old_high)};"
        yield f"  {old_low} = {pick(mask, 'l_', old_low)}; }}"

    def _gather(self, target: Field, values: Row, mask: Mask) -> str:
        """Return the statement that gathers what copies do to a field that they share."""
        [key] = set(keys_of((target,)))
        header = self.layout.program.headers[key[0]]
        kind = self.layout.field_type(target)
        if not header.metadata or kind.width > 64 or kind.saturating or kind.signed:
            raise NotAlike
        if len(set(values)) == 1 and isinstance(values[0], Const):
            known = self._gathered(key, "=", values[0])
            return f"{known.name} |= {text_of(mask)};"
        op, rest = _reduction(target, values, kind.width, self.vectors.simplify.fits)
        known = self._gathered(key, op, None)
        text = self.vectors.number(rest)
        if mask is not None:
            neutral = f"ss_v_all({_NEUTRAL[op]})"
            text = f"ss_v_pick({mask}, {text}, {neutral})"
        return f"{known.name} {op}= {text};"

    def _gathered(self, key: FieldKey, op: str, value: Expr | None) -> Gathered:
        name = f"t{len(self.gathered)}"
        known = self.gathered.setdefault(key, Gathered(key, op, name, value))
        if (known.op, known.value) != (op, value):
            raise NotAlike
        return known

    def before(self) -> Iterator[str]:
        """Yield the declarations of what is gathered."""
        for each in self.gathered.values():
            if isinstance(each.value, Const):
                yield f"ss_m {each.name} = ss_m_if(false);"
            else:
                yield f"ss_v {each.name} = ss_v_all({_NEUTRAL[each.op]});"

    def after(self) -> Iterator[str]:
        """Yield the statements that bring what was gathered into the shared fields."""
        for each in self.gathered.values():
            place = self.layout.static_field(*each.key)
            width = self.layout.program.field(*each.key).width
            kind, mask = c_type(width), (1 << width) - 1
            if isinstance(each.value, Const):
                yield f"if (ss_m_any({each.name})) {place} = ({kind}){each.value.value & mask}u;"
                continue
            yield "for (unsigned e = 0; e < SS_WIDTH; e++)"
            value = f"{place} {each.op} {each.name}[e]"
            yield f"    {place} = ({kind})(({value}) & {mask}u);"

    # Registers

    def _registers(self, refs: Sequence[object]) -> list[RegisterArray]:
        found = [
            self.layout.program.register_arrays[ref.name]
            for ref in refs
            if isinstance(ref, ArrayRef) and ref.name in self.layout.program.register_arrays
        ]
        alike = {(register.size, register.width) for register in found}
        if len(found) != len(refs) or len(alike) != 1 or found[0].width > 128:
            raise NotAlike
        names = [register.name for register in found]
        if len(set(names)) > 1:
            self.registers.add(names)
        return found

    def _cells(self, registers: list[RegisterArray], index: Row, mask: Mask) -> tuple[str, Mask]:
        """Return the statement that declares the addresses at_ of cells, and the mask of copies.

        Copies that do nothing, or are out of range, have the address of a cell of no use.
        """
        first = registers[0]
        index = self.vectors.simple(index)
        low, high = self.vectors.range(index)
        number = self.vectors.number(index)
        text = f"{{ const ss_v i_ = {number};"
        if low < 0 or high >= first.size:
            if low < 0 or high >= 1 << 64:
                raise NotAlike
            mask = both(mask, f"ss_m_lt(i_, ss_v_all({first.size}u))")
        base = self.storage.hoist("uint64_t", f"(uintptr_t)c->state.r{first.index}")
        size = f"sizeof *c->state.r{first.index}"
        start, at = base, f"i_ * ({self.layout.plan.registers.beside(first.name)[1]} * {size})"
        if registers[1].name != first.name:
            start, at = f"{base} + k * {size}", f"{at} + {self.storage.steps(size)}"
        at = f"ss_v_all({start}) + {at}"
        if mask is None:
            return f"{text} const ss_v at_ = {at};", None
        text += f" const ss_m ok_ = {mask};"
        spare = "ss_v_all((uintptr_t)spare_)"
        return f"{text} const ss_v at_ = ss_v_pick(ok_, {at}, {spare});", "ok_"

    def _register_read(
        self, targets: tuple[Field, ...], registers: list[RegisterArray], index: Row, mask: Mask
    ) -> Iterator[str]:
        self._note(registers, write=False)
        self._hint(registers, self.vectors.simple(index))
        opening, mask = self._cells(registers, index, mask)
        yield opening
        keys, width = keys_of(targets), registers[0].width
        if len(set(keys)) == 1 and keys[0] not in self.storage.private:
            raise NotAlike
        room = self.storage.width(keys)
        if width > 64:
            yield "  ss_v high_, low_; ss_v_read128(at_, &high_, &low_);"
        else:
            yield f"  const ss_v low_ = ss_v_read(at_, sizeof *c->state.r{registers[0].index});"
        if room > 64:
            high = "high_" if width > 64 else "ss_v_all(0)"
            if room < width:
                high = self.storage.cut("high_", room - 64)
            yield from self._put_pair(keys, high, "low_", mask)
        else:
            low = self.storage.cut("low_", room) if room < min(width, 64) else "low_"
            yield from self.put(keys, low, mask, unsigned(min(room, width)))
        yield "}"

    def _register_write(
        self, registers: list[RegisterArray], index: Row, values: Row, mask: Mask
    ) -> Iterator[str]:
        self._note(registers, write=True)
        opening, mask = self._cells(registers, index, mask)
        yield opening
        values = self.vectors.simple(values)
        width = registers[0].width
        if width > 64:
            high, low = self.vectors.pair(values)
            high = high if self._fits(values, width) else self.storage.cut(high, width - 64)
            yield f"  ss_v_write128(at_, {high}, {low}); }}"
            return
        text = self.vectors.number(values)
        if width < 64 and not self._fits(values, width):
            text = self.storage.cut(text, width)
        yield f"  ss_v_write(at_, {text}, sizeof *c->state.r{registers[0].index}); }}"

    def _fits(self, values: Row, width: int) -> bool:
        """Whether all values are numbers of so many bits."""
        low, high = self.vectors.range(values)
        return width == 128 or (low >= 0 and high < 1 << width)

    def _note(self, registers: list[RegisterArray], *, write: bool) -> None:
        """Make sure that no copy reads or writes what another one writes."""
        names = [register.name for register in registers]
        shared = len(set(names)) == 1
        if write and shared:
            raise NotAlike
        for k, name in enumerate(names):
            owner = None if shared else k
            if self.registers_read.setdefault(name, owner) != owner:
                raise NotAlike

    # Headers

    def _header(self, op: str, headers: tuple[int, ...], mask: Mask) -> Iterator[str]:
        header, valid = self.storage.stack_header(headers)
        kind = self.layout.program.headers[headers[0]].type
        if kind.varbit is not None:
            raise NotAlike
        size = kind.width // 8
        yield f"SS_V_EACH(e, {text_of(mask)}) {{"
        if op == "add_header":
            yield f"    if (!{valid}) {{ memset(&{header}, 0, sizeof {header});"
            yield f"        {valid} = 1; p->x.packet_length += {size}; }}"
        else:
            yield f"    if ({valid}) {{ {valid} = 0; p->x.packet_length -= {size}; }}"
        yield "}"


def _reduction(target: Field, values: Row, width: int, fits: Fits) -> tuple[str, Row]:
    """Take values of the form target op rest apart; NotAlike if they have another one."""
    peeled = tuple(
        expr.args[0]
        if isinstance(expr, Op)
        and expr.op == "&"
        and isinstance(expr.args[1], Const)
        and all_ones(expr.args[1].value)
        and expr.args[1].value.bit_length() >= width
        else expr
        for expr in values
    )
    ops = operations(peeled, fits)
    if ops[0].op not in _REDUCTIONS or len(ops[0].args) != 2:
        raise NotAlike
    rest: list[Expr] = []
    for expr in ops:
        a, b = expr.args
        if target not in (a, b):
            raise NotAlike
        rest.append(b if a == target else a)
    return ops[0].op, tuple(rest)


def _fields(args: Sequence[object]) -> tuple[Field, ...]:
    found = tuple(arg for arg in args if isinstance(arg, Field))
    if len(found) != len(args):
        raise NotAlike
    return found


def _headers(args: Sequence[object]) -> tuple[int, ...]:
    found = tuple(arg.header for arg in args if isinstance(arg, HeaderRef))
    if len(found) != len(args):
        raise NotAlike
    return found


def _expressions(args: Sequence[object]) -> Row:
    found = tuple(arg for arg in args if isinstance(arg, Expr))
    if len(found) != len(args):
        raise NotAlike
    return found
