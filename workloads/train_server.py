"""The server process of `libra run`: `python -m workloads.train_server FOLDER`."""

from __future__ import annotations

import argparse
import hashlib
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from host_stack.checkpoint import save_checkpoint
from host_stack.commit import Aggregate, Commit
from host_stack.connect import open_transport, server_node
from host_stack.fixedpoint import FloatArray
from host_stack.incarnation import Incarnation, OwnIncarnations
from host_stack.job import Job
from host_stack.layout import SERVER_RANK
from host_stack.placement import Placement
from host_stack.probe import probe
from host_stack.server import Server
from workloads.optimizers import Optimizer, make_optimizer
from workloads.training import Training, emit, run_role

PLACEMENT_VERSION = 1


class Recorder:
    """Emits commits, and keeps snapshots of the model so that quality is measured afterwards."""

    def __init__(self, folder: Path, training: Training, optimizer: Optimizer) -> None:
        self._folder = folder
        self._training = training
        self._optimizer = optimizer
        self.rounds: list[int] = []
        self.snapshots: list[FloatArray] = []

    def snapshot(self, rounds: int, parameters: FloatArray) -> None:
        """Keep a copy of the model after `rounds` rounds."""
        self.rounds.append(rounds)
        self.snapshots.append(parameters.copy())

    def on_commit(self, commit: Commit, parameters: FloatArray, aggregate: Aggregate) -> None:
        """Called by the server after each round."""
        del aggregate
        rounds = commit.round + 1
        if rounds % self._training.evaluate_every == 0 or rounds == self._training.rounds:
            self.snapshot(rounds, parameters)
        every = self._training.checkpoint_every
        if every and rounds % every == 0:
            path = self._folder / "checkpoint.npz"
            save_checkpoint(path, rounds, parameters, self._optimizer.state())
        emit("commit", **asdict(commit))

    def save(self) -> None:
        """Write the snapshots: `rounds`, `models` (float32[snapshots, num_keys])."""
        np.savez(
            self._folder / "snapshots.npz",
            rounds=np.array(self.rounds),
            models=np.stack(self.snapshots),
        )


def model_sha256(parameters: FloatArray) -> str:
    """SHA-256 of a model: its float32 values, little-endian, in the order of keys."""
    return hashlib.sha256(parameters.astype("<f4").tobytes()).hexdigest()


def serve(folder: Path) -> None:
    """Serve all rounds; emits `ready`, a `commit` for each round and `done`."""
    job = Job.load(folder / "job.json")
    training = Training.load(folder / "training.json")
    workload = training.open_workload(len(job.workers))
    parameters = workload.model.initial_params(training.seed)
    optimizer = make_optimizer(
        training.optimizer, job.num_keys, learning_rate=training.learning_rate
    )
    placement = Placement.load(folder / "placement.npz")
    recorder = Recorder(folder, training, optimizer)
    transport = open_transport(job, job.server)
    node = server_node(job, job.server)
    server = Server(
        job,
        Incarnation(job.epoch, 0, job.fraction_bits, PLACEMENT_VERSION, placement),
        parameters,
        optimizer,
        transport,
        node,
        OwnIncarnations(),
        recorder.on_commit,
    )
    node.start()
    emit("ready", switch=len(placement) > 0 and probe(job, SERVER_RANK, transport))
    recorder.snapshot(0, parameters)
    server.run(training.rounds)
    recorder.save()
    emit("done", model_sha256=model_sha256(parameters), counters=server.statistics())
    node.finalize()
    transport.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="train_server", description="The server of a job.")
    parser.add_argument("folder", type=Path, help="job.json, training.json and placement.npz")
    serve(parser.parse_args().folder)


if __name__ == "__main__":
    sys.exit(run_role(main))
