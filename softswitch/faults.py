"""Faults of links: what a port's link does to packets, as data, text and JSON.

`LinkFaults` says what happens to the packets of one port and direction; the engine
(runtime/faults.h) carries it out. Texts such as `loss=0.05,delay=5ms,seed=7` come from command
lines, objects with the same words from files and from the control socket.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from softswitch.errors import InvalidArgument
from softswitch.ports import MAX_PORT

FILE_SCHEMA = 1
MAX_FILE_BYTES = 1 << 20
MAX_TIME_S = 60.0
MAX_DEPTH = 64
MAX_RATE_BPS = 10**12
MAX_QUEUE_BYTES = 1 << 30
DEFAULT_QUEUE_BYTES = 256_000


class Direction(StrEnum):
    """Seen from the switch: rx are packets that come to a port, tx those that leave by it."""

    RX = "rx"
    TX = "tx"


def _chance(word: str) -> Any:
    return field(default=0.0, metadata={"word": word, "read": _read_chance, "write": repr})


def _time(word: str, default: float = 0.0) -> Any:
    return field(default=default, metadata={"word": word, "read": _read_time, "write": _show_time})


def _whole(word: str, default: int, units: Mapping[str, int] | None = None) -> Any:
    def read(key: str, value: object) -> int:
        return _read_whole(key, value, units or {})

    return field(default=default, metadata={"word": word, "read": read, "write": str})


def _flag(word: str) -> Any:
    def show(value: bool) -> str:
        return str(value).lower()

    return field(default=False, metadata={"word": word, "read": _read_flag, "write": show})


def _read_chance(key: str, value: object) -> float:
    if isinstance(value, str) and value.isascii() and "_" not in value:
        try:
            return float(value)
        except ValueError:
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise InvalidArgument(f"{key}={value!r}: write a probability, 0 to 1")


_TIME_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_NUMBER = re.compile(r"(\d{1,20}(?:\.\d{1,9})?)([a-z]*)", re.ASCII)


def _read_time(key: str, value: object) -> float:
    match = _NUMBER.fullmatch(value.lower()) if isinstance(value, str) else None
    if match is None or match[2] not in _TIME_UNITS:
        raise InvalidArgument(f"{key}={value!r}: write a time with its unit (ns, us, ms, s): 5ms")
    return float(match[1]) * _TIME_UNITS[match[2]] / 1e9


def _show_time(seconds: float) -> str:
    return f"{round(seconds * 1e9)}ns"


def _read_whole(key: str, value: object, units: Mapping[str, int]) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _NUMBER.fullmatch(value.lower()) if isinstance(value, str) else None
    if match is not None and (match[2] == "" or match[2] in units):
        number = Fraction(match[1]) * units.get(match[2], 1)
        if number.denominator == 1:
            return int(number)
    allowed = f", or with a unit ({', '.join(units)})" if units else ""
    raise InvalidArgument(f"{key}={value!r}: write a whole number{allowed}")


def _read_flag(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise InvalidArgument(f"{key}={value!r}: write true or false")


_RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_SIZE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6}


@dataclass(frozen=True)
class LinkFaults:
    """What a link does to the packets of one direction. Raises InvalidArgument.

    The fate of a packet is a function of `seed`, port, direction and its number k (from 0, in the
    order in which packets are offered to the link since the faults were set), never of time.

    In this order: a link that is `down` loses every packet. `loss` and `duplicate` are
    probabilities. With probability `reorder` a packet is held back until 1 to `reorder_depth`
    further ones were offered, at most `hold_s`. Then packets pass one after the other at `rate_bps`
    (0: no limit; bits of the frame without preamble and check sequence), waiting in a queue of
    `queue_bytes`, and finally take `delay_s`, give or take up to `jitter_s` (uniform), and
    `spike_delay_s` more with probability `spike`. But for `reorder` they keep their order.
    """

    loss: float = _chance("loss")
    duplicate: float = _chance("dup")
    reorder: float = _chance("reorder")
    reorder_depth: int = _whole("depth", 4)
    hold_s: float = _time("hold", 0.02)
    delay_s: float = _time("delay")
    jitter_s: float = _time("jitter")
    spike: float = _chance("spike")
    spike_delay_s: float = _time("spike_delay")
    rate_bps: int = _whole("rate", 0, _RATE_UNITS)
    queue_bytes: int = _whole("queue", DEFAULT_QUEUE_BYTES, _SIZE_UNITS)
    seed: int = _whole("seed", 0)
    down: bool = _flag("down")

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "reorder", "spike"):
            _check(name, getattr(self, name), 0.0, 1.0)
        for name in ("hold_s", "delay_s", "jitter_s", "spike_delay_s"):
            _check(name, getattr(self, name), 0.0, MAX_TIME_S)
        for name, low, high in (
            ("reorder_depth", 1, MAX_DEPTH),
            ("rate_bps", 0, MAX_RATE_BPS),
            ("queue_bytes", 1, MAX_QUEUE_BYTES),
            ("seed", 0, 2**64 - 1),
        ):
            if type(getattr(self, name)) is not int:
                raise InvalidArgument(f"{name} is {getattr(self, name)!r}, not a whole number")
            _check(name, getattr(self, name), low, high)
        if type(self.down) is not bool:
            raise InvalidArgument(f"down is {self.down!r}, not true or false")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `word=value,…`; `down` may stand alone. Raises InvalidArgument."""
        words: dict[str, object] = {}
        for item in text.split(","):
            word, equals, value = (part.strip() for part in item.partition("="))
            if word in words:
                raise InvalidArgument(f"faults {text!r}: {word} is given twice")
            words[word] = value if equals or word != "down" else True
        return cls.from_words(words)

    @classmethod
    def from_words(cls, words: Mapping[str, object]) -> Self:
        """Make faults of the words of `parse` as an object of JSON. Raises InvalidArgument."""
        known = {f.metadata["word"]: f for f in fields(cls)}
        values = {}
        for word, value in words.items():
            if word not in known:
                raise InvalidArgument(f"no fault {word!r}; there are {', '.join(known)}")
            values[known[word].name] = known[word].metadata["read"](word, value)
        return cls(**values)

    def words(self) -> dict[str, str]:
        """Return the words that `from_words` reads: what differs from the defaults."""
        return {
            f.metadata["word"]: f.metadata["write"](getattr(self, f.name))
            for f in fields(self)
            if getattr(self, f.name) != f.default
        }

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return ",".join(f"{word}={value}" for word, value in self.words().items()) or "loss=0"


