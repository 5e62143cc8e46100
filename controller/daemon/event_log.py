"""The events of a controller as lines of its log."""

from __future__ import annotations

import logging
from typing import Any

LOGGER = logging.getLogger(__name__)

TROUBLE = {"switch-down", "distrusted"}
"""Events that are warnings."""


def log_event(event: str, **fields: Any) -> None:
    """Log an event: `text` is for people, `job`, `epoch` and others are for programs."""
    text = fields.pop("text", None)
    if text is None:
        text = ", ".join(f"{value} {name}" for name, value in fields.items())
    level = logging.WARNING if event in TROUBLE else logging.INFO
    known = {"event": event, "text": text, **fields}
    LOGGER.log(level, "%s: %s", event, text, extra={"fields": known})
