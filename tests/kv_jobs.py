"""Whole key-value jobs on the loopback interface, for tests."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from host_stack.kv import KVConfig, KVMeta, KVPairs, KVServer, Node, Role
from host_stack.kv.message import Message
from host_stack.kv.scheduler import run_scheduler

HOST = "127.0.0.1"
LIMIT_S = 120.0
COMMON = {"heartbeat_interval_s", "heartbeat_timeout_s", "resend_timeout_s", "local", "key"}
"""Of a configuration: what all nodes of a job need."""


class AddingStore:
    """A request handle that adds pushed values to a table and answers pulls from it."""

    def __init__(self) -> None:
        self.keys = np.empty(0, np.uint64)
        self.vals = np.empty(0, np.float32)
        self.pushes = 0

    def __call__(self, meta: KVMeta, kvs: KVPairs, server: KVServer) -> None:
        """Serve one request."""
        self._make_room(kvs.keys)
        where = np.searchsorted(self.keys, kvs.keys)
        if meta.push:
            self.pushes += 1
            self.vals[where] += kvs.vals
        server.response(meta, KVPairs(kvs.keys, self.vals[where]) if meta.pull else None)

    def _make_room(self, keys: Any) -> None:
        merged = np.union1d(self.keys, keys)
        if merged.size != self.keys.size:
            vals = np.zeros(merged.size, np.float32)
            vals[np.searchsorted(merged, self.keys)] = self.vals
            self.keys, self.vals = merged, vals


def loopback_network() -> str:
    """Three bytes of loopback addresses that no other process is likely to have."""
    pid = os.getpid()
    return f"127.{1 + pid % 250}.{pid // 250 % 250}"


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls at the same time, one thread each; return their results or raise."""
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(call) for call in calls]
        return [future.result(LIMIT_S) for future in futures]


@dataclass
class Job:
    """The started nodes of a job; those that a test has closed are not finalized."""

    port: int
    workers: list[Node] = field(default_factory=list)
    servers: list[Node] = field(default_factory=list)
    scheduler_done: Future[None] | None = None
    abandoned: bool = False

    def abandon(self) -> None:
        """Close all nodes without the last barrier."""
        self.abandoned = True
        for node in self.workers + self.servers:
            node.close()


def config(role: Role, port: int, workers: int, servers: int, **changes: Any) -> KVConfig:
    """Build the configuration of a node on the loopback interface."""
    limits = {"start_timeout_s": LIMIT_S, "wait_timeout_s": LIMIT_S, "barrier_timeout_s": LIMIT_S}
    return KVConfig(role, HOST, port, workers, servers, **(limits | changes))


def start_scheduler(
    workers: int, servers: int, lifetime_s: float = LIMIT_S, **changes: Any
) -> tuple[int, Future[None]]:
    """Run a scheduler in a thread; return its port and the future of its end."""
    ready = threading.Event()
    port = [0]

    def report(event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            port[0] = event["port"]
            ready.set()

    pool = ThreadPoolExecutor(1)
    done = pool.submit(
        run_scheduler, config(Role.SCHEDULER, 0, workers, servers, **changes), lifetime_s, report
    )
    pool.shutdown(wait=False)
    assert ready.wait(LIMIT_S)
    return port[0], done


@contextmanager
def running_job(
    workers: int, servers: int, lifetime_s: float = LIMIT_S, customers: int = 1, **changes: Any
) -> Iterator[Job]:
    """Start a job with a receiving thread in each node; finalize it at the end."""
    total = workers * customers
    common = {name: changes[name] for name in COMMON & changes.keys()}
    port, done = start_scheduler(total, servers, lifetime_s, **common)
    job = Job(port, scheduler_done=done)
    try:
        for role, count, nodes, own in (
            (Role.WORKER, workers, job.workers, {"customers": customers}),
            (Role.SERVER, servers, job.servers, {}),
        ):
            nodes.extend(
                Node(config(role, port, total, servers, **changes, **own)) for _ in range(count)
            )
        together(*(node.start for node in job.workers + job.servers))
        for nodes in (job.workers, job.servers):
            nodes.sort(key=lambda node: node.rank)
        yield job
        if not job.abandoned:
            together(*(node.finalize for node in job.workers + job.servers))
            done.result(LIMIT_S)
    finally:
        job.abandon()


def lose(node: Node, share: float, seed: int) -> None:
    """Let a node lose a share of what it receives, from when it knows the others."""
    receive, chance = node._van.receive, random.Random(seed)

    def lossy() -> Message | None:
        message = receive()
        while message is not None and node.roster and chance.random() < share:
            message = receive()
        return message

    node._van.receive = lossy  # type: ignore[method-assign]


def listen(node: Node, heard: list[Message]) -> None:
    """Note the pushes, pulls and answers that a node receives."""
    receive = node._van.receive

    def noting() -> Message | None:
        message = receive()
        if message is not None and message.meta.control is None:
            heard.append(message)
        return message

    node._van.receive = noting  # type: ignore[method-assign]
