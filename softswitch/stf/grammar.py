"""The STF language: text to statements.

One statement a line, `#` starts a comment. An entry may go on in the next lines.

    add TABLE [PRIORITY] KEY:VALUE… ACTION(PARAM:VALUE, …) [= ID]
    setdefault TABLE ACTION(PARAM:VALUE, …)
    remove all
    packet PORT HEX…
    expect PORT [HEX… [$]]          a digit * matches any; without $ the packet may be longer
    no_packet                       the packet before sent nothing
    check_counter NAME(INDEX) [packets|bytes OP NUMBER]
    wait

All other statements are commands of bmv2's command line (see `softswitch.stf.commands`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from softswitch.errors import SoftSwitchError

_COMMAND = re.compile(
    r"(mirroring|mc|counter|register|meter|act_prof|table_indirect|pvs)_[a-z_]+", re.ASCII
)
_STATEMENTS = frozenset(
    {"add", "setdefault", "remove", "packet", "expect", "no_packet", "check_counter", "wait"}
)
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>0[xX][0-9a-fA-F*]+|0[bB][01*]+|0[oO][0-7*]+|[0-9]+|\*)
      | "(?P<quoted>[^"]+)"
      | (?P<name>[A-Za-z_$][\w$]*)
      | (?P<mark>&&&|\.\.|->|==|!=|<=|>=|[][:,.()/=<>])
    )""",
    re.VERBOSE,
)
COMPARISONS = ("==", "!=", "<=", "<", ">=", ">")


class StfError(SoftSwitchError):
    """A statement of a test is wrong, or names what the program does not have."""


@dataclass(frozen=True)
class Statement:
    """Base of all statements; `line` counts from 1."""

    line: int


@dataclass(frozen=True)
class MatchField:
    """KEY:VALUE of an entry. `joint` is one of / && .. when there are two numbers, else empty."""

    name: str
    value: str
    joint: str = ""
    second: str = ""


@dataclass(frozen=True)
class ActionCall:
    """An action and its parameters by name."""

    name: str
    args: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Add(Statement):
    """Add an entry to a table; `entry_id` names it for check_counter."""

    table: str
    priority: int | None
    key: tuple[MatchField, ...]
    action: ActionCall
    entry_id: str | None


@dataclass(frozen=True)
class SetDefault(Statement):
    """Set the default action of a table."""

    table: str
    action: ActionCall


@dataclass(frozen=True)
class RemoveAll(Statement):
    """Remove all entries of all tables."""


@dataclass(frozen=True)
class Packet(Statement):
    """A packet that arrives at a port."""

    port: int
    data: bytes


@dataclass(frozen=True)
class Expect(Statement):
    """A packet that has to leave by a port; `pattern` is in hexadecimal digits and *."""

    port: int
    pattern: str
    exact: bool


@dataclass(frozen=True)
class NoPacket(Statement):
    """The packet before must not have sent anything."""


@dataclass(frozen=True)
class Wait(Statement):
    """Let time pass."""


@dataclass(frozen=True)
class CheckCounter(Statement):
    """Compare a counter; `unit` is packets or bytes, None only asks for its existence."""

    counter: str
    index: str
    unit: str | None
    comparison: str
    value: int


@dataclass(frozen=True)
class Command(Statement):
    """A command of bmv2's command line."""

    name: str
    args: tuple[str, ...]


