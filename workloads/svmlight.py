"""Reader of svmlight (libsvm) files: `label id:value id:value … # comment`, one example a line.

A file is read in blocks of lines, each converted as a whole. Only when a block turns out to be
malformed is it gone through line by line, to name the line and what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from workloads import store
from workloads.errors import WorkloadError
from workloads.examples import Examples, Float32Array, Int64Array
from workloads.lines import identity, line_blocks, quote

_WHAT = "svmlight file"
MAX_ID = 2**63 - 1
"""The largest feature id of a file."""

_PLAIN = b"0123456789+-.eE: \t\r\n\f\v"
_LABELS = {-1.0: "-1", 0.0: "0", 1.0: "+1"}


@dataclass(frozen=True)
class _Block:
    """The examples of a run of lines; `lines` holds the line number of each example."""

    lines: Int64Array
    lengths: Int64Array
    ids: Int64Array
    values: Float32Array
    labels: NDArray[np.float64]


def load(path: Path) -> tuple[Examples, int]:
    """All examples of the file at `path`, and the number of features.

    Labels must be -1 and +1, or 0 and 1, one convention throughout; they become 0 and 1. Ids may be
    any integers from 0 to `MAX_ID`, in any order, each at most once a line; feature f of the result
    is the f-th smallest id that occurs. Values must be finite in float32. The file may be
    compressed (`.gz`).

    The result is kept by path, size and time of change, and mapped. Raises `WorkloadError`, which
    names the line, for a malformed file, and for one that cannot be read or holds no example.
    """
    name = f"svmlight-{identity(path, _WHAT)}"
    found = store.load(name) or store.store(name, blocks(path))
    examples, ids = found
    return examples, len(ids)


def blocks(path: Path) -> Iterator[store.Block]:
    """Read `path` as `load` does, some lines at a time; ids are the names of features."""
    seen: dict[float, bool] = {-1.0: False, 0.0: False}
    empty = True
    for first_line, text in line_blocks(path, _WHAT):
        block = _convert(path, text.split(b"\n")[:-1], first_line)
        _check_convention(path, block, seen)
        empty = empty and not len(block.labels)
        labels = np.where(block.labels > 0, np.float32(1), np.float32(0))
        yield store.Block(block.lengths, block.ids.view(np.uint64), block.values, labels)
    if empty:
        raise WorkloadError(f"svmlight file {path} holds no example")


def _convert(path: Path, lines: Sequence[bytes], first_line: int) -> _Block:
    """Convert a block of lines; blank ones and comments hold no example."""
    stripped = [line.partition(b"#")[0] for line in lines]
    split = [line.split() for line in stripped]
    numbers = [first_line + i for i, tokens in enumerate(split) if tokens]
    examples = [tokens for tokens in split if tokens]
    pairs = [pair for tokens in examples for pair in tokens[1:]]
    fields = b":".join(pairs).split(b":") if pairs else []
    try:
        _check_shape(stripped, pairs)
        block = _Block(
            lines=np.array(numbers, dtype=np.int64),
            lengths=np.array([len(tokens) - 1 for tokens in examples], dtype=np.int64),
            ids=np.fromiter(map(int, fields[0::2]), np.int64, len(pairs)),
            values=_to_float32(_floats(fields[1::2])),
            labels=_floats([tokens[0] for tokens in examples]),
        )
    except (ValueError, OverflowError):
        _explain(path, lines, first_line)
    if not _sound(block):
        _explain(path, lines, first_line)
    return block


def _check_shape(lines: Sequence[bytes], pairs: Sequence[bytes]) -> None:
    """Raise `ValueError` unless all is in plain digits and each pair has one colon, after an id.

    `int` and `float` take more than that: underscores, words for infinity, signs of ids.
    """
    if b"".join(lines).translate(None, _PLAIN):
        raise ValueError
    if not all(pair.count(b":") == 1 and pair[:1].isdigit() for pair in pairs):
        raise ValueError


def _floats(texts: Sequence[bytes]) -> NDArray[np.float64]:
    return np.fromiter(map(float, texts), np.float64, len(texts))


def _to_float32(values: NDArray[np.float64]) -> Float32Array:
    with np.errstate(over="ignore"):  # what overflows is told from the infinity that it leaves
        return values.astype(np.float32)


def _sound(block: _Block) -> bool:
    """Whether labels, ids and values are in range and no line has an id twice."""
    rows = np.repeat(np.arange(len(block.labels)), block.lengths)
    order = np.lexsort((block.ids, rows))
    rows, ids = rows[order], block.ids[order]
    repeated = (rows[1:] == rows[:-1]) & (ids[1:] == ids[:-1])
    return bool(
        np.isin(block.labels, list(_LABELS)).all()
        and np.isfinite(block.values).all()
        and not repeated.any()
    )


def _explain(path: Path, lines: Sequence[bytes], first_line: int) -> NoReturn:
    """Raise the `WorkloadError` that names the first malformed line."""
    for number, line in enumerate(lines, first_line):
        tokens = line.partition(b"#")[0].split()
        problem = _line_problem(tokens) if tokens else None
        if problem is not None:
            raise WorkloadError(f"{path}, line {number}: {problem}")
    raise WorkloadError(
        f"{path}, lines {first_line} to {first_line + len(lines) - 1}: not in svmlight format"
    )


def _line_problem(tokens: Sequence[bytes]) -> str | None:
    if _number(tokens[0]) not in _LABELS:
        return f"label {quote(tokens[0])}; allowed: -1 and +1, or 0 and 1"
    seen: set[int] = set()
    for token in tokens[1:]:
        head, colon, tail = token.partition(b":")
        if not colon or not _is_id(head):
            return f"{quote(token)}; need id:value with an integer id from 0 to {MAX_ID}"
        value = _number(tail)
        if value is None or abs(value) > float(np.finfo(np.float32).max):
            return f"{quote(token)}: the value must be a finite float32"
        if int(head) in seen:
            return f"feature {int(head)} occurs twice"
        seen.add(int(head))
    return None


def _is_id(text: bytes) -> bool:
    # The length first: Python refuses to convert a text of thousands of digits.
    return text.isdigit() and len(text.lstrip(b"0")) <= len(str(MAX_ID)) and int(text) <= MAX_ID


def _number(text: bytes) -> float | None:
    """Return the finite float that `text` spells in plain digits, or None."""
    if text.translate(None, _PLAIN):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _check_convention(path: Path, block: _Block, seen: dict[float, bool]) -> None:
    """Refuse a label -1 in a file with 0, or the other way round, at the first that is either.

    `seen` says which of the two there were so far.
    """
    first = {label: np.flatnonzero(block.labels == label) for label in seen}
    before = {label for label, was in seen.items() if was}
    for label, at in first.items():
        seen[label] = seen[label] or bool(len(at))
    if all(seen.values()):
        mixed = max(int(at[0]) for label, at in first.items() if len(at) and label not in before)
        raise WorkloadError(
            f"{path}, line {block.lines[mixed]}: label {_LABELS[float(block.labels[mixed])]} in a "
            "file with both 0 and -1; use -1 and +1, or 0 and 1"
        )
