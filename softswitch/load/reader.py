"""Typed access to untrusted JSON, with the path of what was wrong in every error."""

from __future__ import annotations

from typing import Any, TypeVar

from softswitch.errors import BadProgram

T = TypeVar("T")


class Reader:
    """A JSON object and its path in the file."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise BadProgram(f"{path} must be a JSON object, not {type(value).__name__}")
        self.data: dict[str, Any] = value
        self.path = path

    def _get(self, key: str, kind: type[T]) -> T:
        if key not in self.data:
            raise BadProgram(f"{self.path} has no attribute {key!r}")
        value = self.data[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BadProgram(
                f"{self.path}.{key} must be of type {kind.__name__}, not {type(value).__name__}"
            )
        return value

    def has(self, key: str) -> bool:
        """Return True when the attribute is there and not null."""
        return self.data.get(key) is not None

    def text(self, key: str) -> str:
        """Return a string attribute."""
        return self._get(key, str)

    def text_or_none(self, key: str) -> str | None:
        """Return a string attribute, or None when it is null or missing."""
        return self._get(key, str) if self.has(key) else None

    def integer(self, key: str, low: int = 0, high: int = 2**63) -> int:
        """Return an integer attribute within [low, high]."""
        value = self._get(key, int)
        if not low <= value <= high:
            raise BadProgram(f"{self.path}.{key} is {value}, allowed is {low} to {high}")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a boolean attribute."""
        if default is not None and not self.has(key):
            return default
        return self._get(key, bool)

    def array(self, key: str, *, optional: bool = False) -> list[Any]:
        """Return an array attribute ([] when it is missing and optional)."""
        if optional and not self.has(key):
            return []
        return self._get(key, list)

    def integers(self, key: str) -> list[int]:
        """Return an array of integers."""
        values = self.array(key)
        if not all(type(value) is int for value in values):
            raise BadProgram(f"{self.path}.{key} must be an array of integers")
        return values

    def objects(self, key: str, *, optional: bool = False) -> list[Reader]:
        """Return an array of objects."""
        return [
            Reader(item, f"{self.path}.{key}[{i}]")
            for i, item in enumerate(self.array(key, optional=optional))
        ]

    def child(self, key: str) -> Reader:
        """Return an object attribute."""
        return Reader(self._get(key, dict), f"{self.path}.{key}")

    def pair(self, key: str) -> tuple[str, str]:
        """Return an attribute that is an array of two strings."""
        return text_pair(self._get(key, list), f"{self.path}.{key}")


def text_pair(value: Any, path: str) -> tuple[str, str]:
    """Check that `value` is an array of two strings."""
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(v, str) for v in value):
        raise BadProgram(f"{path} must be an array of two strings")
    return value[0], value[1]


def hex_value(value: Any, path: str) -> int:
    """Return the number in a hexstr, which may have a minus sign and a 0x prefix."""
    if not isinstance(value, str) or len(value) > 4096:
        raise BadProgram(f"{path} must be a hexadecimal string")
    try:
        return int(value, 16)
    except ValueError:
        raise BadProgram(f"{path}: {value!r} is not a hexadecimal string") from None
