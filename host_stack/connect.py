"""Open what a host needs to take part in a job: its transport and its ps-lite node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from host_stack.codec import Codec
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.kv.config import KVConfig
from host_stack.kv.curve import JobKey
from host_stack.kv.ids import Role
from host_stack.kv.node import Node
from host_stack.scapy_transport import ScapyTransport
from host_stack.transport import BatchTransport, Transport, open_udp
from host_stack.worker import OnPushed, Worker

TRANSPORTS = ("batch", "scapy")


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

    At the end others may still be pushing the last round again.
    """
    host, port = job.scheduler
    patience_s = job.timeouts_s["commit"]
    return KVConfig(
        role=role,
        root_host=host,
        root_port=port,
        num_workers=len(job.workers),
        num_servers=1,
        node_host=address,
        start_timeout_s=patience_s,
        barrier_timeout_s=patience_s,
        key=JobKey.load(Path(job.key_file)) if job.key_file else None,
    )


@dataclass(frozen=True)
class Connection:
    """A worker of a job and its UDP transport."""

    worker: Worker
    transport: Transport


@contextmanager
def connected(
    job: Job,
    rank: int,
    on_pushed: OnPushed = lambda tag, step, keys, gradients: None,
    *,
    multicast: bool = True,
) -> Iterator[Connection]:
    """The worker of a rank in the job's network; this host must have the job's address of it.

    In the end it waits for all others; after an exception it leaves at once. A process that
    receives multicast has the UDP port of its host to itself. Without `multicast` several workers
    may share a host that has several addresses; the rows of UPDATEs are then fetched.
    """
    address = job.worker_address(rank)
    transport = open_transport(job, address, groups=(job.group,) if multicast else ())
    node = worker_node(job, address)
    try:
        connection = Connection(Worker(job, rank, transport, node, on_pushed), transport)
        node.start()
        yield connection
        node.finalize()
    finally:
        node.close()
        transport.close()
