"""A job with several servers: each owns a range of the keys, and is a job of its own for switches.

A *shard* is such a range with its server, number, rows, group and epochs. What holds for a job
(sections 2 to 5 of the design) holds for each of them, and a server's link carries its share.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.jsonfile import read_json_object
from host_stack.layout import JOBS_PER_SWITCH
from host_stack.placement import Keys

MAX_SERVERS = JOBS_PER_SWITCH
"""All of them may sum at one switch, where each takes the place of a job."""

_COMMON = ("workers", "fraction_bits", "layout", "transport", "timeouts_s", "key_file")
_OWN = ("job", "server", "group", "scheduler")


def shard_sizes(num_keys: int, servers: int) -> list[int]:
    """How many keys each server owns: as equal as can be, the larger shares first.

    Raises `BadInput` for more servers than a job may have, or than keys.
    """
    if not 0 < servers <= min(MAX_SERVERS, num_keys):
        raise BadInput(
            f"{servers} servers for {num_keys} keys: allowed are 1 to {MAX_SERVERS}, and no more "
            "than keys"
        )
    share, larger = divmod(num_keys, servers)
    return [share + (index < larger) for index in range(servers)]


@dataclass(frozen=True)
class Shards:
    """The shards of a job, in the order of their keys; one for a job with one server.

    Shard i has the keys behind those of the shards before it. It numbers them from 0: so do its
    server, its placement and its packets.

    Attributes:
        jobs: what the hosts of each shard must know; the workers are the same.
    """

    jobs: tuple[Job, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.jobs) <= MAX_SERVERS:
            raise BadInput(f"{len(self.jobs)} shards: allowed are 1 to {MAX_SERVERS}")
        for name in _COMMON:
            if any(getattr(job, name) != getattr(self.jobs[0], name) for job in self.jobs):
                raise BadInput(f"{name} differs between the shards of a job: it must be the same")
        for name in _OWN:
            if len({getattr(job, name) for job in self.jobs}) < len(self.jobs):
                raise BadInput(f"two shards of a job have the same {name}: each needs its own")
        if len(self.jobs) > 1 and self.jobs[0].transport != "batch":
            raise BadInput(
                f"transport {self.jobs[0].transport!r} with several servers: 'batch' can do that"
            )

    def __len__(self) -> int:
        return len(self.jobs)

    @cached_property
    def bounds(self) -> Keys:
        """The first key of each shard and, behind them, the number of keys: uint64[n + 1]."""
        return np.cumsum([0, *(job.num_keys for job in self.jobs)]).astype(np.uint64)

    @property
    def num_keys(self) -> int:
        """Keys of all shards."""
        return int(self.bounds[-1])

    def job(self, shard: int) -> Job:
        """What the hosts of a shard must know; `BadInput` if there is no such shard."""
        if not 0 <= shard < len(self.jobs):
            raise BadInput(f"shard {shard}: the job has shards 0 to {len(self.jobs) - 1}")
        return self.jobs[shard]

    @property
    def workers(self) -> tuple[str, ...]:
        """IPv4 addresses by rank."""
        return self.jobs[0].workers

    def worker_address(self, rank: int) -> str:
        """The address of a worker; `BadInput` if the job has no such rank."""
        return self.jobs[0].worker_address(rank)

    def rank_of(self, address: str) -> int:
        """The rank of the worker at an address; `BadInput` if the job has none there."""
        return self.jobs[0].rank_of(address)

    def slices(self, keys: Keys) -> list[slice]:
        """Where the keys of each shard are in uint64[n] sorted keys."""
        positions = np.searchsorted(keys, self.bounds).tolist()
        return [slice(low, high) for low, high in pairwise(positions)]

    def own(self, shard: int) -> slice:
        """The keys of a shard, as a slice of the parameters."""
        low, high = self.bounds[shard : shard + 2].tolist()
        return slice(low, high)

    def split(self, keys: Keys) -> list[Keys]:
        """uint64[n] sorted keys of the job as those of each shard, in its own numbers."""
        parts = zip(self.slices(keys), self.bounds, strict=False)
        return [keys[part] - first for part, first in parts]

    def save(self, path: Path) -> None:
        """Write a job file: that of the job, or an object with a list of `shards`."""
        if len(self.jobs) == 1:
            self.jobs[0].save(path)
            return
        shards = {"shards": [asdict(job) for job in self.jobs]}
        path.write_text(json.dumps(shards, indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> Shards:
        """Read a job file, of one server or of several; `BadInput` says what is wrong with it."""
        fields = read_json_object(path, "job file")
        if "shards" not in fields:
            return cls((Job.from_fields(fields, path),))
        shards = fields["shards"]
        if not isinstance(shards, list) or not all(isinstance(each, dict) for each in shards):
            raise BadInput(f"{path} is not a job file: its shards are no list of jobs")
        return cls(tuple(Job.from_fields(each, path) for each in shards))
