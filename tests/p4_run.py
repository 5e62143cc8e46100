"""Runs the trees of tests/p4_syntax.py: controls and parsers, with the state of one pipe.

What P4 leaves open is made up at random: the fields of a header that nobody wrote, or that is not
valid. So a result that depends on one does not stay the same. Metadata begin at 0, as the program
asks for (`@pa_auto_init_metadata`).
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.p4_syntax import Block, Source, Table, Tree
from tests.p4_values import Bits, Packet, Record, checksum_of, matches

Keys = tuple[tuple[int, int], ...]
"""Value and mask of each key of an entry."""

EXACT = -1
"""The mask of a key that is compared as a whole."""


@dataclass
class Machine:
    """A program with what its control plane has written, shared by all pipes."""

    source: Source
    random: random.Random
    entries: dict[str, dict[Keys, tuple[str, list[int]]]] = field(default_factory=dict)
    """By the public name of a table: action and its parameters."""

    def __post_init__(self) -> None:
        self._consts: dict[str, Bits] = {}
        self._zeros: dict[Tree, Bits] = {}

    def noise(self, width: int) -> int:
        """A number that nobody wrote."""
        return self.random.getrandbits(width)

    def const(self, name: str) -> Bits | None:
        """A constant of the program."""
        if name not in self._consts and name in self.source.consts:
            kind, tree = self.source.consts[name]
            made = self.new(kind)
            value = Frame(self, None).number(tree)
            self._consts[name] = Bits.of(value.value, made.width, made.signed)
        return self._consts.get(name)

    def new(self, tree: Tree) -> Any:
        """An empty value of a type: 0, or a record."""
        if tree[0] in ("bit", "int"):
            if tree not in self._zeros:
                width = Frame(self, None).number(tree[1]).value
                self._zeros[tree] = Bits(0, width, tree[0] == "int")
            return self._zeros[tree]
        if tree[0] == "name":
            found = self.source.types[tree[1]]
            return self.new(found)
        if tree[0] == "stack":
            return None
        members = {name: self.new(each) for each, name in tree[1]}
        return Record(tree[0], members, self.noise)


class Instance:
    """A control or parser with its registers and counters, and those that it has inside."""

    def __init__(self, machine: Machine, block: Block, path: str) -> None:
        self.machine, self.block, self.path = machine, block, path
        self.registers: dict[str, dict[int, Record]] = {name: {} for name in block.registers}
        self.counters: dict[str, Counter[int]] = {name: Counter() for name in block.counters}
        self.parts = {
            name: Instance(machine, machine.source.blocks[kind], f"{path}.{name}")
            for name, kind in block.instances.items()
            if kind != "Checksum"
        }
        self._own: dict[str, list[tuple[list[tuple[int, int] | None], Tree]]] = {}
        names = {public: name for name, public in block.public.items() if name in block.actions}
        self._actions = {f"{path}.{public}": name for public, name in names.items()}

    def apply(self, **arguments: Any) -> None:
        """Run from outside, with records and packets by the names of the parameters."""
        frame = Frame(self.machine, self, dict(arguments))
        self.run(frame)

    def run(self, frame: Frame) -> None:
        """Run what a control or parser does."""
        for tree, name in self.block.local:
            frame.names[name] = self.machine.new(tree)
        if not self.block.states:
            frame.statements(self.block.body)
            return
        state = "start"
        while state not in ("accept", "reject"):
            *does, last = self.block.states[state]
            frame.statements(does)
            state = frame.next_state(last)

    def entry(self, table: Table, keys: list[int]) -> tuple[str, list[Any]]:
        """Action and arguments for the keys: of the program's entries, else of the control plane's.

        Arguments are trees or numbers.
        """
        for wanted, action in self._program_entries(table):
            if matches(keys, wanted):
                return action[1][1], action[2]
        public = f"{self.path}.{self.block.public[table.name]}"
        written = self.machine.entries.get(public, {})
        exact = tuple((key, EXACT) for key in keys)
        matching = (
            [exact]
            if exact in written
            else [
                each
                for each in written
                if all(key & mask == value for key, (value, mask) in zip(keys, each, strict=True))
            ]
        )
        if not matching:
            return table.default[1][1], table.default[2]
        longest = max(matching, key=lambda each: [mask for _, mask in each])
        public, values = written[longest]
        return self._actions[public], values

    def _program_entries(self, table: Table) -> list[tuple[list[tuple[int, int] | None], Tree]]:
        if table.name not in self._own:
            frame = Frame(self.machine, self)
            self._own[table.name] = [
                ([frame.key(each) for each in keys], action) for keys, action in table.entries
            ]
        return self._own[table.name]


class Frame:
    """The names that a statement sees, and what it does to them."""

    def __init__(
        self,
        machine: Machine,
        instance: Instance | None,
        names: dict[str, Any] | None = None,
        outer: Frame | None = None,
    ) -> None:
        self.machine, self.instance, self.outer = machine, instance, outer
        self.names: dict[str, Any] = {} if names is None else names

    def _holder(self, name: str) -> dict[str, Any] | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names
            frame = frame.outer
        return None

    # -- statements -----------------------------------------------------------------------------

    def statements(self, trees: list[Tree]) -> None:
        """Run them one after the other."""
        for tree in trees:
            self.statement(tree)

    def statement(self, tree: Tree) -> None:
        """Run one."""
        match tree[0]:
            case "assign":
                self.assign(tree[1], self.evaluate(tree[2]))
            case "variable":
                made = self.machine.new(tree[1])
                self.names[tree[2]] = Bits.of(self.number(tree[3]).value, made.width, made.signed)
            case "if":
                if self.truth(tree[1]):
                    self.statement(tree[2])
                elif tree[3] is not None:
                    self.statement(tree[3])
            case "block":
                self.statements(tree[1])
            case "call":
                self.call(tree)
            case other:
                raise SyntaxError(f"no statement: {other}")

    def assign(self, target: Tree, value: Any) -> None:
        """Write to a name, a field, or some bits of one."""
        value = Bits(int(value)) if isinstance(value, bool) else value
        if target[0] == "slice":
            high, low = self.number(target[2]).value, self.number(target[3]).value
            mask = ((1 << (high - low + 1)) - 1) << low
            old = self.number(target[1])
            new = old.value & ~mask | (value.value << low) & mask
            self.assign(target[1], Bits.of(new, old.width, old.signed))
        elif target[0] == "member":
            self.evaluate(target[1]).set(target[2], value)
        else:
            holder = self._holder(target[1])
            assert holder is not None, target
            old = holder[target[1]]
            holder[target[1]] = Bits.of(value.value, old.width, old.signed)

    def next_state(self, tree: Tree) -> str:
        """Where a transition leads."""
        if tree[0] == "goto":
            return str(tree[1])
        keys = [self.number(each).value for each in tree[1]]
        for wanted, state in tree[2]:
            sets = [self.key(each) for each in wanted]
            if len(sets) == 1 and sets[0] is None:
                return str(state)
            if matches(keys, sets):
                return str(state)
        return "reject"

    def key(self, tree: Tree) -> tuple[int, int] | None:
        """Value and mask of a key of the program's; None matches all."""
        if tree[0] == "any":
            return None
        mask = self.number(tree[2]).value if tree[0] == "mask" else EXACT
        return self.number(tree[1]).value & mask, mask

    # -- calls ----------------------------------------------------------------------------------

    def call(self, tree: Tree) -> Any:
        """Run an action, a table, a control, or a method of the architecture."""
        _, what, arguments = tree
        instance = self.instance
        assert instance is not None
        if what[0] == "name":
            self._act(what[1], [self.evaluate(each) for each in arguments])
            return None
        _, of, method = what
        name = of[1] if of[0] == "name" else ""
        if name in instance.block.tables:
            self._table(instance.block.tables[name])
        elif name in instance.parts:
            self._part(instance.parts[name], arguments)
        elif name in instance.block.register_actions:
            return self._register(name, self.number(arguments[0]).value)
        elif name in instance.counters:
            instance.counters[name][self.number(arguments[0]).value] += 1
        elif instance.block.instances.get(name) == "Checksum":
            return self._checksum(method, arguments)
        else:
            return self._method(self.evaluate(of), method, arguments)
        return None

    def _act(self, name: str, arguments: list[Any]) -> None:
        if name == "NoAction":
            return
        assert self.instance is not None
        params, body = self.instance.block.actions[name]
        frame = Frame(self.machine, self.instance, {}, self._of_block())
        for (_, tree, param), value in zip(params, arguments, strict=True):
            made = self.machine.new(tree)
            frame.names[param] = Bits.of(getattr(value, "value", value), made.width, made.signed)
        frame.statements(body)

    def _of_block(self) -> Frame:
        """The names of the control that an action or a register's action is part of."""
        frame = self
        while frame.outer is not None:
            frame = frame.outer
        return frame

    def _table(self, table: Table) -> None:
        assert self.instance is not None
        keys = [self.number(tree).value for tree, _ in table.keys]
        action, arguments = self.instance.entry(table, keys)
        values = [self.evaluate(a) if isinstance(a, tuple) else a for a in arguments]
        self._act(action, values)

    def _part(self, part: Instance, arguments: list[Tree]) -> None:
        frame = Frame(self.machine, part)
        given = list(zip(part.block.params, arguments, strict=True))
        for (_, tree, name), argument in given:
            value = self.evaluate(argument)
            if isinstance(value, Bits):
                made = self.machine.new(tree)
                value = Bits.of(value.value, made.width, made.signed)
            frame.names[name] = value
        part.run(frame)
        for (direction, _, name), argument in given:
            if direction in ("out", "inout") and isinstance(frame.names[name], Bits):
                self.assign(argument, frame.names[name])

    def _register(self, name: str, index: int) -> Bits | None:
        assert self.instance is not None
        register, params, body = self.instance.block.register_actions[name]
        kind, size = self.instance.block.registers[register]
        assert index < self.number(size).value, (self.instance.path, register, index)
        cells = self.instance.registers[register]
        if index not in cells:
            cells[index] = self.machine.new(kind)
        frame = Frame(self.machine, self.instance, {params[0][2]: cells[index]}, self._of_block())
        for _, tree, param in params[1:]:
            frame.names[param] = self.machine.new(tree)
        frame.statements(body)
        return frame.names[params[1][2]] if len(params) > 1 else None

    def _checksum(self, method: str, arguments: list[Tree]) -> Any:
        holder = self._of_block().names
        if method == "add":
            header = self.evaluate(arguments[0])
            holder["checksum"] = checksum_of(header.pack(), header.width)
            return None
        if method == "verify":
            return holder["checksum"] != 0
        data = width = 0
        for each in map(self.number, arguments[0][1]):
            data, width = data << (each.width or 0) | each.value, width + (each.width or 0)
        return Bits(checksum_of(data, width), 16)

    def _method(self, of: Any, method: str, arguments: list[Tree]) -> Any:
        if isinstance(of, Packet):
            return self._of_packet(of, method, arguments)
        if method == "isValid":
            return of.valid
        of.valid = method == "setValid"
        return None

    def _of_packet(self, packet: Packet, method: str, arguments: list[Tree]) -> None:
        what = self.evaluate(arguments[0])
        if method == "advance":
            packet.take(what.value)
        elif method == "extract" and what.is_header:
            what.unpack(packet.take(what.width))
        elif method == "emit" and what.valid:
            packet.data += what.pack().to_bytes(what.width // 8, "big")

    # -- expressions ----------------------------------------------------------------------------

    def truth(self, tree: Tree) -> bool:
        """A condition."""
        found = self.evaluate(tree)
        assert isinstance(found, bool), tree
        return found

    def number(self, tree: Tree) -> Bits:
        """A number; a condition is one bit."""
        found = self.evaluate(tree)
        return Bits(int(found), 1) if isinstance(found, bool) else found

    def evaluate(self, tree: Tree) -> Any:
        """A number, a truth, a record or a packet."""
        match tree[0]:
            case "number":
                return Bits.of(*tree[1:])
            case "name":
                holder = self._holder(tree[1])
                return self.machine.const(tree[1]) if holder is None else holder[tree[1]]
            case "member":
                return self.evaluate(tree[1]).get(tree[2])
            case "slice":
                high, low = self.number(tree[2]).value, self.number(tree[3]).value
                return Bits.of(self.number(tree[1]).value >> low, high - low + 1)
            case "cast":
                made = self.machine.new(tree[1])
                return Bits.of(self.number(tree[2]).value, made.width, made.signed)
            case "unary":
                if tree[1] == "!":
                    return not self.truth(tree[2])
                of = self.number(tree[2])
                value = -of.value if tree[1] == "-" else ~of.value
                return Bits.of(value, of.width, of.signed)
            case "call":
                return self.call(tree)
            case "lookahead":
                width = self.machine.new(tree[1]).width
                return Bits(self.evaluate(("name", "packet")).take(width, stays=True), width)
            case _:
                return self._binary(*tree[1:])

    def _binary(self, operator: str, left: Tree, right: Tree) -> Any:
        if operator in ("&&", "||"):
            first = self.truth(left)
            return self.truth(right) if first == (operator == "&&") else first
        a, b = self.number(left), self.number(right)
        if operator in _COMPARE:
            return _COMPARE[operator](a.value, b.value)
        if operator == "++":
            assert a.width is not None and b.width is not None
            return Bits(a.value << b.width | b.value, a.width + b.width)
        typed = a if a.width is not None or operator in ("<<", ">>") else b
        return Bits.of(_ARITHMETIC[operator](a.value, b.value), typed.width, typed.signed)


_COMPARE = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    ">": lambda a, b: a > b, "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
}  # fmt: skip
_ARITHMETIC = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a // b, "%": lambda a, b: a % b, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}  # fmt: skip
