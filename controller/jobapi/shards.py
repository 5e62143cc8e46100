"""A job with several servers at a controller: its shards are jobs there, with numbers in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from controller.jobapi import control_pb2
from controller.jobapi.operator import Operator
from controller.placing.pairs import pair_rows
from host_stack.errors import BadInput, LibraError
from host_stack.job import Job
from host_stack.jsonfile import parse_json_object
from host_stack.packing import nth_of_lane
from host_stack.placement import Placement
from host_stack.shards import MAX_SERVERS, Shards, shard_sizes

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

    Keys stay in their lanes and move up to the next free row there, those with second cells before
    all others. These keep theirs: the first rows of a shard are paired, as many as such keys need
    and as there is room for.
    """
    if len(sizes) == 1:
        return [placement]
    paired = np.isin(placement.rows, placement.pairs.rows)
    parts = []
    for first, end in pairwise(np.cumsum([0, *sizes]).tolist()):
        mine = np.flatnonzero((placement.keys >= first) & (placement.keys < end))
        order = (placement.lanes[mine], placement.rows[mine], ~paired[mine])
        mine = mine[np.lexsort(order)]
        lanes = placement.lanes[mine]
        nth, _ = nth_of_lane(lanes.astype(np.uint8), placement.layout.lanes)
        rows = nth.astype(np.int64)
        keys = placement.keys[mine] - np.uint64(first)
        part = Placement(keys, lanes, rows, placement.layout)
        wanted = int(rows[paired[mine]].max(initial=-1)) + 1
        parts.append(pair_rows(part, min(wanted, part.layout.rows - part.used_rows)))
    return parts


def create_all(
    operator: Operator,
    specs: Sequence[Any],
    placements: Sequence[Placement | None],
    waited: Callable[[Any], Any],
) -> list[Any]:
    """Create all shards of a job, or none: what one is refused for takes the others away again.

    `waited` is called with the `JobInfo` of each before the next one is asked for, and returns it
    as it is then. What it raises is raised when all are created: they are installed later.
    """
    created: list[Any] = []
    late: LibraError | None = None
    for spec, placement in zip(specs, placements, strict=True):
        try:
            info = operator.create(spec, placement)
        except LibraError:
            for earlier in created:
                operator.delete(earlier.spec.job)
            raise
        created.append(info)
        if late is None:
            try:
                created[-1] = waited(info)
            except LibraError as error:
                late = error
    if late is not None:
        raise late
    return created


def shards_of(operator: Operator, job: int, servers: int) -> list[Any]:
    """The `JobInfo` of each shard of a job, in the order of keys.

    Raises `BadInput` for more servers than a job may have and for jobs that are no shards of one,
    `NotKnown` for a shard that is not there.
    """
    if not 0 < servers <= MAX_SERVERS:
        raise BadInput(f"servers {servers}: allowed are 1 to {MAX_SERVERS}")
    infos = [operator.describe(job + shard) for shard in range(servers)]
    sizes = [info.spec.num_keys for info in infos]
    if sizes != shard_sizes(sum(sizes), servers):
        raise BadInput(
            f"jobs {job} to {job + servers - 1} have {', '.join(map(str, sizes))} keys: they are "
            "not the shards of one job"
        )
    return infos


def to_change(operator: Operator, job: int, servers: int) -> list[Any]:
    """The shards of a job for a call that changes them.

    Of one with one server nothing is asked before: the call says whether there is such a job.
    """
    if servers == 1:
        return [control_pb2.JobInfo(spec=control_pb2.JobSpec(job=job))]
    return shards_of(operator, job, servers)


def declare_all(operator: Operator, infos: Sequence[Any], workers: list[str]) -> list[Any]:
    """Give all shards of a job the same workers."""
    return _with_each(infos, lambda info: operator.declare(info.spec.job, workers))


def change_all(
    operator: Operator,
    infos: Sequence[Any],
    placement: Placement | None,
    fraction_bits: int | None,
) -> list[Any]:
    """Give all shards of a job another placement, which is cut for them, another F, or both."""
    parts: list[Placement | None] = [None] * len(infos)
    if placement is not None:
        parts[:] = split_placement(placement, [info.spec.num_keys for info in infos])
    hot = {info.spec.job: part for info, part in zip(infos, parts, strict=True)}
    return _with_each(
        infos,
        lambda info: operator.change(info.spec.job, hot[info.spec.job], fraction_bits),
    )


def delete_all(operator: Operator, infos: Sequence[Any]) -> None:
    """Delete all shards of a job."""
    _with_each(infos, lambda info: operator.delete(info.spec.job))


def _with_each(infos: Sequence[Any], act: Callable[[Any], Any]) -> list[Any]:
    """What `act` returns for each shard; an error names the shards for which it was done."""
    done: list[Any] = []
    for info in infos:
        try:
            done.append(act(info))
        except LibraError as error:
            if not done:
                raise
            numbers = ", ".join(str(each.spec.job) for each in infos[: len(done)])
            raise type(error)(
                f"job {info.spec.job}: {error}; it is done for {numbers}, so repeat it for all "
                "when that is mended"
            ) from error
    return done


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