def parse(text: str) -> list[Statement]:
    """Return the statements of a test. Raises StfError with the line."""
    return [_statement(line, words) for line, words in _lines(text)]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of each statement, continuation lines joined."""
    pending: tuple[int, str] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        first = line.split()[0].lower()
        if first in _STATEMENTS or _COMMAND.fullmatch(first):
            if pending:
                yield pending
            pending = number, line
        elif pending and pending[1].split()[0].lower() in ("add", "setdefault"):
            pending = pending[0], f"{pending[1]} {line}"
        else:
            raise StfError(f"line {number}: {line.split()[0]!r} is no statement of STF")
    if pending:
        yield pending


def _statement(line: int, text: str) -> Statement:
    keyword, rest = [*text.split(None, 1), ""][:2]
    keyword = keyword.lower()
    match keyword:
        case "packet":
            port, digits = _port_and_data(line, rest)
            if not re.fullmatch(r"[0-9a-fA-F]*", digits) or len(digits) % 2 or not digits:
                raise StfError(f"line {line}: a packet is an even number of hexadecimal digits")
            return Packet(line, port, bytes.fromhex(digits))
        case "expect":
            port, digits = _port_and_data(line, rest)
            pattern = digits.removesuffix("$").lower()
            if not re.fullmatch(r"[0-9a-f*]*", pattern):
                raise StfError(f"line {line}: expected are hexadecimal digits, * and a final $")
            return Expect(line, port, pattern, digits.endswith("$"))
        case "no_packet":
            return NoPacket(line)
        case "wait":
            return Wait(line)
        case "add" | "setdefault" | "remove" | "check_counter":
            return getattr(_Tokens(line, rest), keyword)()  # type: ignore[no-any-return]
    return Command(line, keyword, tuple(rest.split()))


def _port_and_data(line: int, rest: str) -> tuple[int, str]:
    port, data = [*rest.split(None, 1), "", ""][:2]
    if not (port.isascii() and port.isdigit()) or len(port) > 9:
        raise StfError(f"line {line}: {port!r} is no port number")
    return int(port), "".join(data.split())


class _Tokens:
    """Reads the statements that are more than words, token by token."""

    def __init__(self, line: int, text: str) -> None:
        self.line = line
        self.tokens: list[tuple[str, str]] = []
        position, text = 0, text.strip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise StfError(f"line {line}: cannot read {text[position : position + 20]!r}")
            kind = "name" if found.lastgroup == "quoted" else found.lastgroup
            self.tokens.append((kind, found[found.lastgroup]))
            position = found.end()
        self.position = 0

    def add(self) -> Add:
        table = self._qualified()
        priority = None
        if self._peek()[0] == "number":
            priority = to_int(self._number(), self.line)
        key: list[MatchField] = []
        name = self._qualified()
        while self._take(":"):
            key.append(self._match(name))
            name = self._qualified()
        action = self._call(name)
        entry_id = self._name() if self._take("=") else None
        self._end()
        return Add(self.line, table, priority, tuple(key), action, entry_id)

    def setdefault(self) -> SetDefault:
        table = self._qualified()
        action = self._call(self._qualified())
        self._end()
        return SetDefault(self.line, table, action)

    def remove(self) -> RemoveAll:
        if self._name().lower() != "all":
            raise self._wrong("'all'")
        self._end()
        return RemoveAll(self.line)

    def check_counter(self) -> CheckCounter:
        name = self._qualified()
        self._need("(")
        index = self._next()[1]
        self._need(")")
        if self._peek()[0] == "end":
            return CheckCounter(self.line, name, index, None, "==", 0)
        unit = self._name().lower()
        comparison = self._next()[1]
        if unit not in ("packets", "bytes") or comparison not in COMPARISONS:
            raise self._wrong("packets or bytes, a comparison and a number")
        value = to_int(self._number(), self.line)
        self._end()
        return CheckCounter(self.line, name, index, unit, comparison, value)

    def _match(self, name: str) -> MatchField:
        value = self._number()
        for joint, marks in (("/", ("/",)), ("&&&", ("&&&",)), ("..", ("..", "->"))):
            if any(self._take(mark) for mark in marks):
                return MatchField(name, value, joint, self._number())
        return MatchField(name, value)

    def _call(self, name: str) -> ActionCall:
        args: list[tuple[str, str]] = []
        self._need("(")
        while not self._take(")"):
            if args:
                self._need(",")
            arg = self._name()
            self._need(":")
            args.append((arg, self._number()))
        return ActionCall(name, tuple(args))

    def _qualified(self) -> str:
        name = self._name()
        while True:
            if self._take("["):
                name += f"[{self._number()}]"
                self._need("]")
            elif self._take("."):
                name += f".{self._name()}"
            else:
                return name

    def _peek(self) -> tuple[str, str]:
        if self.position < len(self.tokens):
            return self.tokens[self.position]
        return "end", "the end of the line"

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self.position += 1
        return token

    def _take(self, mark: str) -> bool:
        if self._peek() == ("mark", mark):
            self.position += 1
            return True
        return False

    def _need(self, mark: str) -> None:
        if not self._take(mark):
            raise self._wrong(repr(mark))

    def _name(self) -> str:
        kind, text = self._peek()
        if kind != "name":
            raise self._wrong("a name")
        self.position += 1
        return text

    def _number(self) -> str:
        kind, text = self._peek()
        if kind != "number":
            raise self._wrong("a number")
        self.position += 1
        return text

    def _end(self) -> None:
        if self._peek()[0] != "end":
            raise self._wrong("the end of the statement")

    def _wrong(self, wanted: str) -> StfError:
        return StfError(f"line {self.line}: {wanted} is expected, not {self._peek()[1]!r}")


def to_int(text: str, line: int) -> int:
    """Return the value of a number without don't-care digits."""
    try:
        return int(text, 0) if text[:1] == "0" and text[1:2].isalpha() else int(text)
    except ValueError:
        raise StfError(f"line {line}: {text!r} is no number") from None
