"""A job with several servers at a controller: its shards are jobs there, with numbers in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from controller.jobapi import control_pb2
from controller.jobapi.operator import Operator
from host_stack.errors import BadInput, LibraError
from host_stack.job import Job
from host_stack.jsonfile import parse_json_object
from host_stack.packing import nth_of_lane
from host_stack.placement import Placement
from host_stack.shards import Shards, shard_sizes

SCHEDULER_PORT = 9700
"""Of the cold path, at the server's address, unless told."""


def group_of(job: int) -> str:
    """The multicast group of a job's UPDATEs unless told: 239.19.x.y of its number."""
    return f"239.19.{job >> 8 & 255}.{job & 255}"


def specs_of(spec: Any, servers: Sequence[str]) -> list[Any]:
    """What has to be asked for so that a job runs over some servers.

    The shards have the numbers from `spec.job` on, and groups and schedulers by default. Raises
    `BadInput` for servers of the same address, and as `shard_sizes`.
    """
    if len(set(servers)) < len(servers):
        raise BadInput(f"servers {', '.join(servers)}: each needs an address of its own")
    sizes = shard_sizes(spec.num_keys, len(servers))
    found = []
    for number, (server, size) in enumerate(zip(servers, sizes, strict=True), spec.job):
        own = control_pb2.JobSpec()
        own.CopyFrom(spec)
        own.job, own.server, own.num_keys = number, server, size
        if len(servers) > 1:
            own.group, own.scheduler = group_of(number), f"{server}:{SCHEDULER_PORT}"
        found.append(own)
    return found


def split_placement(placement: Placement, sizes: Sequence[int]) -> list[Placement]:
    """The hot keys of each shard, which has so many keys, numbered as its server does.

    Keys stay in their lanes and move up to the next free row there. Second cells belong to whole
    rows and are left out; `libra place` on a shard's own keys gives them anew.
    """
    if len(sizes) == 1:
        return [placement]
    parts = []
    for first, end in pairwise(np.cumsum([0, *sizes]).tolist()):
        mine = np.flatnonzero((placement.keys >= first) & (placement.keys < end))
        mine = mine[np.lexsort((placement.lanes[mine], placement.rows[mine]))]
        lanes = placement.lanes[mine]
        rows, _ = nth_of_lane(lanes.astype(np.uint8), placement.layout.lanes)
        keys = placement.keys[mine] - np.uint64(first)
        parts.append(Placement(keys, lanes, rows.astype(np.int64), placement.layout))
    return parts


def create_all(
    operator: Operator,
    specs: Sequence[Any],
    placements: Sequence[Placement | None],
    waited: Callable[[Any], Any],
) -> list[Any]:
    """Create all shards of a job, or none: what one is refused for takes the others away again.

    `waited` is called with the `JobInfo` of each before the next one is asked for, and returns it
    as it is then.
    """
    created: list[Any] = []
    for spec, placement in zip(specs, placements, strict=True):
        try:
            info = operator.create(spec, placement)
        except LibraError:
            for earlier in created:
                operator.delete(earlier.spec.job)
            raise
        created.append(waited(info))
    return created


def job_file_of(infos: Sequence[Any]) -> Shards:
    """What the hosts of a job must know, from its shards in the order of keys.

    Raises `BadInput` where they have no workers yet, or are no shards of one job.
    """
    jobs = []
    for info in infos:
        name = f"job {info.spec.job}"
        if not info.job_file:
            raise BadInput(f"{name} has no workers yet: declare them first")
        jobs.append(Job.from_fields(parse_json_object(info.job_file, "job file", name), Path(name)))
    return Shards(tuple(jobs))
