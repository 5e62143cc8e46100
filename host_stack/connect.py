"""Open what a host needs to take part in a job: its transport and its ps-lite node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from host_stack.codec import Codec
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.kv.config import KVConfig
from host_stack.kv.curve import JobKey
from host_stack.kv.ids import Role
from host_stack.kv.node import Node
from host_stack.peer_transport import PeerTransport
from host_stack.probe import probe
from host_stack.scapy_transport import ScapyTransport
from host_stack.sharded import JobWorker, ShardedWorker
from host_stack.shards import Shards
from host_stack.transport import BatchTransport, Transport, open_udp
from host_stack.worker import OnPushed, Worker

TRANSPORTS = ("batch", "scapy")

SERVER_START_S = 600.0
"""How long a server waits for its workers at the beginning, while these load images and libraries.

So long the scheduler waits in `launch/`. Workers find each other before they look for the server.
"""


def open_transport(job: Job, address: str, groups: Sequence[str] = ()) -> Transport:
    """The job's kind of transport at `address`; `BadInput` for an unknown kind or a taken port."""
    if job.transport == "batch":
        return BatchTransport(open_udp(address, groups=groups), Codec(job.layout).max_bytes)
    if job.transport == "scapy":
        return ScapyTransport(address, Codec(job.layout).max_bytes, job.layout.lanes, groups)
    raise BadInput(f"transport {job.transport!r}: known are {', '.join(TRANSPORTS)}")


def worker_node(job: Job, address: str) -> Node:
    """The ps-lite node of a worker, received in the caller's thread."""
    return Node(_config(job, Role.WORKER, address), threaded=False)


def server_node(job: Job, address: str) -> Node:
    """The ps-lite node of the server, received in the caller's thread."""
    return Node(_config(job, Role.SERVER, address), threaded=False)


def _config(job: Job, role: Role, address: str) -> KVConfig:
    """Nodes wait for each other, at the beginning and at the end, as long as for a commit.

    At the end others may still be pushing the last round again. A server waits longer at the
    beginning.
    """
    host, port = job.scheduler
    patience_s = job.timeouts_s["commit"]
    start_s = max(SERVER_START_S, patience_s) if role is Role.SERVER else patience_s
    return KVConfig(
        role=role,
        root_host=host,
        root_port=port,
        num_workers=len(job.workers),
        num_servers=1,
        node_host=address,
        start_timeout_s=start_s,
        barrier_timeout_s=patience_s,
        key=JobKey.load(Path(job.key_file)) if job.key_file else None,
    )


def ignore_pushed(shard: int) -> OnPushed:
    """What `connected` does with pushes unless told: nothing."""
    del shard
    return lambda tag, step, keys, gradients: None


@dataclass(frozen=True)
class Connection:
    """A worker of a job in its network.

    Attributes:
        worker: a `Worker`, or a `ShardedWorker` of a job with several servers.
    """

    worker: JobWorker
    _jobs: tuple[Job, ...]
    _rank: int
    _transports: tuple[Transport, ...]

    def probe(self) -> bool | None:
        """Whether the switch of each shard with hot keys answers; None if there are no hot keys.

        Between two rounds. Raises `LayoutMismatch` as `host_stack.probe.probe`.
        """
        parts = zip(self._jobs, self._transports, self.worker.shards, strict=True)
        hot = [(job, transport) for job, transport, worker in parts if len(worker.hot_keys)]
        if not hot:
            return None
        if len(self._jobs) == 1:
            return all(probe(job, self._rank, transport) for job, transport in hot)
        return all(self._probe_apart(job) for job, _ in hot)

    def _probe_apart(self, job: Job) -> bool:
        """Probe through a socket of its own: that of the shard hears its server alone."""
        max_bytes = Codec(job.layout).max_bytes
        transport = PeerTransport(
            job.worker_address(self._rank), job.switch, max_bytes, beside=True
        )
        try:
            return probe(job, self._rank, transport)
        finally:
            transport.close()


@contextmanager
def connected(
    job: Job | Shards,
    rank: int,
    on_pushed_of: Callable[[int], OnPushed] = ignore_pushed,
    *,
    multicast: bool = True,
    in_step: bool = True,
) -> Iterator[Connection]:
    """The worker of a rank in the job's network; this host must have the job's address of it.

    In the end it waits for all others; after an exception it leaves at once. A process that
    receives multicast has the UDP port of its host to itself. Without `multicast` several workers
    may share a host that has several addresses; the rows of UPDATEs are then fetched.
    `on_pushed_of` gives the `on_pushed` of each shard, and `in_step` is that of `Worker`.

    Raises:
        BadInput: the job has no such rank, the port is taken, or the job has several servers and
            its workers are not in step.
    """
    shards = Shards((job,)) if isinstance(job, Job) else job
    if len(shards) > 1 and not in_step:
        raise BadInput("workers of a job with several servers keep in step (bsp)")
    address = shards.worker_address(rank)
    parameters = np.zeros(shards.num_keys, np.float32)
    with ExitStack() as stack:
        transports, nodes, workers = [], [], []
        for index, each in enumerate(shards.jobs):
            groups = (each.group,) if multicast else ()
            if len(shards) == 1:
                transport = open_transport(each, address, groups)
            else:
                transport = _beside(each, address, groups, first=index == 0)
            stack.callback(transport.close)
            node = worker_node(each, address)
            stack.callback(node.close)
            worker = Worker(
                each,
                rank,
                transport,
                node,
                on_pushed_of(index),
                in_step=in_step,
                parameters=parameters[shards.own(index)],
            )
            transports.append(transport)
            nodes.append(node)
            workers.append(worker)
        front: JobWorker = workers[0]
        if len(shards) > 1:
            front = stack.enter_context(closing(ShardedWorker(shards, parameters, workers)))
        for node in nodes:
            node.start()
        yield Connection(front, shards.jobs, rank, tuple(transports))
        for node in nodes:
            node.finalize()


def _beside(job: Job, address: str, groups: Sequence[str], *, first: bool) -> Transport:
    """Of a worker that shares the port of its host with those of other shards."""
    max_bytes = Codec(job.layout).max_bytes
    return PeerTransport(address, job.server, max_bytes, groups, beside=not first)