def _check(name: str, value: float, low: float, high: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not low <= value <= high:
        raise InvalidArgument(f"{name} is {value!r}, allowed is {low:g} to {high:g}")


@dataclass(frozen=True)
class FaultRule:
    """Faults of some directions of a port, or of `port` None, all ports."""

    port: int | None
    directions: tuple[Direction, ...]
    faults: LinkFaults

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `PORT:DIRECTION:FAULTS`: PORT a number or `all`, DIRECTION rx, tx or both.

        Raises InvalidArgument.
        """
        parts = text.split(":")
        if len(parts) != 3:
            raise InvalidArgument(
                f"fault {text!r}: write PORT:DIRECTION:FAULTS, for example 1:tx:loss=0.05,seed=7"
            )
        port, direction, faults = parts
        return cls(read_port(port), read_directions(direction), LinkFaults.parse(faults))

    @classmethod
    def from_json(cls, item: object) -> Self:
        """Read an object with `port`, `direction` and the words of `LinkFaults.parse`."""
        if not isinstance(item, dict) or not {"port", "direction"} <= item.keys():
            raise InvalidArgument(f"fault {item!r}: an object with port and direction is needed")
        words = {key: value for key, value in item.items() if key not in ("port", "direction")}
        return cls(
            read_port(item["port"]),
            read_directions(item["direction"]),
            LinkFaults.from_words(words),
        )

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        port = "all" if self.port is None else self.port
        direction = "both" if len(self.directions) == 2 else self.directions[0]
        return f"{port}:{direction}:{self.faults}"


def read_port(value: object) -> int | None:
    """Read a port: its number, as int or text, or `all` (None). Raises InvalidArgument."""
    if value == "all":
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,3}", value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_PORT:
        return value
    raise InvalidArgument(f"port {value!r}, allowed is 0 to {MAX_PORT}, or all")


def read_directions(value: object) -> tuple[Direction, ...]:
    """Read rx, tx or both. Raises InvalidArgument."""
    if value == "both":
        return (Direction.RX, Direction.TX)
    if isinstance(value, str) and value in set(Direction):
        return (Direction(value),)
    raise InvalidArgument(f"direction {value!r}, allowed are rx, tx and both")


def read_fault_file(path: Path) -> list[FaultRule]:
    """Read `{"schema": 1, "faults": [{"port": 1, "direction": "tx", "loss": 0.05}, …]}`.

    Raises InvalidArgument.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise InvalidArgument(f"{path} is longer than {MAX_FILE_BYTES} bytes")
        content = json.loads(raw)
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("schema") != FILE_SCHEMA:
        raise InvalidArgument(f'{path}: an object with "schema": {FILE_SCHEMA} is needed')
    if content.keys() != {"schema", "faults"} or not isinstance(content["faults"], list):
        raise InvalidArgument(f'{path}: beside "schema" a list "faults" is needed, and no more')
    return [_located(path, FaultRule.from_json, item) for item in content["faults"]]


def _located(path: Path, read: Callable[[object], FaultRule], item: object) -> FaultRule:
    try:
        return read(item)
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from None


def expand(
    rules: Iterable[FaultRule], ports: Iterable[int]
) -> dict[tuple[int, Direction], LinkFaults]:
    """Return the faults of each port and direction; later rules replace earlier ones.

    Raises InvalidArgument for a port that is not one of `ports`.
    """
    known = sorted(ports)
    result: dict[tuple[int, Direction], LinkFaults] = {}
    for rule in rules:
        if rule.port is not None and rule.port not in known:
            have = ", ".join(map(str, known)) or "none"
            raise InvalidArgument(f"fault {rule}: no port {rule.port}; ports are {have}")
        for port in known if rule.port is None else (rule.port,):
            for direction in rule.directions:
                result[port, direction] = rule.faults
    return result
