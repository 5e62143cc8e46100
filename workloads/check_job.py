"""Compare a job's description with the hosts that are to run it: `python -m workloads.check_job`.

A launcher that takes the description from a controller does so before it starts anything: on
other hosts than the job has, its processes would wait for each other until they give up.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from host_stack.errors import BadInput
from host_stack.shards import Shards
from workloads.make_job import add_host_options, await_address
from workloads.training import run_role


def differences(
    job: Shards, servers: Sequence[str], workers: Sequence[str], keys: int
) -> Iterator[str]:
    """What a job has otherwise than is said of it; addresses are IPv4, workers by rank."""
    if keys != job.num_keys:
        yield f"KEYS is {keys}, the job has {job.num_keys}"
    for name, given, known in (
        ("SERVER", servers, [each.server for each in job.jobs]),
        ("HOSTS", workers, job.workers),
    ):
        if list(given) != list(known):
            yield f"{name} is {' '.join(given)}, the job has {' '.join(known) or 'none'}"


def check(path: Path, servers: Sequence[str], workers: Sequence[str], keys: int) -> None:
    """Refuse, with `BadInput`, a job that is not the one of these servers, workers and keys."""
    job = Shards.load(path)
    if found := "; ".join(differences(job, servers, workers, keys)):
        raise BadInput(
            f"job {job.jobs[0].job} is another one than is to be started: {found}; start that one "
            "(addresses in this order), name another one by JOB, or create it anew"
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="check_job", description="Compare a job with its hosts.")
    parser.add_argument("job", type=Path, help="the job's description, a job.json")
    add_host_options(parser)
    given = parser.parse_args()
    deadline = time.monotonic() + given.wait_s
    servers = [await_address(name, deadline) for name in given.server]
    workers = [await_address(name, deadline) for name in given.workers]
    check(given.job, servers, workers, given.keys)


if __name__ == "__main__":
    sys.exit(run_role(main))
