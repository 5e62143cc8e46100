"""A worker process of `libra run --framework torch`, started by torchrun.

    torchrun --nnodes=N --node-rank=R … -m workloads.train_torch FOLDER

It tells the same events as `workloads.train_worker`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from host_stack import logs
from host_stack.connect import ignore_pushed
from host_stack.errors import BadInput
from host_stack.sharded import push_stats, where
from host_stack.shards import Shards
from host_stack.stopwatch import Phases, Stopwatch
from host_stack.torch import LibraOptimizer, connected, dense_parameters, join_group
from host_stack.worker import OnPushed
from workloads import options as opt
from workloads.snapshots import Snapshots
from workloads.table_part import TablePart
from workloads.torch_dlrm import Batch, TorchDlrm
from workloads.training import DENSE_FOLDER, Training, await_start, emit, push_log, run_role
from workloads.workload import Workload


def dense_optimizer(spec: str, learning_rate: float, parameters: list[Any]) -> Any:
    """PyTorch's optimiser of the kind of the server's (`workloads.optimizers`)."""
    name, options = opt.split("optimiser", spec)
    rate = options.get("learning_rate", learning_rate)
    if name == "sgd":
        return torch.optim.SGD(parameters, rate)
    if name == "momentum":
        return torch.optim.SGD(parameters, rate, momentum=options.get("momentum", 0.9))
    if name == "adagrad":
        first = options.get("initial_accumulator", 0.0)
        eps = options.get("epsilon", 1e-8)
        return torch.optim.Adagrad(parameters, rate, initial_accumulator_value=first, eps=eps)
    if name == "adam":
        betas = options.get("beta1", 0.9), options.get("beta2", 0.999)
        return torch.optim.Adam(parameters, rate, betas=betas, eps=options.get("epsilon", 1e-8))
    raise BadInput(f"optimiser {name} has no counterpart in PyTorch here")


class Trainer:
    """The model of one process, and its part of every batch."""

    def __init__(self, training: Training, workload: Workload, rank: int) -> None:
        part = workload.model
        if not isinstance(part, TablePart):
            raise BadInput("the training file is not of framework torch")
        self._starts = part.whole.field_starts
        self._workload = workload
        self._rank = rank
        self.net = TorchDlrm(part, training.seed, workload.dataset.task)

    def batch(self, round_: int) -> Batch:
        """Its batch of a round."""
        return Batch.of(self._workload.batch(self._rank, round_), self._starts)


def train(folder: Path) -> None:
    """Train this process's share of every round; emits one `round` event each."""
    # So that the bits do not depend on how many cores a host has.
    torch.set_num_threads(1)
    job = Shards.load(folder / "job.json")
    training = Training.load(folder / "training.json")
    rank = join_group(job).rank
    trainer = Trainer(training, training.open_workload(len(job.workers)), rank)

    def on_pushed_of(shard: int) -> OnPushed:
        return (
            push_log(folder, len(job), shard, rank).record
            if training.audit
            else ignore_pushed(shard)
        )

    with connected(job, rank, on_pushed_of) as connection:
        worker = connection.worker
        dense = dense_optimizer(
            training.optimizer, training.learning_rate, dense_parameters(trainer.net)
        )
        logs.describe(lambda: {**where(worker), "worker": rank})
        optimizer = LibraOptimizer(trainer.net, worker, dense)
        first = optimizer.start()
        emit("ready", switch=connection.probe(), round=first)
        await_start()
        keep = Snapshots(folder / DENSE_FOLDER) if rank == 0 else None
        _train_rounds(trainer, optimizer, training, keep)
        optimizer.end()
        emit("done", **asdict(push_stats(worker)))


def _train_rounds(
    trainer: Trainer, optimizer: LibraOptimizer, training: Training, keep: Snapshots | None
) -> None:
    batch = trainer.batch(0)
    if keep is not None:
        keep.save(0, trainer.net.dense())
    for round_ in range(training.rounds):
        computed = Phases()
        with Stopwatch() as watch:
            optimizer.zero_grad()
            loss = trainer.net.loss(batch)
            loss.backward()
            is_last = round_ + 1 == training.rounds
            if not is_last:
                batch = trainer.batch(round_ + 1)
                optimizer.prefetch({"rows": batch.features})
            watch.lap(computed, "compute")
        optimizer.step()
        optimizer.times.phases.add(computed)
        emit("round", round=round_, loss=loss.item(), **asdict(optimizer.times))
        if keep is not None and (is_last or (round_ + 1) % training.evaluate_every == 0):
            keep.save(round_ + 1, trainer.net.dense())


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="train_torch", description="A worker of a job.")
    parser.add_argument("folder", type=Path, help="job.json and training.json")
    logs.add_options(parser)
    given = parser.parse_args()
    logs.start(given.log_format, "worker", level=given.log_level)
    train(given.folder)


if __name__ == "__main__":
    sys.exit(run_role(main))
