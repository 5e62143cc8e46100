"""What the groups of commands have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from softswitch.stf.grammar import StfError, to_int

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A command: its function takes `least` to `most` words."""

    run: Callable[..., object]
    least: int
    most: int
    usage: str


def known(kind: str, objects: Mapping[int, T], word: str) -> T:
    """Return the object with a number. Raises StfError."""
    if number(word) not in objects:
        raise StfError(f"there is no {kind} {word}")
    return objects[number(word)]


def number(word: str) -> int:
    """Return the value of a word. Raises StfError."""
    return to_int(word, 0)
