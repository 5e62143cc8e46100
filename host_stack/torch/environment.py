"""A process of `torchrun` as a worker of a job: rank r of the one is rank r of the other."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch.distributed as dist

from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.kv.config import address_of_interface
from host_stack.kv.errors import KVConfigError
from host_stack.shards import Shards

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


def join_group(job: Job | Shards) -> Place:
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
