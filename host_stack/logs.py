"""The log of a process: lines for people, or JSON with job, epoch and round. Set up here alone.

What a process is busy with is asked when a line is written, so that each line has the epoch and
round in which it was logged.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from host_stack.errors import BadInput, LibraError

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")

OURS = ("bench", "controller", "host_stack", "mininet_topos", "planner", "softswitch", "workloads")
"""Packages whose lines are shown from the chosen level on; of others only warnings are."""

About = Callable[[], Mapping[str, Any]]
"""What a process is busy with: `job`, `epoch`, `round` and others, by name."""

_PLACES = ("switch", "job", "worker", "epoch", "round")
"""What a line for people has of it, in this order."""


def _nothing() -> Mapping[str, Any]:
    return {}


class _Lines(logging.Formatter):
    """Of one process; records may have `fields` of their own."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process
        self.about: About = _nothing

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """What is known besides the text."""
        return {**self.about(), **getattr(record, "fields", {})}


class _Text(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback behind it."""
        fields = self.fields(record)
        # Job 0 and an empty name of a switch stand for none; a round may be 0.
        known = [
            f"{name} {fields[name]}"
            for name in _PLACES
            if fields.get(name) is not None and (fields[name] or name in {"worker", "round"})
        ]
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        where = " ".join([self._process, *known])
        line = f"{at} {record.levelname.lower()} {where}: {record.getMessage()}"
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


class _Json(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        """One object."""
        line: dict[str, Any] = {
            "at_s": record.created,
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "text": record.getMessage(),
            **self.fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


_KINDS: dict[str, type[_Lines]] = {"text": _Text, "json": _Json}


def start(form: str, process: str, *, level: str = "info", stream: TextIO | None = None) -> None:
    """Log from now on, in place of what was set up before.

    Args:
        form: of `FORMATS`.
        process: its name in every line.
        level: of `LEVELS`: the least that is logged.
        stream: where to; None for standard error.

    Raises `BadInput` for a format or a level that is none.
    """
    for name, given, known in (("format", form, FORMATS), ("level", level, LEVELS)):
        if given not in known:
            raise BadInput(f"log {name} {given!r}: known are {', '.join(known)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_KINDS[form](process))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for package in OURS:
        logging.getLogger(package).setLevel(level.upper())


def describe(about: About) -> None:
    """Say from now on, in every line, what the process is busy with; asked from any thread."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Lines):
            handler.formatter.about = about


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of a process that calls `start` with what they say."""
    parser.add_argument("--log-format", choices=FORMATS, default=FORMATS[0])
    parser.add_argument("--log-level", choices=LEVELS, default="info")


def tell_error(error: LibraError) -> None:
    """Say why a process ends: a line of its log where that is JSON, else a line for people."""
    handlers = logging.getLogger().handlers
    if any(isinstance(each.formatter, _Json) for each in handlers):
        logging.getLogger(__name__).error("%s", error)
    else:
        sys.stderr.write(f"error: {error}\n")
