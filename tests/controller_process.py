"""A controller as a process of its own, around embedded switches in memory, for tests."""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.artifacts import Artifact
from controller.inventory import HostSpec, Inventory, SwitchSpec
from controller.jobapi.channel import ControllerAddress
from controller.tls import ClientTls
from softswitch.dataplane import DataPlane
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.tls import TlsFiles
from tests.certificates import Authority
from tests.job_in_memory import SWITCH, ports

WAIT_S = 240.0
"""Long enough for a machine that is busy with ten other things."""


def host_mac(port: int) -> str:
    """Of the host at a port."""
    return f"02:00:00:00:{1 + (port >> 8):02x}:{port & 0xFF:02x}"


def star(address: str, hosts: dict[str, int], **switch: Any) -> Inventory:
    """An inventory of one switch with hosts at ports (IPv4 → port)."""
    return Inventory(
        (SwitchSpec("s1", address, SWITCH, "02:00:00:00:00:fe", **switch),),
        tuple(HostSpec(f"h{port}", ip, host_mac(port), "s1", port) for ip, port in hosts.items()),
    )


class ControllerProcess:
    """A running controller and the events that it writes."""

    def __init__(self, address: ControllerAddress, *arguments: str) -> None:
        self.address = address
        self._popen = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        with self._popen.stdout as lines:
            for line in lines:
                self._events.put(json.loads(line))
        self._events.put(None)

    def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Wait for the next event of a kind that has certain fields."""
        deadline = time.monotonic() + WAIT_S
        while True:
            found = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            assert found is not None, "the controller has ended"
            # Other lines of a log have no event.
            if found.get("event") == kind and fields.items() <= found.items():
                return found

    def go(self) -> None:
        """Say that what was asked for is done."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(b"go\n")
        self._popen.stdin.flush()

    def kill(self) -> None:
        """As `kill -9` does."""
        self._popen.kill()
        self._finish()

    def terminate(self) -> int:
        """Ask it to end; returns the exit code."""
        self._popen.terminate()
        return self._finish()

    def ended(self) -> int:
        """Wait until it ends by itself; returns the exit code."""
        return self._finish()

    def _finish(self) -> int:
        code = self._popen.wait(WAIT_S)
        self._reader.join()
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        return code


@contextmanager
def controller_process(folder: Path, path: Path, *options: str) -> Iterator[ControllerProcess]:
    """A controller at a socket, killed at the end of the block.

    The folder holds `inventory.toml`, and its state.
    """
    process = start_controller(folder, path, *options)
    try:
        yield process
    finally:
        process.kill()


def start_controller(folder: Path, path: Path, *options: str) -> ControllerProcess:
    """A controller at a socket; the caller ends it."""
    files = str(folder / "inventory.toml"), str(folder / "state.sqlite")
    listen = "--listen", f"unix:{path}"
    address = ControllerAddress.at_socket(path)
    return ControllerProcess(address, "controller.daemon", *files, *listen, *options)


@contextmanager
def guarded_controller(
    folder: Path, port: int, authority: Authority, access: Path
) -> Iterator[ControllerProcess]:
    """`libra controller` with mutual TLS, as the client `operator` of its access file sees it."""
    server, client = authority.issue("controller"), authority.issue("operator")
    tls = ClientTls(authority.cert, client.cert, client.key)
    process = ControllerProcess(
        ControllerAddress(f"localhost:{port}", tls),
        *("controller.cli", "controller", str(folder / "inventory.toml"), "--json"),
        *("--state", str(folder / "state.sqlite"), "--listen", f"127.0.0.1:{port}"),
        *("--tls-cert", str(server.cert), "--tls-key", str(server.key)),
        *("--client-ca", str(authority.cert), "--access", str(access)),
    )
    try:
        yield process
    finally:
        process.kill()


def free_port() -> int:
    """A TCP port of the loopback at which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def socket_path() -> Iterator[Path]:
    """A path for a socket, which must be short."""
    with tempfile.TemporaryDirectory(prefix="libra-") as name:
        yield Path(name) / "job.sock"


@contextmanager
def embedded_switch(
    address: str = "127.0.0.1:0", tls: TlsFiles | None = None
) -> Iterator[P4RuntimeServer]:
    """An embedded switch without ports."""
    # Compiled beforehand, for a client does not wait as long as a slow machine needs.
    DataPlane.load(Artifact.load().device_config).close()
    with P4RuntimeServer(address, tls=tls) as server:
        yield server


@contextmanager
def restarted(switch: P4RuntimeServer) -> Iterator[P4RuntimeServer]:
    """The switch dies, and comes back empty."""
    switch.stop(0.0)
    with P4RuntimeServer(switch.address) as again:
        yield again


def write_star(folder: Path, address: str, workers: int) -> None:
    """The inventory of the switch of `tests.job_in_memory`."""
    (folder / "inventory.toml").write_text(star(address, ports(workers)).text())
