"""What a mode prepares and records, without an emulation."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.daemon.controller import Controller
from controller.daemon.messages import read_ask
from controller.daemon.store import Store
from controller.daemon.wanted import SwitchWanted
from controller.identify import Heat
from controller.inventory import Inventory
from controller.jobapi import control_pb2
from controller.jobapi.operator import npz
from controller.tables import Membership
from host_stack.job import Job
from host_stack.placement import Placement, heat_based
from mininet_topos.mode import ModeRun
from mininet_topos.options import RunOptions
from mininet_topos.plan import Plan
from mininet_topos.processes import Event
from workloads.training import Training

OPTIONS = RunOptions(dataset="synthetic", model="lr", workers=3, rounds=7, batch=32, seed=5)
ARTIFACT = Artifact.load()
LAYOUT = ARTIFACT.layout


def plan(hot: int) -> Plan:
    """A plan with some hot keys."""
    keys = np.arange(hot, dtype=np.uint64)
    heat = Heat(keys, np.ones(hot), 1)
    return Plan(heat, (heat_based(keys, LAYOUT),), 33)


def mode_run(mode: str, folder: Path, hot: int = 100) -> ModeRun:
    """A mode that is not run."""
    return ModeRun(mode, OPTIONS, plan(hot), ARTIFACT, folder)


def membership_of(run: ModeRun) -> Membership:
    """The job as the controller installs it first."""
    (placement,) = run.files.placements()
    (spec,) = run.files.specs(max(500, len(placement)))
    request = control_pb2.CreateJobRequest(spec=spec, placement=npz(placement))
    store = Store(run.result.folder / "state.sqlite")
    controller = Controller(run.files.inventory(), store)
    keeper = controller.create(read_ask(request))
    wanted = SwitchWanted(controller.inventory, "s1", ARTIFACT)
    membership = wanted.membership(keeper.record, 1, keeper.record.fraction_bits)
    store.close()
    return membership


@pytest.mark.parametrize("mode", ["libra", "fallback", "server-only"])
def test_the_files_of_a_mode(mode: str, tmp_path: Path) -> None:
    """Workers and server read the same job, training and placement that was decided."""
    files = mode_run(mode, tmp_path).files
    files.write(500)
    files.write_job([json.dumps(asdict(job)) for job in files.shards(500).jobs])
    job = Job.load(tmp_path / "job.json")
    assert (job.num_keys, job.fraction_bits, job.layout) == (500, 33, LAYOUT)
    assert len(job.workers) == 3
    assert job.server not in job.workers
    training = Training.load(tmp_path / "training.json")
    assert (training.rounds, training.batch, training.seed) == (7, 32, 5)
    assert Inventory.load(tmp_path / "inventory.toml") == mode_run(mode, tmp_path).files.inventory()
    placement = Placement.load(tmp_path / "placement-1.npz")
    assert len(placement) == (0 if mode == "server-only" else 100)
    assert placement.layout == LAYOUT


@pytest.mark.parametrize(("hot", "rows"), [(0, 1), (32, 1), (33, 2), (65, 4), (8192 * 32, 8192)])
def test_a_job_gets_a_power_of_two_of_rows(hot: int, rows: int, tmp_path: Path) -> None:
    """The smallest aligned block that holds the placement, which the switch accepts."""
    membership = membership_of(mode_run("libra", tmp_path, hot))
    membership.check(LAYOUT)
    assert (membership.row_base, membership.rows) == (0, rows)
    assert membership.fraction_bits == 33


def test_members_hang_where_the_topology_says(tmp_path: Path) -> None:
    """Addresses of the job and ports of the switch belong together."""
    run = mode_run("libra", tmp_path)
    job, membership = run.files.shards(500).job(0), membership_of(run)
    assert tuple(worker.address for worker in membership.workers) == job.workers
    assert membership.server.address == job.server
    assert [worker.port for worker in membership.workers] == [2, 3, 4]
    assert (membership.job, membership.epoch, membership.group) == (job.job, job.epoch, job.group)


class Answers:
    """A network whose links carry something at some looks, and processes that are checked."""

    def __init__(self, quiet: list[bool]) -> None:
        self.quiet = quiet
        self.checks = 0

    def is_quiet(self, for_s: float) -> bool:
        """What the next look sees."""
        assert for_s > 0
        return self.quiet.pop(0)

    def check(self) -> None:
        """Count."""
        self.checks += 1


def test_training_begins_when_links_are_quiet(tmp_path: Path) -> None:
    """Not before, and a process that dies meanwhile is noticed."""
    seen: Any = Answers([False, False, True, False])
    mode_run("libra", tmp_path)._await_quiet(seen, seen)
    assert (seen.quiet, seen.checks) == ([False], 2)


def test_events_are_recorded(tmp_path: Path) -> None:
    """Rounds by number, commits in order, and the last words of server and workers."""
    run = mode_run("libra", tmp_path)
    run._take(Event("worker1", "round", {"round": 0, "loss": 1.0}))
    run._take(Event("worker2", "round", {"round": 0, "loss": 2.0}))
    run._take(Event("worker1", "round", {"round": 1, "loss": 0.5}))
    run._take(Event("server", "commit", {"round": 0}))
    run._take(Event("server", "ready", {}))
    run._take(Event("server", "done", {"model_sha256": "ab"}))
    run._take(Event("worker2", "done", {"retransmissions": 3}))
    run._take(Event("scheduler", "done", {}))
    result = run.result
    assert [len(result.rounds[number]) for number in (0, 1)] == [2, 1]
    assert result.commits == {0: {"server": {"round": 0}}}
    assert result.servers_done == {"server": {"model_sha256": "ab"}}
    assert result.workers_done == {"worker2": {"retransmissions": 3}}
