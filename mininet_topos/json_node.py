"""Reading decoded JSON with errors that say where in it something is wrong."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from host_stack.errors import BadInput

_MAX_NAME = 60
_MAX_LABEL = 255  # of a file's name, at most
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ReportError(BadInput):
    """The record of a run is not what a report can be made of."""


class JsonNode:
    """A value of a JSON document and its path; every method raises `error` on a mismatch."""

    def __init__(self, path: str, value: object, error: type[BadInput] = ReportError) -> None:
        self.path = path
        self._value = value
        self._error = error

    def get(self, name: str) -> JsonNode:
        """Return the field `name`, which must be there."""
        node = self.optional(name)
        if node is None:
            raise self._error(f"{self.path}.{name} is missing")
        return node

    def optional(self, name: str) -> JsonNode | None:
        """Return the field `name`, or None where it is absent or null."""
        value = self._mapping().get(name)
        return None if value is None else self._child(f".{name}", value)

    def fields(self) -> dict[str, JsonNode]:
        """Return the fields of an object, whose names must be short and printable."""
        found: dict[str, JsonNode] = {}
        for name, value in self._mapping().items():
            if not isinstance(name, str) or not name.isprintable() or len(name) > _MAX_NAME:
                raise self.mismatch(f"field names of up to {_MAX_NAME} printable characters")
            found[name] = self._child(f".{name}", value)
        return found

    def only(self, allowed: str) -> None:
        """Refuse fields of an object but those of `allowed`: nobody reads them, they are misspelt.

        `allowed` holds names with spaces between.
        """
        names = allowed.split()
        unknown = [name for name in self.fields() if name not in names]
        if unknown:
            raise self._error(f"{self.path}.{unknown[0]} is unknown; known are {', '.join(names)}")

    def elements(self) -> list[JsonNode]:
        """Return the elements of a list."""
        if not isinstance(self._value, Sequence) or isinstance(self._value, str | bytes):
            raise self.mismatch("a list")
        return [self._child(f"[{i}]", value) for i, value in enumerate(self._value)]

    def is_text(self) -> bool:
        """Whether the value is a text, where something else may stand in its place."""
        return isinstance(self._value, str)

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self._value, str):
            raise self.mismatch("a text")
        return self._value

    def label(self) -> str:
        """Return a text that names something for people: one line that can be printed anywhere."""
        text = self.text()
        if not text or not text.isprintable() or len(text) > _MAX_LABEL:
            raise self.mismatch(f"a text of 1 to {_MAX_LABEL} printable characters")
        return text

    def sha256(self) -> str:
        """Return a SHA-256 in hexadecimal."""
        if not isinstance(self._value, str) or not _SHA256.fullmatch(self._value):
            raise self.mismatch("a SHA-256 of 64 lower-case hexadecimal digits")
        return self._value

    def boolean(self) -> bool:
        """Return true or false."""
        if not isinstance(self._value, bool):
            raise self.mismatch("true or false")
        return self._value

    def integer(self, low: int = 0, bits: int = 64) -> int:
        """Return an integer of at least `low`, of no more than so many bits."""
        if not isinstance(self._value, int) or isinstance(self._value, bool) or self._value < low:
            raise self.mismatch(f"an integer of at least {low}")
        if self._value >= 1 << bits:
            raise self.mismatch(f"an integer up to {(1 << bits) - 1}")
        return self._value

    def number(self, high: float = math.inf) -> float:
        """Return a finite number from 0 to `high`."""
        value = self._value
        needed = "a finite number from 0" + ("" if math.isinf(high) else f" to {high:g}")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.mismatch(needed)
        # An integer may be larger than any float, and is compared as what it is.
        if not 0 <= value <= min(high, sys.float_info.max):
            raise self.mismatch(needed)
        return float(value)

    def numbers(self) -> list[float]:
        """Return a list of finite numbers from 0."""
        return [element.number() for element in self.elements()]

    def mismatch(self, needed: str) -> BadInput:
        """Return the error for a value that is not what is needed."""
        shown = repr(self._value)
        shown = shown if len(shown) <= _MAX_NAME else shown[: _MAX_NAME - 1] + "…"
        return self._error(f"{self.path} is {shown}; need {needed}")

    def _child(self, step: str, value: object) -> JsonNode:
        return JsonNode(self.path + step, value, self._error)

    def _mapping(self) -> Mapping[Any, Any]:
        if not isinstance(self._value, Mapping):
            raise self.mismatch("an object")
        return self._value
