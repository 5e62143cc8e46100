"""One test on one switch: statements in their order, then what left against what had to."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from softswitch.dataplane import DataPlane
from softswitch.errors import SoftSwitchError
from softswitch.program import MatchKey, TableEntry
from softswitch.stf.commands import Commands
from softswitch.stf.grammar import (
    Add,
    CheckCounter,
    Command,
    Expect,
    NoPacket,
    Packet,
    RemoveAll,
    SetDefault,
    Statement,
    StfError,
    Wait,
    to_int,
)
from softswitch.stf.names import action_of, find, key_of

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SHOWN_DIGITS = 160
_START_US = 1_000_000
_PACKET_US = 1_000
_WAIT_US = 1_000_000


class Session:
    """A test on a switch that has just been loaded.

    The switch's clock stands still, so that timestamps and meters are the same in every run: it
    goes on by a millisecond per packet, and by a second per `wait`.
    """

    def __init__(self, switch: DataPlane) -> None:
        self.switch = switch
        self.commands = Commands(switch)
        self._now_us = _START_US
        self._entries: dict[str, tuple[str, tuple[MatchKey, ...], int]] = {}
        self._sent: dict[int, list[bytes]] = {}
        self._expected: dict[int, list[Expect]] = {}
        self._last: list[tuple[int, bytes]] = []

    def run(self, statements: Sequence[Statement]) -> list[str]:
        """Run a test; return what is wrong, one line each.

        As in bmv2's own driver, each port's packets are compared in their order, and ports that
        no statement names are not looked at.
        """
        for statement in statements:
            try:
                self.execute(statement)
            except SoftSwitchError as error:
                return [f"line {statement.line}: {error}"]
        return [problem for port in sorted(self._sent) for problem in self._compare(port)]

    def execute(self, statement: Statement) -> list[tuple[int, bytes]]:
        """Execute one statement; return what a packet sent, as (port, packet)."""
        sent: list[tuple[int, bytes]] = []
        match statement:
            case Wait():
                self._now_us += _WAIT_US
            case Packet(port=port, data=data):
                self._name_port(port)
                self._now_us += _PACKET_US
                self.switch.set_clock_us(self._now_us)
                self._last = sent = self.switch.inject(port, data)
                for out, packet in sent:
                    self._sent.setdefault(out, []).append(packet)
            case Expect(port=port):
                self._name_port(port)
                self._expected[port].append(statement)
            case NoPacket():
                if self._last:
                    ports = sorted({port for port, _ in self._last})
                    raise StfError(f"no packet is expected, but some left by ports {ports}")
            case Add():
                self._add(statement)
            case SetDefault(table=name, action=call):
                table = find("table", name, self.switch.program.tables)
                action, params = action_of(self.switch.program, table, call)
                self.switch.table_set_default(table.name, action, params)
            case RemoveAll():
                self._remove_all()
            case CheckCounter():
                self._check_counter(statement)
            case Command():
                self.commands.run(statement)
        return sent

    def _name_port(self, port: int) -> None:
        self._sent.setdefault(port, [])
        self._expected.setdefault(port, [])

    def _add(self, statement: Add) -> None:
        program = self.switch.program
        table = find("table", statement.table, program.tables)
        key = key_of(table, statement.key)
        action, params = action_of(program, table, statement.action)
        priority = 0
        if table.uses_priority:
            # Tests count from 0, the switch from 1; in both the higher number wins.
            priority = (statement.priority or 0) + 1
        self.switch.table_add(table.name, TableEntry(key, priority, action, params))
        if statement.entry_id is not None:
            self._entries[statement.entry_id.lstrip("$")] = table.name, key, priority

    def _remove_all(self) -> None:
        for name, table in self.switch.program.tables.items():
            if not table.is_const:
                for entry in self.switch.table_entries(name):
                    self.switch.table_delete(name, entry.key, entry.priority)

    def _check_counter(self, check: CheckCounter) -> None:
        counter = find("counter", check.counter, self.switch.program.counter_arrays)
        if counter.is_direct:
            entry = self._entries.get(check.index.lstrip("$"))
            if entry is None or entry[0] != counter.table:
                raise StfError(f"{check.index!r} is no entry of table {counter.table!r}")
            packets, octets = self.switch.direct_counter_read(*entry)
        else:
            packets, octets = self.switch.counter_read(counter.name, to_int(check.index, 0))
        found = packets if check.unit == "packets" else octets
        if check.unit and not _COMPARE[check.comparison](found, check.value):
            raise StfError(
                f"counter {counter.name!r} has {found} {check.unit}, "
                f"not {check.comparison} {check.value}"
            )

    def _compare(self, port: int) -> list[str]:
        if port not in self._expected:
            return []
        sent, expected = self._sent[port], self._expected[port]
        problems = []
        for packet, expect in zip(sent, expected, strict=False):
            if problem := _difference(packet.hex(), expect):
                problems.append(f"line {expect.line}: port {port}: {problem}")
        if len(sent) != len(expected):
            problems.append(f"port {port}: {len(sent)} packets left, {len(expected)} are expected")
        return problems


def _difference(packet: str, expect: Expect) -> str:
    """Return in what a packet (as hexadecimal digits) is not what was expected."""
    pattern = expect.pattern
    where = next(
        (i for i, (a, b) in enumerate(zip(packet, pattern, strict=False)) if b not in (a, "*")),
        None,
    )
    if where is not None:
        return f"byte {where // 2} differs: {_short(pattern)} is expected, {_short(packet)} left"
    if len(packet) < len(pattern) or (expect.exact and len(packet) > len(pattern)):
        return f"{len(packet) // 2} bytes left, {len(pattern) // 2} are expected"
    return ""


def _short(digits: str) -> str:
    return digits if len(digits) <= _SHOWN_DIGITS else f"{digits[:_SHOWN_DIGITS]}…"
