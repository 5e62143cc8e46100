"""A controller in a thread of the tests' process, over TLS; its switch is never there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from controller.daemon.access import Access
from controller.daemon.controller import Controller
from controller.daemon.serving import Endpoint, serve
from controller.daemon.store import Store
from softswitch.p4runtime.tls import TlsFiles
from tests.controller_process import star


@dataclass(frozen=True)
class ServedController:
    """Where it listens, and whom it knows."""

    address: str
    access: Access


@contextmanager
def served_controller(
    folder: Path, hosts: dict[str, int], tls: TlsFiles, access: Access
) -> Iterator[ServedController]:
    """Serve at a free port of the loopback until the block ends."""
    loop = asyncio.new_event_loop()
    ports: list[int] = []

    async def start() -> tuple[grpc.aio.Server, Store]:
        store = Store(folder / "state.sqlite")
        endpoint = Endpoint("127.0.0.1:0", tls.credentials())
        controller = Controller(star("127.0.0.1:9", hosts), store)
        return await serve(controller, [endpoint], access, ports.append), store

    async def end(server: grpc.aio.Server, store: Store) -> None:
        await server.stop(None)
        store.close()

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        started = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
        yield ServedController(f"localhost:{ports[0]}", access)
        asyncio.run_coroutine_threadsafe(end(*started), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
