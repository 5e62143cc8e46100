"""One mode of a run: bring the network up, train, measure, tear it down."""

from __future__ import annotations

import queue
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from controller.artifacts import Artifact
from controller.jobapi.ask import JobStatus, read_status
from controller.jobapi.operator import Operator
from host_stack.audit.check import AuditResult, all_of, audit
from host_stack.progress import BSP
from host_stack.standing import together
from mininet_topos import job_processes as names
from mininet_topos import links
from mininet_topos.errors import NotReady
from mininet_topos.fabric import FabricNetwork
from mininet_topos.faults import Fault
from mininet_topos.injector import Injected, Injector
from mininet_topos.job_files import JOB_ID, JobFiles
from mininet_topos.job_processes import JobProcesses
from mininet_topos.options import RunOptions
from mininet_topos.plan import Plan
from mininet_topos.processes import Event, SupervisedProcess
from mininet_topos.processors import ProcessorMeter
from mininet_topos.star import network_of
from workloads.training import AUDIT_FOLDER, shard_folder

POLL_S = 0.2

QUIET_S = 0.25
"""How long next to nothing may pass the links before the training begins."""

STANDING_S = 10.0
"""How long a controller that was just started again may take to know how the job stands."""


OnProgress = Callable[[int], None]


@dataclass
class ModeResult:
    """What a mode's processes and links told, before it is summed up.

    `timeline` has, for each commit, the seconds since the training began and the rounds committed
    by all servers; `rounds` maps a round to what each worker told of it, `commits` to what each
    server did; `workers_done` and `servers_done` have what the last process of each told at its
    end, and `folders` are those of the shards. `missed` are faults whose point never came.
    """

    folder: Path
    rounds: dict[int, dict[str, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    commits: dict[int, dict[str, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    workers_done: dict[str, dict[str, Any]] = field(default_factory=dict)
    servers_done: dict[str, dict[str, Any]] = field(default_factory=dict)
    traffic: links.Snapshot = field(default_factory=dict)
    trunk_bytes: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    scale: dict[str, Any] | None = None
    switch_answers: list[bool] = field(default_factory=list)
    timeline: list[tuple[float, int]] = field(default_factory=list)
    faults: list[Injected] = field(default_factory=list)
    missed: tuple[Fault, ...] = ()
    processors: dict[str, Any] = field(default_factory=dict)
    audit: AuditResult | None = None
    servers: int = 1

    @property
    def folders(self) -> list[Path]:
        """Of the shards, in the order of keys."""
        return [shard_folder(self.folder, self.servers, each) for each in range(self.servers)]


class ModeRun:
    """Runs one mode in a folder of its own."""

    def __init__(
        self, mode: str, options: RunOptions, plan: Plan, artifact: Artifact, folder: Path
    ) -> None:
        self._options = options
        self._faults = options.faults_of(mode)
        self._topology = replace(options.network, faults=self._faults.links)
        self.files = JobFiles(mode, options, plan, artifact, self._topology, folder)
        self.result = ModeResult(folder, servers=options.servers)
        self._committed: dict[str, int] = {
            names.server_name(rank): 0 for rank in range(options.servers)
        }
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def run(self, num_keys: int, on_progress: OnProgress) -> ModeResult:
        """Train all rounds; `on_progress` is told the number of committed rounds."""
        folder = self.result.folder
        folder.mkdir(parents=True)
        with ExitStack() as stack:
            network = stack.enter_context(network_of(self._topology, folder))
            job = JobProcesses(
                network,
                folder,
                self._events.put,
                self._faults.holds(),
                self._options.framework,
                log_format=self._options.log_format,
                has_detour=self._options.backup_path,
            )
            stack.enter_context(job)
            self.files.write(num_keys)
            self._num_keys = num_keys
            self._start(job, num_keys)
            self._await_quiet(network, job)
            before, trunks = network.snapshot(), network.trunk_bytes()
            self._train(job, on_progress)
            self.result.traffic = links.difference(network.snapshot(), before)
            self.result.trunk_bytes = {
                name: sent - trunks[name] for name, sent in network.trunk_bytes().items()
            }
            self._ask_controller(job)
            self._end(job)
        if self._options.audit:
            steps = [self._options.rounds] * self._options.workers
            audits = [audit(each / AUDIT_FOLDER, steps) for each in self.result.folders]
            self.result.audit = all_of(audits)
        on_progress(self._options.rounds)
        return self.result

    def _start(self, job: JobProcesses, num_keys: int) -> None:
        """Start all processes and wait until each is ready to train."""
        for name in (names.CONTROLLER, *job.schedulers):
            self._await(job, job.start(name), "ready")
        operator = Operator(job.controller, names.READY_S)
        job_files = []
        for spec, placement in zip(
            self.files.specs(num_keys), self.files.placements(), strict=True
        ):
            job_files.append(operator.create(spec, placement).job_file)
            self._await(job, job[names.CONTROLLER], "epoch")
        self.files.write_job(job_files)
        started = [job.start(name) for name in (*job.servers, *job.workers)]
        for process in started:
            answer = self._await(job, process, "ready").fields["switch"]
            if answer is not None:
                self.result.switch_answers.append(answer)

    def _await_quiet(self, network: FabricNetwork[Any], job: JobProcesses) -> None:
        """Let pass what is left of the beginning: it would be counted as bytes of rounds.

        Placement and hot parameters are large; what a worker asked for twice over a slow link is
        still on its way when it is ready.
        """
        deadline = time.monotonic() + names.READY_S
        while not network.is_quiet(QUIET_S) and time.monotonic() < deadline:
            job.check()

    def _ask_controller(self, job: JobProcesses) -> None:
        """What became of the packets of all shards, and how F fits their gradients."""
        shards = range(JOB_ID, JOB_ID + self._options.servers)
        found = [_settled_status(job, shard) for shard in shards]
        reasons = Counter(found[0].reasons)  # with those of no known job
        operator = Operator(job.controller, names.READY_S)
        for shard in shards[1:]:
            for count in operator.stats(shard).counts:
                reasons[count.reason] += count.packets if count.job == shard else 0
        self.result.reasons = dict(reasons)
        standings = [status.standing for status in found if status.standing is not None]
        whole = together(standings) if standings else None
        self.result.scale = replace(found[0], standing=whole).scale_fields()

    def _train(self, job: JobProcesses, on_progress: OnProgress) -> None:
        """Let the workers go, until all rounds are committed and every process has said so."""
        is_bsp = self._options.consistency == str(BSP)
        injector = Injector(self._faults.faults, job, open_rounds=1 if is_bsp else 2)
        self.result.faults = injector.injected
        for name in job.workers:
            job.release(name)
        injector.begin()
        meter = ProcessorMeter(job.pids)
        while not self._is_finished(job) or not injector.is_quiet:
            injector.tick()
            job.check()
            meter.look(job.pids)
            try:
                event = self._events.get(timeout=POLL_S)
            except queue.Empty:
                continue
            self._take(event)
            if event.kind == "route":
                job.turn(detour=event.fields["detour"])
            if not self._is_of_all(event):
                continue
            injector.take(event)
            self._change_hot_set(event, job)
            if event.kind == "commit":
                self.result.timeline.append((injector.now_s, event.fields["round"] + 1))
            on_progress(len(self.result.commits))
        injector.end()
        self.result.missed = injector.missed
        self.result.processors = meter.as_fields()

    def _is_of_all(self, event: Event) -> bool:
        """Whether a round that a server opens, by a commit or its return, is open at all of them.

        True of all other events.
        """
        if event.kind not in {"commit", "ready"} or not names.is_server(event.process):
            return True
        rounds = int(event.fields["round"]) + (event.kind == "commit")
        self._committed[event.process] = rounds
        return min(self._committed.values()) == rounds

    def _change_hot_set(self, event: Event, job: JobProcesses) -> None:
        """Give the job other hot keys when the round of the option begins."""
        at = self._options.change_hot_set
        if event.kind != "commit" or event.fields["round"] + 1 != at:
            return
        for shard, placement in enumerate(self.files.other_placements(self._num_keys), JOB_ID):
            if len(placement):
                Operator(job.controller).change(shard, placement, self.files.fraction_bits)

    def _is_finished(self, job: JobProcesses) -> bool:
        result = self.result
        done = len(result.servers_done), len(result.workers_done)
        return done == (len(job.servers), len(job.workers))

    def _end(self, job: JobProcesses) -> None:
        for name in (*job.servers, *job.workers, *job.schedulers):
            job[name].wait_exit(names.READY_S)
        job.check()

    def _await(self, job: JobProcesses, process: SupervisedProcess, kind: str) -> Event:
        """Wait for an event of one process, and say so at once if another has died."""
        deadline = time.monotonic() + names.READY_S
        while True:
            try:
                return process.wait_event(kind, POLL_S)
            except NotReady:
                job.check()
                if time.monotonic() > deadline:
                    raise

    def _take(self, event: Event) -> None:
        fields = dict(event.fields)
        if event.kind == "round":
            self.result.rounds[fields["round"]][event.process] = fields
        elif event.kind == "commit":
            self.result.commits[fields["round"]][event.process] = fields
        elif event.kind == "done" and names.is_server(event.process):
            self.result.servers_done[event.process] = fields
        elif event.kind == "done" and event.process in self._worker_names:
            self.result.workers_done[event.process] = fields

    @property
    def _worker_names(self) -> list[str]:
        return [names.worker_name(host.rank) for host in self._topology.worker_hosts]


def _settled_status(job: JobProcesses, shard: int) -> JobStatus:
    """How a job stands; a controller that was just started again is waited for."""
    deadline = time.monotonic() + STANDING_S
    while True:
        status = read_status(job.controller, shard, names.READY_S)
        if (status.epoch and status.standing) or time.monotonic() > deadline:
            return status
        time.sleep(POLL_S)
