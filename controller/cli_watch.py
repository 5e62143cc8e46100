"""Showing something once, or again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from host_stack.errors import BadInput

MIN_WATCH_S = 0.2
MAX_WATCH_S = 86400.0

Watch = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", help=f"Again and again, every so often; at least {MIN_WATCH_S}."
    ),
]


def shown(make: Callable[[], RenderableType], watch: float | None) -> None:
    """Print once, or keep what is shown up to date until interrupted."""
    _check(watch)
    if watch is None:
        Console().print(make())
        return
    with Live(make(), auto_refresh=False) as live, suppress(KeyboardInterrupt):
        repeated(lambda: live.update(make(), refresh=True), watch)


def repeated(act: Callable[[], None], watch: float | None) -> None:
    """Do something once, or every so often until interrupted; `BadInput` for too often."""
    _check(watch)
    act()
    while watch is not None:
        time.sleep(watch)
        act()


def _check(watch: float | None) -> None:
    if watch is not None and not MIN_WATCH_S <= watch <= MAX_WATCH_S:
        raise BadInput(f"--watch {watch}: allowed are {MIN_WATCH_S} to {MAX_WATCH_S:g} s")
