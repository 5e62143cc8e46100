"""Write the description of a job: `python -m workloads.make_job`.

Every process of the job needs the same file. Names are resolved, so that a cluster's names may
stand for addresses; where a name is not known yet, it is waited for.
"""

from __future__ import annotations

import argparse
import sys
import time
from ipaddress import IPv4Address
from pathlib import Path

from controller.artifacts import Artifact, program_with
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.kv.config import resolve
from host_stack.kv.errors import KVConfigError
from host_stack.layout import MAX_KEYS
from host_stack.shards import Shards, shard_sizes
from host_stack.transport import ipv4
from workloads.training import run_role

RETRY_S = 1.0


def await_address(name: str, deadline: float) -> str:
    """The IPv4 address of a host, once it is known; `KVConfigError` after the deadline."""
    while True:
        try:
            return resolve(name)
        except KVConfigError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_S)


def make(given: argparse.Namespace) -> Shards:
    """The job of some options; its shards count on from its number and its group.

    Raises `BadInput` for what no job can have, `KVConfigError` for a host that has no address.
    """
    if not 0 < given.keys <= MAX_KEYS:
        raise BadInput(
            f"--keys {given.keys}: the parameters in all tables, 1 to {MAX_KEYS}, are needed"
        )
    deadline = time.monotonic() + given.wait_s
    workers = tuple(await_address(worker, deadline) for worker in given.workers)
    servers = [await_address(server, deadline) for server in given.server]
    jobs = []
    for shard, size in enumerate(shard_sizes(given.keys, len(servers))):
        group = str(IPv4Address(ipv4(given.group) + shard))
        jobs.append(
            Job(
                job=given.job + shard,
                epoch=1,
                fraction_bits=given.fraction_bits,
                num_keys=size,
                layout=Artifact.load(program_with(given.lanes)).layout,
                workers=workers,
                server=servers[shard],
                switch=given.switch,
                group=group,
                scheduler=(servers[shard], given.scheduler_port),
            )
        )
    return Shards(tuple(jobs))


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """What a job is made for, and a job that exists is compared with."""
    parser.add_argument("--keys", type=int, required=True, help="parameters in all tables")
    parser.add_argument("--server", nargs="+", required=True, help="name or address of each")
    parser.add_argument("--workers", nargs="+", required=True, help="by rank; names or addresses")
    parser.add_argument("--wait-s", type=float, default=0.0, help="for names that come up later")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make_job", description="Describe a job in a file.")
    parser.add_argument("out", type=Path, help="the file, usually job.json")
    add_host_options(parser)
    parser.add_argument("--job", type=int, default=1, help="number on the wire")
    parser.add_argument("--fraction-bits", type=int, default=40, help="F, the fixed-point scale")
    parser.add_argument("--lanes", type=int, default=32, help="of the switch's program")
    parser.add_argument("--switch", default="192.0.2.1", help="its address, for drains")
    parser.add_argument("--group", default="239.19.52.2", help="multicast group of UPDATEs")
    parser.add_argument("--scheduler-port", type=int, default=9700, help="at the server's address")
    given = parser.parse_args()
    job = make(given)
    try:
        job.save(given.out)
    except OSError as error:
        raise BadInput(f"{given.out} cannot be written: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(run_role(main))
