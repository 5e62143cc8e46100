"""One mode of a run: bring the star up, provision it, train, measure, tear it down."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.artifacts import Artifact
from controller.provision import (
    ProvisionFailed,
    connected,
    provision_group,
    provision_job,
    provision_network,
    read_reasons,
)
from controller.tables import Attachment, Forward, Local, Membership
from controller.targets import find_target
from host_stack.job import Job
from host_stack.placement import Placement
from mininet_topos import links
from mininet_topos.errors import NotReady
from mininet_topos.options import RunOptions
from mininet_topos.plan import Plan
from mininet_topos.processes import Event, SupervisedProcess
from mininet_topos.star import HostSpec, StarNetwork, StarTopology
from workloads.training import Training

JOB_ID = 1
JOB_SLOT = 1
EPOCH = 1
GROUP = "239.19.52.2"
GROUP_ID = 1
GRPC_ADDRESS = "127.0.0.1:9559"
SCHEDULER_PORT = 9700
READY_S = 60.0
POLL_S = 0.2

OnProgress = Callable[[int], None]


@dataclass
class ModeResult:
    """What a mode's processes and links told, before it is summed up."""

    folder: Path
    rounds: dict[int, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    commits: list[dict[str, Any]] = field(default_factory=list)
    workers_done: list[dict[str, Any]] = field(default_factory=list)
    server_done: dict[str, Any] = field(default_factory=dict)
    traffic: links.Snapshot = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    switch_answers: list[bool] = field(default_factory=list)


class ModeRun:
    """Runs one mode in a folder of its own."""

    def __init__(
        self, mode: str, options: RunOptions, plan: Plan, artifact: Artifact, folder: Path
    ) -> None:
        self.mode = mode
        self._options = options
        self._plan = plan
        self._artifact = artifact
        self._target = find_target(options.target)
        self._topology = StarTopology(
            workers=options.workers, target=options.target, rate_mbps=options.link_mbps
        )
        self._server = self._topology.server_hosts[0]
        self.result = ModeResult(folder)

    def run(self, num_keys: int, on_progress: OnProgress) -> ModeResult:
        """Train all rounds; `on_progress` is told the number of committed rounds."""
        folder = self.result.folder
        folder.mkdir(parents=True)
        self._write_files(num_keys)
        with StarNetwork(self._topology, folder) as network:
            try:
                asyncio.run(self._provision())
            except ProvisionFailed:
                # A switch that has died says more than a connection that was refused.
                network.switch.process.require_running()
                raise
            self._train(network, on_progress)
            self.result.reasons = asyncio.run(self._reasons())
        return self.result

    def _placement(self) -> Placement:
        if self.mode == "server-only":
            return Placement.empty(self._artifact.layout)
        return self._plan.placement

    def _write_files(self, num_keys: int) -> None:
        options, folder = self._options, self.result.folder
        Job(
            job=JOB_ID,
            epoch=EPOCH,
            fraction_bits=self._plan.fraction_bits,
            num_keys=num_keys,
            layout=self._artifact.layout,
            workers=tuple(host.ip for host in self._topology.worker_hosts),
            server=self._server.ip,
            switch=self._topology.switch_ip,
            group=GROUP,
            scheduler=(self._server.ip, SCHEDULER_PORT),
            transport=options.transport,
        ).save(folder / "job.json")
        Training(
            dataset=options.dataset,
            model=str(options.model),
            optimizer=options.optimizer,
            learning_rate=options.learning_rate,
            rounds=options.rounds,
            batch=options.batch,
            seed=options.seed,
            evaluate_every=options.evaluate_every,
            checkpoint_every=options.checkpoint_every,
        ).save(folder / "training.json")
        self._placement().save(folder / "placement.npz")

    async def _provision(self) -> None:
        """Load the pipeline; install the network and, in mode libra, the job.

        In mode fallback the job stays off the switch: its packets go on to the server. Its
        multicast group is needed there too.
        """
        attachments = [_attachment(host) for host in self._topology.hosts]
        async with connected(GRPC_ADDRESS, self._target, self._artifact, fresh=True) as switch:
            forward = Forward(self._topology.switch_mac, attachments)
            await provision_network(switch, forward, Local(self._topology.switch_ip))
            membership = self._membership()
            if self.mode == "libra":
                await provision_job(switch, membership, self._artifact)
            elif self.mode == "fallback":
                await provision_group(switch, membership)

    def _membership(self) -> Membership:
        rows = max(1, self._plan.placement.used_rows)
        return Membership(
            job=JOB_ID,
            epoch=EPOCH,
            fraction_bits=self._plan.fraction_bits,
            slot=JOB_SLOT,
            row_base=0,
            rows=1 << (rows - 1).bit_length(),
            workers=[_attachment(host) for host in self._topology.worker_hosts],
            server=_attachment(self._server),
            group=GROUP,
            group_id=GROUP_ID,
        )

    async def _reasons(self) -> dict[str, int]:
        async with connected(GRPC_ADDRESS, self._target, self._artifact, fresh=False) as switch:
            return await read_reasons(switch, JOB_SLOT)

    def _train(self, network: StarNetwork, on_progress: OnProgress) -> None:
        """Start the processes, wait until all rounds are committed, read the links."""
        folder = str(self.result.folder)
        python = sys.executable
        workers = self._topology.worker_hosts
        scheduler = network.start(
            self._server.name,
            [
                *(python, "-m", "host_stack.kv.scheduler", "--host", self._server.ip),
                *("--port", str(SCHEDULER_PORT), "--workers", str(len(workers)), "--servers", "1"),
            ],
            name="scheduler",
        )
        self._await(network, scheduler, "ready")
        server = network.start(
            self._server.name,
            [python, "-m", "workloads.train_server", folder],
            name="server",
            on_event=self._take,
        )
        started = [
            network.start(
                host.name,
                [python, "-m", "workloads.train_worker", folder, str(host.rank)],
                name=f"worker{host.rank + 1}",
                on_event=self._take,
            )
            for host in workers
        ]
        for process in (server, *started):
            ready = self._await(network, process, "ready")
            self.result.switch_answers.append(bool(ready.fields["switch"]))
        before = network.snapshot()
        for process in started:
            process.go()
        while len(self.result.commits) < self._options.rounds or not self.result.server_done:
            self._check(network)
            on_progress(len(self.result.commits))
            time.sleep(POLL_S)
        for process in started:
            self._await(network, process, "done")
        self.result.traffic = links.difference(network.snapshot(), before)
        for process in (server, *started, scheduler):
            process.wait_exit(READY_S)
        network.processes.check()
        on_progress(self._options.rounds)

    def _await(self, network: StarNetwork, process: SupervisedProcess, kind: str) -> Event:
        """Wait for an event of one process, and say so at once if another has died."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                return process.wait_event(kind, POLL_S)
            except NotReady:
                self._check(network)
                if time.monotonic() > deadline:
                    raise

    @staticmethod
    def _check(network: StarNetwork) -> None:
        """Raise the error of a process that failed, or of the switch if it has ended at all."""
        network.processes.check()
        network.switch.process.require_running()

    def _take(self, event: Event) -> None:
        fields = dict(event.fields)
        if event.kind == "round":
            self.result.rounds[fields["round"]].append(fields)
        elif event.kind == "commit":
            self.result.commits.append(fields)
        elif event.kind == "done" and event.process == "server":
            self.result.server_done = fields
        elif event.kind == "done":
            self.result.workers_done.append(fields)


def _attachment(host: HostSpec) -> Attachment:
    return Attachment(host.ip, host.mac, host.port)
