"""One mode of a run: bring the network up, train, measure, tear it down."""

from __future__ import annotations

import queue
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from controller.artifacts import Artifact
from controller.jobapi.ask import JobStatus, read_status
from controller.jobapi.operator import Operator
from host_stack.audit.check import AuditResult, audit
from mininet_topos import job_processes as names
from mininet_topos import links
from mininet_topos.errors import NotReady
from mininet_topos.injector import Injected, Injector
from mininet_topos.job_files import JOB_ID, JobFiles
from mininet_topos.job_processes import JobProcesses
from mininet_topos.options import RunOptions
from mininet_topos.plan import Plan
from mininet_topos.processes import Event, SupervisedProcess
from mininet_topos.processors import ProcessorMeter
from mininet_topos.star import network_of
from workloads.training import AUDIT_FOLDER

POLL_S = 0.2

STANDING_S = 10.0
"""How long a controller that was just started again may take to know how the job stands."""


OnProgress = Callable[[int], None]


@dataclass
class ModeResult:
    """What a mode's processes and links told, before it is summed up.

    `timeline` has, for each commit, the seconds since the training began and the rounds committed
    then; `rounds` maps a round to what each worker told of it, `commits` to what the server did;
    `workers_done` has what each worker's last process told at its end.
    """

    folder: Path
    rounds: dict[int, dict[str, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    commits: dict[int, dict[str, Any]] = field(default_factory=dict)
    workers_done: dict[str, dict[str, Any]] = field(default_factory=dict)
    server_done: dict[str, Any] = field(default_factory=dict)
    traffic: links.Snapshot = field(default_factory=dict)
    trunk_bytes: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    scale: dict[str, Any] | None = None
    switch_answers: list[bool] = field(default_factory=list)
    timeline: list[tuple[float, int]] = field(default_factory=list)
    faults: list[Injected] = field(default_factory=list)
    processors: dict[str, Any] = field(default_factory=dict)
    audit: AuditResult | None = None


class ModeRun:
    """Runs one mode in a folder of its own."""

    def __init__(
        self, mode: str, options: RunOptions, plan: Plan, artifact: Artifact, folder: Path
    ) -> None:
        self._options = options
        self._faults = options.faults_of(mode)
        self._topology = replace(options.network, faults=self._faults.links)
        self.files = JobFiles(mode, options, plan, artifact, self._topology, folder)
        self.result = ModeResult(folder)
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
                has_detour=self._options.backup_path,
            )
            stack.enter_context(job)
            self.files.write(num_keys)
            self._start(job, num_keys)
            before, trunks = network.snapshot(), network.trunk_bytes()
            self._train(job, on_progress)
            self.result.traffic = links.difference(network.snapshot(), before)
            self.result.trunk_bytes = {
                name: sent - trunks[name] for name, sent in network.trunk_bytes().items()
            }
            status = _settled_status(job)
            self.result.reasons, self.result.scale = status.reasons, status.scale_fields()
            self._end(job)
        if self._options.audit:
            self.result.audit = audit(folder / AUDIT_FOLDER)
        on_progress(self._options.rounds)
        return self.result

    def _start(self, job: JobProcesses, num_keys: int) -> None:
        """Start all processes and wait until each is ready to train."""
        for name in (names.CONTROLLER, names.SCHEDULER):
            self._await(job, job.start(name), "ready")
        operator = Operator(job.controller, names.READY_S)
        info = operator.create(self.files.spec(num_keys), self.files.placement())
        self.files.write_job(info.job_file)
        self._await(job, job[names.CONTROLLER], "epoch")
        started = [job.start(name) for name in (names.SERVER, *job.workers)]
        for process in started:
            ready = self._await(job, process, "ready")
            self.result.switch_answers.append(bool(ready.fields["switch"]))

    def _train(self, job: JobProcesses, on_progress: OnProgress) -> None:
        """Let the workers go, until all rounds are committed and every process has said so."""
        injector = Injector(self._faults.faults, job)
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
            injector.take(event)
            self._change_hot_set(event, job)
            if event.kind == "commit":
                self.result.timeline.append((injector.now_s, event.fields["round"] + 1))
            on_progress(len(self.result.commits))
        self.result.processors = meter.as_fields()

    def _change_hot_set(self, event: Event, job: JobProcesses) -> None:
        """Give the job other hot keys when the round of the option begins."""
        at = self._options.change_hot_set
        placement = self.files.other_placement()
        if event.kind == "commit" and event.fields["round"] + 1 == at and len(placement):
            Operator(job.controller).change(JOB_ID, placement, self.files.fraction_bits)

    def _is_finished(self, job: JobProcesses) -> bool:
        done = self.result.workers_done
        return bool(self.result.server_done) and len(done) == len(job.workers)

    def _end(self, job: JobProcesses) -> None:
        for name in (names.SERVER, *job.workers, names.SCHEDULER):
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
            self.result.commits[fields["round"]] = fields
        elif event.kind == "done" and event.process == names.SERVER:
            self.result.server_done = fields
        elif event.kind == "done" and event.process in self._worker_names:
            self.result.workers_done[event.process] = fields

    @property
    def _worker_names(self) -> list[str]:
        return [names.worker_name(host.rank) for host in self._topology.worker_hosts]


def _settled_status(job: JobProcesses) -> JobStatus:
    """How the job stands; a controller that was just started again is waited for."""
    deadline = time.monotonic() + STANDING_S
    while True:
        status = read_status(job.controller, JOB_ID, names.READY_S)
        if (status.epoch and status.standing) or time.monotonic() > deadline:
            return status
        time.sleep(POLL_S)
