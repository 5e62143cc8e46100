"""Nodes of the C++ library in tests, and Python ones that do as its test programs do.

They need PSLITE_DIR, a build folder of ps-lite that has tests/kv_app_test.
"""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_stack.kv import KVServer, KVWorker, Node, Role
from host_stack.kv.message import Message
from host_stack.kv.server import RequestHandle
from tests.kv_jobs import HOST, LIMIT_S, AddingStore, config

PSLITE = os.environ.get("PSLITE_DIR")
needs_pslite = pytest.mark.skipif(PSLITE is None, reason="PSLITE_DIR names no build of ps-lite")

NUM_KEYS = 10_000


def environment(role: str, port: int, workers: int, servers: int) -> dict[str, str]:
    """What a program of the C++ library reads."""
    return os.environ | {
        "DMLC_ROLE": role,
        "DMLC_PS_ROOT_URI": HOST,
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NODE_HOST": HOST,
        "DMLC_NUM_WORKER": str(workers),
        "DMLC_NUM_SERVER": str(servers),
    }


class CppNode:
    """A running C++ process whose output is read line by line."""

    def __init__(
        self, program: str, role: str, port: int, workers: int, servers: int, **variables: str
    ) -> None:
        assert PSLITE is not None
        own = {"PS_VERBOSE": "2" if role == "server" else "1"}
        self.process = subprocess.Popen(
            [Path(PSLITE) / "tests" / program, role],
            env=environment(role, port, workers, servers) | own | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self.serves = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Collect output; notice when a server enters its last barrier.

        A C++ server aborts or stalls when a push arrives before its handle is set, which it does
        between the two barriers that it enters.
        """
        assert self.process.stdout is not None
        barriers = 0
        for line in self.process.stdout:
            self.lines.append(line)
            barriers += "cmd=BARRIER" in line and "request=1" in line
            if barriers == 2:
                self.serves.set()

    def finish(self) -> None:
        """Wait for the process, which must exit with 0."""
        code = self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        assert code == 0, "".join(self.lines)


@contextmanager
def cpp_node(
    program: str, role: str, port: int, workers: int, servers: int, **variables: str
) -> Iterator[CppNode]:
    """Run a C++ node; at the end it must have exited with 0."""
    node = CppNode(program, role, port, workers, servers, **variables)
    try:
        yield node
        node.finish()
    finally:
        node.process.kill()
        node.process.wait()


def free_port() -> int:
    """Find a port for a scheduler that cannot choose one by itself."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def serve(
    port: int,
    workers: int,
    servers: int,
    handle: RequestHandle | None = None,
    lost: int = 0,
    **changes: Any,
) -> AddingStore:
    """Be a server until the end of the job; with `lost`, the first requests do not arrive."""
    node = Node(config(Role.SERVER, port, workers, servers, **changes), threaded=False)
    store = AddingStore()
    if lost:
        lose_requests(node, lost)
    try:
        KVServer(node).set_request_handle(handle or store)
        node.start()
        node.finalize(LIMIT_S)
    finally:
        node.close()
    return store


def lose_requests(node: Node, number: int) -> None:
    """Let a node lose the first data requests that it receives."""
    receive, left = node._van.receive, [number]

    def lossy() -> Message | None:
        message = receive()
        if left[0] and message is not None and message.meta.control is None:
            left[0] -= 1
            return lossy()
        return message

    node._van.receive = lossy  # type: ignore[method-assign]


def work(
    port: int,
    workers: int,
    servers: int,
    cpp_servers: list[CppNode] | None = None,
    num_keys: int = NUM_KEYS,
    **changes: Any,
) -> float:
    """Push and pull as a worker, once C++ servers are ready; return the largest error."""
    node = Node(config(Role.WORKER, port, workers, servers, **changes))
    try:
        node.start()
        for server in cpp_servers or []:
            assert server.serves.wait(LIMIT_S), "".join(server.lines)
        worker = KVWorker(node)
        step = (2**64 - 1) // num_keys
        keys = np.arange(num_keys, dtype=np.uint64) * np.uint64(step) + np.uint64(100 + node.rank)
        keys.flags.writeable = False
        vals = np.arange(num_keys, dtype=np.float32)
        for _ in range(5):
            worker.wait(worker.push(keys, vals))
        out = np.zeros_like(vals)
        worker.wait(worker.pull(keys, out))
        error = np.abs(out - 5 * vals).max()
        worker.wait(worker.push_pull(keys, vals, out))
        error = max(error, np.abs(out - 6 * vals).max())
        node.finalize(LIMIT_S)
    finally:
        node.close()
    return float(error)
