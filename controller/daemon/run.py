"""The life of a controller process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controller.daemon.access import Access
from controller.daemon.controller import Controller, Report
from controller.daemon.metrics import serve_metrics
from controller.daemon.serving import Endpoint, serve
from controller.daemon.store import Store
from controller.daemon.switch_keeper import Turn
from controller.inventory import Inventory
from host_stack.errors import LibraError

GRACE_S = 1.0
"""For calls that are being answered when the process is asked to end."""


@dataclass(frozen=True)
class Options:
    """What a controller is started with.

    Attributes:
        inventory: file. state: file, made if there is none.
        endpoints: where its APIs are served.
        attempts: as `SwitchKeeper` has them.
        access: who may call what.
        metrics: host and port of the Prometheus endpoint; None for none.
    """

    inventory: Path
    state: Path
    endpoints: tuple[Endpoint, ...]
    attempts: int = 0
    access: Access = field(default_factory=Access)
    metrics: tuple[str, int] | None = None


async def run(options: Options, report: Report, turn: Turn | None = None) -> None:
    """Keep jobs and switches until the process is asked to end (SIGTERM, SIGINT).

    Raises `LibraError` for what keeps it from beginning, or from going on. It does not go on with
    a state file that cannot be written: what it knows then is not what it would know again.
    """
    inventory = Inventory.load(options.inventory)
    end = asyncio.Event()
    store = Store(options.state, end.set)
    try:
        controller = Controller(inventory, store, report, attempts=options.attempts, turn=turn)
        server = await serve(controller, options.endpoints, options.access)
        try:
            async with _metrics(controller, options):
                report("ready", jobs=len(controller.jobs), switches=len(controller.switches))
                await _until_asked_to_end(controller, end)
        finally:
            await server.stop(GRACE_S)
    finally:
        store.close()


@asynccontextmanager
async def _metrics(controller: Controller, options: Options) -> AsyncIterator[None]:
    """Serve metrics, if that was asked for, as long as the block lasts."""
    if options.metrics is None:
        yield
        return
    task = await serve_metrics(controller, options.access, *options.metrics)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _until_asked_to_end(controller: Controller, end: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    keeping = asyncio.create_task(controller.keep())
    ending = asyncio.create_task(end.wait())
    await asyncio.wait([keeping, ending], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if keeping.done():
        _raise_first(keeping.exception())
    keeping.cancel()
    await asyncio.wait([keeping])
    if controller.store.failure is not None:
        raise controller.store.failure


def _raise_first(error: BaseException | None) -> None:
    """Raise the expected error of a group, or the group."""
    if isinstance(error, BaseExceptionGroup):
        expected = error.subgroup(LibraError)
        while isinstance(expected, BaseExceptionGroup):
            expected = expected.exceptions[0]  # type: ignore[assignment]
        if expected is not None:
            raise expected
    if error is not None:
        raise error
