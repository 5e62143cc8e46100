"""The files from which the processes of a job in an emulation read what they have to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from controller.artifacts import Artifact
from controller.inventory import HostSpec, Inventory, LinkSpec, SwitchSpec
from controller.jobapi.operator import spec_of
from host_stack.job import DEFAULT_TIMEOUTS_S, Job
from host_stack.placement import Placement, heat_based
from host_stack.shards import Shards, shard_sizes
from mininet_topos.job_processes import SCHEDULER_PORT
from mininet_topos.options import RunOptions
from mininet_topos.plan import Plan
from mininet_topos.topology import Topology
from workloads.training import Training, shard_folder

JOB_ID = 1
EPOCH = 1
GROUP = "239.19.52.{}"
FIRST_GROUP = 2
"""Shards count on from `JOB_ID` and from this group."""

PATIENT_TIMEOUTS_S = {"push": 120.0, "drain": 120.0, "commit": 300.0}
"""Of a run with faults: something is away for seconds, and has to be set up by a busy machine; and
where every fifth packet is lost, TCP waits a minute before it sends one for the eighth time."""

_PLACED = {"libra": "job", "fallback": "group", "server-only": "nothing"}
"""In mode fallback the job stays off the switch: its packets go on to the server. Its multicast
group is needed there too."""


class JobFiles:
    """training.json, inventory.toml, placement-1.npz of each shard, and job.json of one mode."""

    def __init__(
        self,
        mode: str,
        options: RunOptions,
        plan: Plan,
        artifact: Artifact,
        topology: Topology,
        folder: Path,
    ) -> None:
        self._mode = mode
        self._options = options
        self._plan = plan
        self._artifact = artifact
        self._topology = topology
        self._folder = folder

    def write(self, num_keys: int) -> None:
        """Write what the controller and the processes of the job read, but for the job itself."""
        self.training().save(self._folder / "training.json")
        (self._folder / "inventory.toml").write_text(self.inventory().text())
        placements = self.placements()
        for shard, placement in enumerate(placements):
            folder = shard_folder(self._folder, len(placements), shard)
            folder.mkdir(exist_ok=True)
            placement.save(folder / "placement-1.npz")

    def write_job(self, job_files: Sequence[str]) -> None:
        """Write the job as the controller describes its shards: it knows which switches sum."""
        path = self._folder / "job.json"
        jobs = [Job.from_fields(json.loads(each), path) for each in job_files]
        Shards(tuple(jobs)).save(path)

    def specs(self, num_keys: int) -> list[Any]:
        """The shards as the controller is asked for them."""
        return [
            spec_of(job, placed=_PLACED[self._mode], rows=max(1, placement.used_rows))
            for job, placement in zip(
                self.shards(num_keys).jobs, self._plan.placements, strict=True
            )
        ]

    @property
    def fraction_bits(self) -> int:
        """F."""
        return self._plan.fraction_bits

    def placements(self) -> Sequence[Placement]:
        """The hot keys of the mode, of each shard."""
        if self._mode == "server-only":
            return [Placement.empty(self._artifact.layout)] * len(self._plan.placements)
        return self._plan.placements

    def other_placements(self, num_keys: int) -> Sequence[Placement]:
        """Other hot keys, as many: the hottest quarter makes room for keys that were cold."""
        if self._mode == "server-only":
            return self.placements()
        hot = self._plan.hot_keys
        keys = self._plan.heat.keys[hot // 4 : hot // 4 + hot]
        ends = self.shards(num_keys).bounds
        return [
            heat_based(keys[(keys >= first) & (keys < end)] - first, self._artifact.layout)
            for first, end in pairwise(ends)
        ]

    def shards(self, num_keys: int) -> Shards:
        """What workers and servers must know."""
        sizes = shard_sizes(num_keys, len(self._topology.server_hosts))
        return Shards(tuple(self._job(shard, size) for shard, size in enumerate(sizes)))

    def _job(self, shard: int, num_keys: int) -> Job:
        faults = self._options.faults_of(self._mode)
        server = self._topology.server_hosts[shard]
        return Job(
            job=JOB_ID + shard,
            epoch=EPOCH,
            fraction_bits=self._plan.fraction_bits,
            num_keys=num_keys,
            layout=self._artifact.layout,
            workers=tuple(host.ip for host in self._topology.worker_hosts),
            server=server.ip,
            switch=self._topology.switch_at(server).ip,
            group=GROUP.format(FIRST_GROUP + shard),
            scheduler=(server.ip, SCHEDULER_PORT),
            transport=self._options.transport,
            timeouts_s=dict(PATIENT_TIMEOUTS_S if faults else DEFAULT_TIMEOUTS_S),
        )

    def training(self) -> Training:
        """What is trained."""
        options = self._options
        return Training(
            dataset=options.dataset,
            model=str(options.model),
            optimizer=options.optimizer,
            learning_rate=options.learning_rate,
            rounds=options.rounds,
            batch=options.batch,
            seed=options.seed,
            evaluate_every=options.evaluate_every,
            checkpoint_every=options.checkpoint_every,
            consistency=options.consistency,
            audit=options.audit,
            framework=options.framework,
        )

    def inventory(self) -> Inventory:
        """What the controller owns."""
        topology = self._topology
        switches = tuple(
            SwitchSpec(
                name=site.name,
                address=site.grpc_address,
                ip=site.ip,
                mac=site.mac,
                device_id=site.device_id,
                target=self._options.target,
                program=self._artifact.name,
            )
            for site in topology.switches
        )
        hosts = tuple(
            HostSpec(host.name, host.ip, host.mac, host.switch, host.port)
            for host in topology.hosts
        )
        links = tuple(
            LinkSpec((f"{one}:{port}", f"{other}:{other_port}"))
            for (one, port), (other, other_port) in (trunk.ends for trunk in topology.trunks)
        )
        return Inventory(switches, hosts, links)
