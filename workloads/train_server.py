"""The server process of `libra run`: `python -m workloads.train_server FOLDER`."""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import numpy as np

from controller.jobapi.channel import ControllerAddress
from controller.jobapi.client import JobIncarnations
from controller.jobapi.row_answers import RowAnswers
from host_stack import logs
from host_stack.audit.log import CommitLog
from host_stack.checkpoint import load_checkpoint, save_checkpoint
from host_stack.commit import Aggregate, Commit
from host_stack.connect import open_transport, server_node
from host_stack.errors import BadInput
from host_stack.fixedpoint import FloatArray
from host_stack.layout import SERVER_RANK, make_tag
from host_stack.probe import probe
from host_stack.progress import BSP, Consistency
from host_stack.row_reader import RowReader
from host_stack.server import Server
from host_stack.shards import Shards
from workloads.holds import Holds
from workloads.optimizers import Optimizer, make_optimizer
from workloads.role_metrics import ServerMetrics
from workloads.role_metrics import serve as serve_metrics
from workloads.snapshots import Snapshots
from workloads.training import AUDIT_FOLDER, Training, emit, run_role, shard_folder

_LOG = logging.getLogger("workloads.train_server")

CONTROLLER_S = 120.0
"""How long the controller may take to give the server its epoch."""


class Recorder:
    """Emits commits, and keeps snapshots and checkpoints of the model on disk."""

    def __init__(self, folder: Path, job: int, training: Training, optimizer: Optimizer) -> None:
        folder.mkdir(exist_ok=True)
        self._checkpoint = folder / "checkpoint.npz"
        self._snapshots = Snapshots(folder / "snapshots")
        self._job = job
        self._training = training
        self._optimizer = optimizer
        self._log = CommitLog(folder / AUDIT_FOLDER) if training.audit else None

    def begin(self, parameters: FloatArray, workers: int, *, resume: bool) -> tuple[int, list[int]]:
        """Take up the last checkpoint, if there is one to resume from.

        Returns:
            Rounds committed, and steps of each worker; `BadInput` if they are not of this training.
        """
        if resume and self._checkpoint.exists():
            rounds, steps, saved, state = load_checkpoint(self._checkpoint)
            if (len(saved), len(steps)) != (len(parameters), workers):
                raise BadInput(
                    f"{self._checkpoint} has {len(saved)} parameters of {len(steps)} workers, the "
                    f"job {len(parameters)} of {workers}"
                )
            if max(steps) > self._training.rounds or rounds > sum(steps):
                raise BadInput(
                    f"{self._checkpoint} has {rounds} rounds, and of each worker {steps} steps; "
                    f"the training has {self._training.rounds}"
                )
            parameters[:] = saved
            self._optimizer.load_state(state)
            return rounds, steps
        self._snapshots.save(0, parameters)
        return 0, [0] * workers

    def on_commit(self, commit: Commit, parameters: FloatArray, aggregate: Aggregate) -> None:
        """Called by the server after each round."""
        if self._log is not None:  # before the checkpoint, behind which nothing comes again
            tag = make_tag(commit.epoch, commit.round)
            keys = aggregate.keys.astype(np.uint64)
            self._log.record(tag, commit.steps, commit.fraction_bits, keys, aggregate.sums)
        rounds = commit.round + 1
        is_last = min(commit.steps) == self._training.rounds
        if rounds % self._training.evaluate_every == 0 or is_last:
            self._snapshots.save(rounds, parameters)
        every = self._training.checkpoint_every
        if every and (rounds % every == 0 or is_last):
            state = self._optimizer.state()
            save_checkpoint(self._checkpoint, rounds, commit.steps, parameters, state)
        emit("commit", job=self._job, **asdict(commit))


def model_sha256(parameters: FloatArray) -> str:
    """SHA-256 of a model: its float32 values, little-endian, in the order of keys."""
    return hashlib.sha256(parameters.astype("<f4").tobytes()).hexdigest()


