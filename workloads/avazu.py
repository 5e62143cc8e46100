"""The click log of Avazu's click-through rate challenge (2014), in its published format.

A CSV file without quotes, with a header; columns `id`, `click` (the label, 0 or 1), `hour`
(YYMMDDHH), and 21 categorical ones. Lines are in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from workloads import store
from workloads.columns import Columns, split
from workloads.errors import WorkloadError
from workloads.examples import Examples, Int64Array
from workloads.fields import field_starts, value_names
from workloads.lines import identity, line_blocks, quote

HEADER = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,"
    "device_id,device_ip,device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21"
)
TITLES = HEADER.split(",")
COLUMNS = len(TITLES)
FIELDS = COLUMNS - 2
MAX_BYTES = 64
"""Of a value."""

_WHAT = "Avazu file"
_COMMA = 44
_HOUR = 2
_HOUR_BYTES = 8
_DIGIT = np.isin(np.arange(256), list(b"0123456789"))
_PRINTABLE = np.isin(np.arange(256), [byte for byte in range(33, 127) if byte != ord('"')])


def load(path: Path, bits: int) -> tuple[Examples, Int64Array]:
    """All examples of the file at `path`, in their order, and where the features of fields start.

    Fields are the columns from `hour` on; of this the hour of the day is taken, for days do not
    come again. A value is a feature of value 1; one that is missing (empty) has none. `bits` is the
    number of bits that values are hashed to, 0 for all of them kept apart.

    The result is kept by path, size, time of change and `bits`, and mapped. Raises `WorkloadError`,
    which names the line, for a malformed file, and for one that cannot be read or has no example.
    """
    name = f"avazu-{identity(path, _WHAT)}-{bits}"
    examples, names = store.load(name) or store.store(name, blocks(path, bits))
    return examples, field_starts(names, FIELDS)


def blocks(path: Path, bits: int) -> Iterator[store.Block]:
    """Read `path` as `load` does, some lines at a time."""
    empty = True
    for first_line, whole in line_blocks(path, _WHAT):
        text = whole.replace(b"\r\n", b"\n")
        if first_line == 1:
            head, _, text = text.partition(b"\n")
            if head != HEADER.encode():
                raise WorkloadError(f"{path}, line 1: the header must be {HEADER}")
        if not text:
            continue
        columns = split(text, _COMMA, COLUMNS)
        block = None if columns is None else _convert(columns, bits)
        if block is None:
            _explain(path, text, max(2, first_line))
        yield block
        empty = False
    if empty:
        raise WorkloadError(f"{_WHAT} {path} holds no example")


def _convert(columns: Columns, bits: int) -> store.Block | None:
    """Convert a block of lines; None if one is malformed."""
    labels = columns.data[columns.starts[:, 1]] - ord("0")
    hours = columns.select(_HOUR, _HOUR + 1)
    values = columns.select(_HOUR, COLUMNS)
    sound = (columns.lengths[:, 1] == 1) & (labels <= 1) & (hours.lengths[:, 0] == _HOUR_BYTES)
    if not (sound.all() and hours.inside(_DIGIT) and values.inside(_PRINTABLE)):
        return None
    if values.lengths.max(initial=0) > MAX_BYTES:
        return None
    starts, lengths = values.starts.copy(), values.lengths.copy()
    starts[:, 0] += _HOUR_BYTES - 2
    lengths[:, 0] = 2
    names = value_names(Columns(columns.data, starts, lengths), TITLES[_HOUR:], 0, bits)
    there = lengths > 0
    found = names[there]
    ones = np.ones(len(found), dtype=np.float32)
    return store.Block(there.sum(axis=1), found, ones, labels.astype(np.float32))


def _explain(path: Path, text: bytes, first_line: int) -> NoReturn:
    """Raise the `WorkloadError` that names the first malformed line."""
    for number, line in enumerate(text.split(b"\n")[:-1], first_line):
        problem = _problem(line.split(b","))
        if problem is not None:
            raise WorkloadError(f"{path}, line {number}: {problem}")
    raise WorkloadError(f"{path}, line {first_line} or after: not in Avazu's format")


def _problem(tokens: list[bytes]) -> str | None:
    if len(tokens) != COLUMNS:
        return f"{len(tokens)} columns; need {COLUMNS}, separated by commas, as in the header"
    if tokens[1] not in {b"0", b"1"}:
        return f"click is {quote(tokens[1])}; allowed: 0 and 1"
    if not (tokens[_HOUR].isdigit() and len(tokens[_HOUR]) == _HOUR_BYTES):
        return f"hour is {quote(tokens[_HOUR])}; need {_HOUR_BYTES} digits, YYMMDDHH"
    for title, token in zip(TITLES[_HOUR:], tokens[_HOUR:], strict=True):
        if len(token) > MAX_BYTES or not _PRINTABLE[list(token)].all():
            return (
                f"{title} is {quote(token)}; need up to {MAX_BYTES} printable characters without "
                "spaces and quotes, or nothing"
            )
    return None
