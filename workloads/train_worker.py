"""A worker process of `libra run`: `python -m workloads.train_worker FOLDER RANK`."""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np

from host_stack import logs
from host_stack.connect import connected
from host_stack.fixedpoint import FloatArray
from host_stack.incarnation import Moved
from host_stack.placement import Keys
from host_stack.progress import BSP, Consistency
from host_stack.sharded import JobWorker, push_stats, where
from host_stack.shards import Shards
from host_stack.stopwatch import Phases, Stopwatch
from host_stack.worker import OnPushed
from workloads.holds import Holds
from workloads.role_metrics import WorkerMetrics, serve
from workloads.training import Training, await_start, emit, push_log, run_role
from workloads.workload import Workload

_LOG = logging.getLogger("workloads.train_worker")


def train(folder: Path, rank: int, holds: Holds, *, rejoin: bool, metrics_at: str = "") -> None:
    """Train the worker's share of every round; emits one `round` event each.

    One that takes the place of a worker that died begins with the open round.
    """
    job = Shards.load(folder / "job.json")
    metrics = WorkerMetrics(job, rank)
    if metrics_at:
        serve(metrics.registry, metrics_at)
    training = Training.load(folder / "training.json")
    workload = training.open_workload(len(job.workers))
    in_step = Consistency.parse(training.consistency) == BSP

    def on_pushed_of(shard: int) -> OnPushed:
        log = push_log(folder, len(job), shard, rank) if training.audit else None

        def on_pushed(tag: int, step: int, keys: Keys, gradients: FloatArray) -> None:
            if log is not None:
                log.record(tag, step, keys, gradients)
            holds.at("push", step)

        return on_pushed

    with connected(job, rank, on_pushed_of, in_step=in_step) as connection:
        worker = connection.worker
        metrics.watch(worker)
        logs.describe(lambda: {**where(worker), "worker": rank})
        round_ = worker.start()
        on_switch = None
        if not rejoin:  # later on, the switch may be in another epoch already, or be dead
            with suppress(Moved):  # it fetches again when it begins
                worker.fetch(workload.keys(rank, round_))
            on_switch = connection.probe()
        emit("ready", switch=on_switch, round=round_)
        _LOG.info("ready for step %d", round_)
        await_start()
        has_ended = False
        while not has_ended:
            try:
                while round_ < training.rounds:
                    holds.at("compute", round_)
                    _train_round(worker, workload, training, rank, round_, metrics)
                    round_ += 1
                if not in_step or len(job) > 1:
                    worker.end(round_ - 1)
                has_ended = True
            except Moved as moved:
                round_, worker.is_current = moved.steps, False
        emit("done", **asdict(push_stats(worker)))
        _LOG.info("all %d steps are made", training.rounds)


def _train_round(
    worker: JobWorker,
    workload: Workload,
    training: Training,
    rank: int,
    round_: int,
    metrics: WorkerMetrics,
) -> None:
    """One round of this worker; raises `Moved` where the server goes on at another one."""
    computed = Phases()
    with Stopwatch() as watch:
        keys = workload.keys(rank, round_)
        if not worker.is_current:
            worker.fetch(keys)
        values = worker.parameters[keys.astype(np.int64)]
        gradient, loss = workload.gradient(rank, round_, keys, values)
        last = round_ + 1 == training.rounds
        next_keys = keys[:0] if last else workload.keys(rank, round_ + 1)
        watch.lap(computed, "compute")
    times = worker.push_round(round_, keys, gradient, next_keys)
    times.phases.add(computed)
    metrics.pushed(round_, times, worker)
    emit(
        "round",
        job=worker.shards[0].job,
        epoch=worker.shards[0].incarnation.epoch,
        round=round_,
        loss=loss,
        **asdict(times),
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="train_worker", description="A worker of a job.")
    parser.add_argument("folder", type=Path, help="job.json and training.json")
    parser.add_argument("rank", type=int, help="position of this host in the job, from 0")
    parser.add_argument("--rejoin", action="store_true", help="take the place of one that died")
    parser.add_argument("--hold", action="append", default=[], help="wait at ROUND:PHASE")
    parser.add_argument("--metrics", default="", help="HOST:PORT to serve Prometheus metrics at")
    logs.add_options(parser)
    given = parser.parse_args()
    logs.start(given.log_format, "worker", level=given.log_level)
    holds = Holds(given.hold)
    train(given.folder, given.rank, holds, rejoin=given.rejoin, metrics_at=given.metrics)


if __name__ == "__main__":
    sys.exit(run_role(main))
