"""Where the fields of many copies are: vector variables, arrays, the packet, header stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from softswitch.codegen.columns import NotAlike, SeriesTable, step_of
from softswitch.codegen.layout import Layout, c_type
from softswitch.codegen.locality import FieldKey
from softswitch.codegen.ranges import Range, join
from softswitch.codegen.vector import Pair

Keys = tuple[FieldKey, ...]
WINDOW_BITS = 64
LONGEST = 8
"""Elements of the longest vector."""


@dataclass
class Usage:
    """Who mentions the fields of a roll.

    Attributes:
        copies: for each field that the roll mentions, the copies that do.
        header_copies: the same for headers.
        outside: fields that something else in the same pipeline mentions.
        foreign: fields that cannot be kept in local variables: others outside of it mention them.
        elsewhere: fields that are mentioned outside of the roll and of copies that follow it.
    """

    copies: dict[FieldKey, set[int]]
    header_copies: dict[int, set[int]]
    outside: set[FieldKey]
    foreign: set[FieldKey]
    elsewhere: set[FieldKey]


@dataclass
class CopyStorage:
    """The fields of one roll (see `vector.Storage`), and what its code declares.

    `declared` are the variables of a step (SS_WIDTH copies), `constants` what is computed before.
    """

    layout: Layout
    usage: Usage
    written: set[FieldKey]
    written_headers: set[int]
    private: set[FieldKey]
    arrays: SeriesTable = field(default_factory=SeriesTable)
    params: list[str] = field(default_factory=list)
    assigned_first: Callable[[FieldKey], bool] = lambda key: False
    ranges: dict[Keys, Range] = field(default_factory=dict)
    _columns: dict[Keys, str] = field(default_factory=dict)
    _declared: dict[str, str] = field(default_factory=dict)
    _constants: dict[tuple[str, str], str] = field(default_factory=dict)
    _windows: dict[tuple[int, int, int], str] = field(default_factory=dict)

    # Declarations

    def constants(self) -> Iterator[str]:
        """Yield the declarations before the first step."""
        for kind, text, name in self.hoisted():
            yield f"{kind} {name}{text};"

    def hoisted(self) -> Iterator[tuple[str, str, str]]:
        """Yield what those declarations are made of: kind, initializer, name."""
        for (kind, text), name in self._constants.items():
            yield kind, text, name

    @property
    def largest_step(self) -> int:
        """The largest distance, in bytes, of fields that are loaded from the packet."""
        return max((step for _, step, _ in self._windows), default=0)

    def variables(self) -> Iterator[str]:
        """Yield the declarations of a step."""
        for name, text in self._declared.items():
            yield f"ss_v {name} = {text};"

    def hoist(self, kind: str, text: str) -> str:
        """Return the name of a number (or bool) that is computed once, before the first copy."""
        key = (f"const {kind}", f" = {text}")
        return self._constants.setdefault(key, f"s{len(self._constants)}")

    def constant(self, value: int) -> str:
        """Return the vector of a constant that all copies share.

        It is kept in memory, from which processors spread a number at no cost.
        """
        key = ("static uint64_t SS_USED", f" = {value}u")
        return f"ss_v_all({self._constants.setdefault(key, f's{len(self._constants)}')})"

    def cut(self, text: str, width: int) -> str:
        """Return the low bits of a vector."""
        return f"({text} & {self.constant((1 << width) - 1)})"

    def steps(self, step: str) -> str:
        """Return the vector of 0, 1, 2, … times a constant expression."""
        items = ", ".join(f"{i} * {step}" for i in range(LONGEST))
        key = ("static uint64_t SS_USED", f"[] = {{{items}}}")
        return f"ss_v_load({self._constants.setdefault(key, f's{len(self._constants)}')})"

    def table(self, values: tuple[int, ...]) -> str:
        """Return the vector of constants."""
        items = ", ".join(f"{v}u" for v in values)
        key = ("static const uint64_t", f"[] = {{{items}}}")
        name = self._constants.setdefault(key, f"s{len(self._constants)}")
        return f"ss_v_load({name} + k)"

    # Columns

    @property
    def held(self) -> set[FieldKey]:
        """The fields that are in vector variables, and nowhere else."""
        return {key for keys in self._columns for key in keys if key not in self.usage.outside}

    def is_private(self, keys: Keys) -> bool:
        """Return True when a column is in vector variables; NotAlike if it cannot be a column."""
        if len(set(keys)) == 1:
            if keys[0] not in self.private:
                raise NotAlike
            return True
        if all(header in self.layout.views for header, _ in keys):
            return False
        if any(self.usage.copies.get(key) != {k} for k, key in enumerate(keys)):
            raise NotAlike
        if not all(self.layout.program.headers[header].metadata for header, _ in keys):
            return False
        if any(key in self.usage.foreign for key in keys):
            raise NotAlike
        return not any(key in self.usage.outside for key in keys)

    def variable(self, keys: Keys) -> str:
        """Return the variable of a private column; that of the high halves ends in h."""
        name = self._columns.setdefault(keys, f"x{len(self._columns)}")
        self._declared.setdefault(name, "{0}")
        if self.width(keys) > 64:
            self._declared.setdefault(f"{name}h", "{0}")
        return name

    def is_fresh(self, keys: Keys) -> bool:
        """Return True for the first assignment to a variable that is not read before it.

        Copies that do not take part may get any value: others replace it before they read it.
        """
        return keys not in self.ranges and self.assigned_first(keys[0])

    def note(self, keys: Keys, bounds: Range) -> None:
        """Remember that a variable can have these values from here on."""
        if self.is_fresh(keys):
            self.ranges[keys] = bounds
        else:
            self.ranges[keys] = join(self.ranges.get(keys, (0, 0)), bounds)

    def width(self, keys: Keys) -> int:
        """Return the width of all fields of a column."""
        widths = {self.layout.program.field(*key).width for key in keys}
        if len(widths) != 1:
            raise NotAlike
        return widths.pop()

    def array(self, keys: Keys) -> str:
        """Return a pointer to the next SS_WIDTH elements of an array column."""
        if self.width(keys) > 64:
            raise NotAlike
        self.arrays.add(keys)
        place = self.arrays.place(keys[0])
        live = self.layout.plan.arrays.place(keys[0]) or place
        if live is None:
            raise NotAlike
        return f"l->g{live.number} + {live.first} + k"

    def load(self, keys: Keys) -> str:
        """Return the vector of a column, or of a field that all copies share."""
        if self._is_kept(keys):
            return self._kept(keys)
        if self.is_private(keys):
            return self.variable(keys)
        headers = [self.layout.program.headers[header] for header, _ in keys]
        if headers[0].metadata:
            return f"ss_v_load({self.array(keys)})"
        if headers[0].index in self.layout.views:
            return self._window(keys)
        return self.each(self.stack_field(keys))

    def _is_kept(self, keys: Keys) -> bool:
        """Whether a column is metadata that outlives the pipeline, and is only read."""
        return (
            any(key in self.usage.foreign for key in keys)
            and all(self.layout.program.headers[header].metadata for header, _ in keys)
            and not self.written.intersection(keys)
            and len(set(keys)) == len(keys)
        )

    def _kept(self, keys: Keys) -> str:
        """Load such a column from the packet's state, field by field."""
        kind = c_type(self.width(keys))
        places = [f"p->m.h{header}_f{index}" for header, index in keys]
        if self.width(keys) > WINDOW_BITS or places != [self.layout.static_field(*k) for k in keys]:
            raise NotAlike
        members = (f"offsetof(struct ss_meta, h{header}_f{index})" for header, index in keys)
        key = ("static const uint32_t", f"[] = {{{', '.join(members)}}}")
        name = self._constants.setdefault(key, f"s{len(self._constants)}")
        return self.each(f"*(const {kind} *)((const uint8_t *)&p->m + {name}[k + e])")

    def load_pair(self, keys: Keys) -> Pair:
        """Return the high and low halves of a column of 65 to 128 bits."""
        if not self.is_private(keys):
            raise NotAlike
        name = self.variable(keys)
        return f"{name}h", name

    @staticmethod
    def each(text: str) -> str:
        """Return the vector of a scalar expression of the copy `k + e`."""
        loop = "for (unsigned e = 0; e < SS_WIDTH; e++)"
        return f"__extension__({{ ss_v t_ = {{0}}; {loop} t_[e] = {text}; t_; }})"

    def _window(self, keys: Keys) -> str:
        """Load fields that lie in the packet at a constant distance of up to eight bytes."""
        header, offset, step = self._row_in_packet(keys)
        width = self.width(keys)
        start, first = self._window_of(header, step, offset, width)
        before = offset - 8 * start
        text = f"({first} >> {WINDOW_BITS - before - width})"
        return text if before == 0 else self.cut(text, width)

    def load_bit(self, keys: Keys) -> str | None:
        """Return the mask of copies whose field of one bit in the packet is set; None elsewhere."""
        if self.width(keys) != 1 or not all(header in self.layout.views for header, _ in keys):
            return None
        if len(set(keys)) == 1:
            return None
        header, offset, step = self._row_in_packet(keys)
        start, window = self._window_of(header, step, offset, 1)
        bit = 1 << (WINDOW_BITS - 1 - (offset - 8 * start))
        return f"ss_m_test({window}, {self.constant(bit)})"

    def _row_in_packet(self, keys: Keys) -> tuple[int, int, int]:
        """Return the header of fields, the offset of the first one, and their distance in bytes."""
        if len({header for header, _ in keys}) != 1:
            raise NotAlike
        offsets = [self.layout.program.field(*key).offset for key in keys]
        step = step_of(offsets)
        if step <= 0 or step % 8 or step > WINDOW_BITS:
            raise NotAlike
        return keys[0][0], offsets[0], step // 8

    def _window_of(self, header: int, stride: int, offset: int, width: int) -> tuple[int, str]:
        """Return where a window begins that holds a field of the first copy, and its variable."""
        for (owner, step, start), name in self._windows.items():
            inside = 8 * start <= offset and offset + width <= 8 * start + WINDOW_BITS
            if (owner, step) == (header, stride) and inside:
                return start, name
        start = offset // 8
        if offset + width > 8 * start + WINDOW_BITS:
            raise NotAlike
        name = self._windows[header, stride, start] = f"w{len(self._windows)}"
        pointer = self.hoist("uint8_t *", f"{self.layout.view(header)} + {start}")
        self._declared[name] = f"ss_v_windows({pointer} + {stride} * k, {stride})"
        return start, name

    # Header stacks

    def stack_slot(self, headers: tuple[int, ...]) -> tuple[int, str]:
        """Return the stack that one header per copy is in, and the index of that of copy k + e."""
        found = [self.layout.program.headers[header] for header in headers]
        stack = found[0].stack
        if stack is None or any(h.stack != stack or h.union for h in found):
            raise NotAlike
        if any(self.usage.header_copies.get(h) != {k} for k, h in enumerate(headers)):
            raise NotAlike
        step = step_of([h.slot for h in found])
        return stack, f"{found[0].slot} + {step} * (int)(k + e)"

    def stack_header(self, headers: tuple[int, ...]) -> tuple[str, str]:
        """Return the header of copy k + e, and its validity."""
        stack, slot = self.stack_slot(headers)
        valid = f"p->valid[{self.layout.first_valid(stack)} + {slot}]"
        return f"p->h.s{stack}[{slot}]", valid

    def stack_field(self, keys: Keys) -> str:
        """Return the field of copy k + e."""
        self.width(keys)
        if len({index for _, index in keys}) != 1:
            raise NotAlike
        header, _ = self.stack_header(tuple(header for header, _ in keys))
        return f"{header}.f{keys[0][1]}"

    def load_valid(self, headers: tuple[int, ...]) -> str:
        """Return the mask of copies whose header is valid."""
        _, valid = self.stack_header(headers)
        return f"ss_m_ne({self.each(valid)}, ss_v_all(0))"
