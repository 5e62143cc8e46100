"""A process of `torchrun` as a worker of a job: rank r of the one is rank r of the other."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch.distributed as dist

from host_stack.connect import open_transport, worker_node
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.kv.config import address_of_interface
from host_stack.kv.errors import KVConfigError
from host_stack.transport import Transport
from host_stack.worker import OnPushed, Worker

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Place:
    """What `torchrun` says of this process: its rank, and how many there are."""

    rank: int
    world_size: int

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Place:
        """Read RANK and WORLD_SIZE; `BadInput` where `torchrun` did not start this process."""
        env = os.environ if environ is None else environ
        missing = [name for name in _VARIABLES if not env.get(name)]
        if missing:
            raise BadInput(f"{', '.join(missing)} not set: start the program with torchrun")
        try:
            place = cls(int(env["RANK"]), int(env["WORLD_SIZE"]))
        except ValueError:
            raise BadInput(
                f"RANK={env['RANK']!r}, WORLD_SIZE={env['WORLD_SIZE']!r}: whole numbers are needed"
            ) from None
        if not 0 <= place.rank < place.world_size:
            raise BadInput(f"RANK={place.rank} is outside of 0 to WORLD_SIZE - 1")
        return place


def join_group(job: Job) -> Place:
    """Join the process group of all workers, with gloo; return this process's place in it.

    gloo is told the interface that has the job's address of this rank, unless GLOO_SOCKET_IFNAME
    names one.

    Raises:
        BadInput: the environment is not that of `torchrun`, or the job has another number of
            workers.
    """
    place = Place.from_env()
    if place.world_size != len(job.workers):
        raise BadInput(
            f"torchrun started {place.world_size} processes, the job has {len(job.workers)} "
            "workers: there must be as many"
        )
    interface = interface_of(job.worker_address(place.rank))
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    dist.init_process_group("gloo", rank=place.rank, world_size=place.world_size)
    return place


def interface_of(address: str) -> str | None:
    """The interface that has an IPv4 address; None where it cannot be told."""
    for _, name in socket.if_nameindex():
        with suppress(KVConfigError):
            if address_of_interface(name) == address:
                return name
    return None


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
