"""The log format of the what-if study (NetAI 2020): gradient-ready events as text.

Line 1 explains; line 2 is the number of batches, line 3 that of tensors; then, for each tensor of
each batch, the microseconds since the one before and the bytes of its gradient. Line 1 of logs
that `write_log` makes holds `iteration_ms=…` too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from host_stack.jsonfile import read_regular
from planner.errors import PlanError
from planner.profile import MAX_GRADIENT_BYTES, Profile, measured_profile

MAX_BYTES = 1 << 26
MAX_EVENTS = 2_000_000
_ITERATION = re.compile(r"\biteration_ms=([^\s;,]*)")


def read_log(path: Path) -> Profile:
    """The profile in a log; of several batches, the mean waits.

    Raises `PlanError`, which names the line, for anything else than such a log.
    """
    lines = _lines(path)
    if len(lines) < 4:
        raise PlanError(
            f"{path} is no profile: it has {len(lines)} lines, the format has 4 or more"
        )
    batches, tensors = (_count(path, number, lines[number - 1]) for number in (2, 3))
    if batches * tensors != len(lines) - 3:
        raise PlanError(
            f"{path}: {batches} batches of {tensors} tensors need {batches * tensors} lines of "
            f"events, {len(lines) - 3} are there"
        )
    events = np.array(list(_events(path, lines)), np.float64).reshape(batches, tensors, 2)
    sizes = events[:, :, 1]
    if (sizes != sizes[0]).any():
        raise PlanError(f"{path}: the batches do not have the same sizes in the same order")
    wait_s: NDArray[np.float64] = events[:, :, 0].mean(axis=0) * 1e-6
    stated = _ITERATION.search(lines[0])
    iteration_s = _number(path, 1, stated[1]) / 1e3 if stated else None
    return measured_profile(path.stem, wait_s, sizes[0].astype(np.int64), iteration_s)


def write_log(path: Path, profile: Profile) -> None:
    """Write a profile as a log of one batch."""
    lines = [
        f"profile of {profile.name}; iteration_ms={profile.iteration.seconds * 1e3!r}; lines are "
        "batches, tensors, then microseconds since the tensor before and bytes of its gradient",
        "1",
        str(len(profile.wait_s)),
        *(
            f"{wait_s * 1e6!r},{size}"
            for wait_s, size in zip(
                profile.wait_s.tolist(), profile.size_bytes.tolist(), strict=True
            )
        ),
    ]
    path.write_text("\n".join(lines).replace("\r", " ") + "\n")


def read_pairs(path: Path, what: str) -> NDArray[np.float64]:
    """Pairs of numbers from 0 on, a line each with a comma between, float64[n, 2]."""
    lines = _lines(path)
    if not lines:
        raise PlanError(f"{path} is no {what}: it is empty")
    return np.array([_pair(path, i + 1, line) for i, line in enumerate(lines)], np.float64)


def _lines(path: Path) -> list[str]:
    try:
        lines = read_regular(path, MAX_BYTES).decode().splitlines()
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is no text") from error
    except ValueError as error:
        raise PlanError(f"{path} is no profile: {error}") from error
    return [line for line in lines if line.strip()]


def _events(path: Path, lines: list[str]) -> Iterator[tuple[float, float]]:
    for number, line in enumerate(lines[3:], 4):
        wait_us, size = _pair(path, number, line)
        if size != int(size) or size >= MAX_GRADIENT_BYTES:
            raise PlanError(f"{path}, line {number}: {size:g} is no size in bytes")
        yield wait_us, size


def _pair(path: Path, number: int, line: str) -> tuple[float, float]:
    first, comma, second = line.partition(",")
    if not comma:
        raise PlanError(f"{path}, line {number}: need two numbers with a comma between")
    return _number(path, number, first), _number(path, number, second)


def _count(path: Path, number: int, text: str) -> int:
    value = _number(path, number, text)
    if value != int(value) or not 1 <= value <= MAX_EVENTS:
        raise PlanError(f"{path}, line {number}: {text.strip()[:40]!r} is no count")
    return int(value)


def _number(path: Path, number: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise PlanError(f"{path}, line {number}: {text.strip()[:40]!r} is no number from 0 on")
    return value