def serve(
    folder: Path,
    controller: ControllerAddress,
    holds: Holds,
    *,
    shard: int = 0,
    resume: bool,
    metrics_at: str = "",
) -> None:
    """Serve all rounds of a shard; emits `ready`, a `commit` for each round and `done`."""
    shards = Shards.load(folder / "job.json")
    job = shards.job(shard)
    training = Training.load(folder / "training.json")
    workload = training.open_workload(len(job.workers))
    parameters = workload.model.initial_params(training.seed)[shards.own(shard)].copy()
    optimizer = make_optimizer(
        training.optimizer, job.num_keys, learning_rate=training.learning_rate
    )
    keep_in = shard_folder(folder, len(shards), shard)
    recorder = Recorder(keep_in, job.job, training, optimizer)
    metrics = ServerMetrics(job)
    if metrics_at:
        serve_metrics(metrics.registry, metrics_at)
    round_, steps = recorder.begin(parameters, len(job.workers), resume=resume)
    consistency = Consistency.parse(training.consistency)
    incarnations = JobIncarnations(controller, job.job)
    first = incarnations.begin(round_, resumed=resume, timeout_s=CONTROLLER_S)
    transport = open_transport(job, job.server)
    node = server_node(job, job.server)

    def on_commit(commit: Commit, values: FloatArray, aggregate: Aggregate) -> None:
        recorder.on_commit(commit, values, aggregate)
        metrics.committed(commit, server.statistics())

    server = Server(
        job,
        first,
        parameters,
        optimizer,
        transport,
        node,
        incarnations,
        on_commit,
        consistency=consistency,
        resumed=steps if resume else None,
        on_phase=holds.at,
        records_first=len(shards) > 1,
    )
    metrics.watch(transport)
    logs.describe(lambda: {"job": job.job, "epoch": server.epoch, "round": server.round})
    node.start()
    # Later on, the switch may be in another epoch already, or be dead.
    asks = not resume and len(first.placement) > 0
    switch = probe(job, SERVER_RANK, transport) if asks else None
    emit("ready", switch=switch, round=round_, epoch=first.epoch)
    _LOG.info("ready for round %d", round_)
    # Otherwise the workers say when they have ended. One that comes back may need the values that
    # the last round of another shard has found.
    counts_rounds = consistency == BSP and training.framework == "numpy" and len(shards) == 1
    with closing(RowAnswers(controller, job, lambda: server.round, RowReader(job))):
        server.run(training.rounds if counts_rounds else None, steps=training.rounds)
    incarnations.settle()
    emit("done", model_sha256=model_sha256(parameters), counters=server.statistics())
    _LOG.info("all rounds are committed")
    node.finalize()
    incarnations.close()
    transport.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="train_server", description="The server of a job.")
    parser.add_argument("folder", type=Path, help="job.json and training.json")
    parser.add_argument("controller", help="HOST:PORT or unix:PATH of the job's controller")
    parser.add_argument("--tls", type=Path, help="folder of ca.pem, cert.pem and key.pem, or token")
    parser.add_argument(
        "--shard", type=int, default=0, help="of a job with several servers, from 0"
    )
    parser.add_argument("--resume", action="store_true", help="go on at the last checkpoint")
    parser.add_argument("--hold", action="append", default=[], help="wait at ROUND:PHASE")
    parser.add_argument("--metrics", default="", help="HOST:PORT to serve Prometheus metrics at")
    logs.add_options(parser)
    given = parser.parse_args()
    logs.start(given.log_format, "server", level=given.log_level)
    controller = ControllerAddress.parse(given.controller, given.tls)
    holds = Holds(given.hold)
    serve(
        given.folder,
        controller,
        holds,
        shard=given.shard,
        resume=given.resume,
        metrics_at=given.metrics,
    )


if __name__ == "__main__":
    sys.exit(run_role(main))
