"""The click log of Criteo's display advertising challenge (2014), in its published format.

A line has 40 columns, separated by tabs: the label, 0 or 1, 13 integers and 26 categorical values,
each 8 hexadecimal digits. Integers and values may be missing, that is, empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from workloads import store
from workloads.columns import MAX_DIGITS, Columns, integers, split
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array
from workloads.fields import field_starts, number_names, value_names
from workloads.lines import identity, line_blocks, quote

INTEGERS = 13
VALUES = 26
COLUMNS = 1 + INTEGERS + VALUES
FIELDS = 1 + VALUES
"""The integers are one field together, each a feature of its own."""

_WHAT = "Criteo file"
_TAB = 9
_TITLES = [f"C{number}" for number in range(1, VALUES + 1)]
_HEX = np.isin(np.arange(256), list(b"0123456789abcdef"))


def load(path: Path, bits: int) -> tuple[Examples, Int64Array]:
    """All examples of the file at `path`, in their order, and where the features of fields start.

    Field 0 has a feature for each integer x, of value sign(x) · ln(1 + |x|); fields 1 to 26 have
    one for each value, of value 1. What is missing, and a 0, has no pair. `bits` is the number of
    bits that values are hashed to, 0 for all of them kept apart.

    The result is kept by path, size, time of change and `bits`, and mapped. Raises `WorkloadError`,
    which names the line, for a malformed file, and for one that cannot be read or has no example.
    """
    name = f"criteo-{identity(path, _WHAT)}-{bits}"
    examples, names = store.load(name) or store.store(name, blocks(path, bits))
    return examples, field_starts(names, FIELDS)


def blocks(path: Path, bits: int) -> Iterator[store.Block]:
    """Read `path` as `load` does, some lines at a time."""
    empty = True
    for first_line, text in line_blocks(path, _WHAT):
        columns = split(text.replace(b"\r\n", b"\n"), _TAB, COLUMNS)
        block = None if columns is None else _convert(columns, bits)
        if block is None:
            _explain(path, text, first_line)
        yield block
        empty = False
    if empty:
        raise WorkloadError(f"{_WHAT} {path} holds no example")


def _convert(columns: Columns, bits: int) -> store.Block | None:
    """Convert a block of lines; None if one is malformed."""
    labels = columns.data[columns.starts[:, 0]] - ord("0")
    numbers = integers(columns.select(1, 1 + INTEGERS))
    values = columns.select(1 + INTEGERS, COLUMNS)
    sound = (columns.lengths[:, 0] == 1) & (labels <= 1)
    if numbers is None or not (sound.all() and _are_values(values)):
        return None
    rows = len(labels)
    names = np.empty((rows, INTEGERS + VALUES), dtype=np.uint64)
    names[:, :INTEGERS] = number_names(0, INTEGERS)
    names[:, INTEGERS:] = value_names(values, _TITLES, 1, bits)
    weights = np.ones(names.shape, dtype=np.float32)
    weights[:, :INTEGERS] = _squeeze(numbers)
    weights[:, INTEGERS:] = values.lengths > 0
    there = weights != 0
    return store.Block(there.sum(axis=1), names[there], weights[there], labels.astype(np.float32))


def _are_values(values: Columns) -> bool:
    return bool(np.isin(values.lengths, (0, 8)).all()) and values.inside(_HEX)


def _squeeze(numbers: Int64Array) -> Float32Array:
    """Sign(x) · ln(1 + |x|), for counts whose range is of many orders of magnitude."""
    squeezed = np.sign(numbers) * np.log1p(np.abs(numbers.astype(np.float64)))
    return squeezed.astype(np.float32)


def _explain(path: Path, text: bytes, first_line: int) -> NoReturn:
    """Raise the `WorkloadError` that names the first malformed line."""
    for number, line in enumerate(text.split(b"\n")[:-1], first_line):
        problem = _problem(line.removesuffix(b"\r").split(b"\t"))
        if problem is not None:
            raise WorkloadError(f"{path}, line {number}: {problem}")
    raise WorkloadError(f"{path}, line {first_line} or after: not in Criteo's format")


def _problem(tokens: list[bytes]) -> str | None:
    if len(tokens) != COLUMNS:
        return (
            f"{len(tokens)} columns; need {COLUMNS}, separated by tabs: the label, {INTEGERS} "
            f"integers, {VALUES} categorical values"
        )
    if tokens[0] not in {b"0", b"1"}:
        return f"label {quote(tokens[0])}; allowed: 0 and 1"
    for number, token in enumerate(tokens[1:], 1):
        if number > INTEGERS:
            if token and not (len(token) == 8 and _HEX[list(token)].all()):
                title = _TITLES[number - INTEGERS - 1]
                return f"{title} is {quote(token)}; need 8 hexadecimal digits, or nothing"
        elif token and not (
            token.removeprefix(b"-").isdigit() and len(token.removeprefix(b"-")) <= MAX_DIGITS
        ):
            return f"I{number} is {quote(token)}; need an integer of up to {MAX_DIGITS} digits"
    return None
