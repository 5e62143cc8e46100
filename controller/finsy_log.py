"""finsy says why one of its background tasks failed in its log alone; this keeps the reason."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger("finsy")


class FinsyFailure(logging.Handler):
    """Keeps the last exception that finsy logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.reason = "no reason was given"

    def emit(self, record: logging.LogRecord) -> None:
        """Take the exception of a record."""
        if record.exc_info and record.exc_info[1] is not None:
            self.reason = " ".join(str(record.exc_info[1]).split())


@contextmanager
def finsy_failures() -> Iterator[FinsyFailure]:
    """Hold finsy's log back and keep its failures, as long as the block lasts.

    What is held back besides are warnings of switches without gNMI, which none of ours has.
    """
    failure = FinsyFailure()
    propagate, _LOGGER.propagate = _LOGGER.propagate, False
    _LOGGER.addHandler(failure)
    try:
        yield failure
    finally:
        _LOGGER.removeHandler(failure)
        _LOGGER.propagate = propagate
