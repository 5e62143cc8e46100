"""What copies keep in fields of their own: a *column* has one field, or header, per copy.

Where a column lives depends on who else mentions its fields: in a vector variable if nobody does,
in an array if other parts of the same piece do. Fields of a header that is a view lie in the packet
at a constant distance, members of a header stack one behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


class NotAlike(Exception):
    """Copies differ in more than fields, constants, tables and registers, or depend on another."""


@dataclass(frozen=True)
class Series:
    """A longer list of things of which columns are parts: `part` begins at `first` of `whole`."""

    number: int
    first: int


class SeriesTable:
    """Lists that columns are parts of, so that a place in the list follows from the copy."""

    def __init__(self) -> None:
        self.all: list[list[object]] = []
        self._places: dict[object, Series] = {}

    def add(self, column: Sequence[object]) -> None:
        """Make a column part of a list, a new one if need be; NotAlike if it fits in none."""
        known = self._places.get(column[0])
        if known is None:
            if any(item in self._places for item in column):
                raise NotAlike
            for i, item in enumerate(column):
                self._places[item] = Series(len(self.all), i)
            self.all.append(list(column))
        elif self.all[known.number][known.first :][: len(column)] != list(column):
            raise NotAlike

    def place(self, item: object) -> Series | None:
        """Return the list that an item is in, and where."""
        return self._places.get(item)

    def beside(self, item: object) -> tuple[int, int]:
        """Return the place of an item in its list, and how many are in it: by itself, 0 of 1."""
        place = self._places.get(item)
        return (0, 1) if place is None else (place.first, len(self.all[place.number]))

    def merge(self, other: SeriesTable) -> None:
        """Add the lists of another table; NotAlike, with nothing added, if one does not fit."""
        trial = self.copy()
        for column in other.all:
            trial.add(column)
        self.all, self._places = trial.all, trial._places

    def copy(self) -> SeriesTable:
        """Return a table with the same lists."""
        result = SeriesTable()
        for column in self.all:
            result.add(column)
        return result


def step_of(values: Sequence[int]) -> int:
    """Return the constant difference of neighbours; NotAlike if there is none."""
    step = values[1] - values[0]
    if any(b - a != step for a, b in pairwise(values)):
        raise NotAlike
    return step
