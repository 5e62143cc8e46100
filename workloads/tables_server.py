"""The server of a job whose workers bring their own model: `python -m workloads.tables_server`.

It knows keys and values, and nothing of data sets or models. docs/pytorch.md has its use.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from controller.jobapi.channel import ControllerAddress
from controller.jobapi.client import JobIncarnations
from controller.jobapi.row_answers import RowAnswers
from controller.jobapi.shards import split_placement
from host_stack import logs
from host_stack.checkpoint import load_checkpoint, save_checkpoint
from host_stack.commit import Aggregate, Commit
from host_stack.connect import open_transport, server_node
from host_stack.errors import BadInput
from host_stack.fixedpoint import FloatArray
from host_stack.incarnation import Incarnation
from host_stack.job import Job
from host_stack.kv.scheduler import MAX_LIFETIME_S
from host_stack.own_incarnations import EpochFile, OwnIncarnations
from host_stack.placement import Placement
from host_stack.row_reader import RowReader
from host_stack.server import Server
from host_stack.shards import Shards
from workloads.optimizers import Optimizer, make_optimizer
from workloads.train_server import CONTROLLER_S, model_sha256
from workloads.training import emit, run_role

_LOG = logging.getLogger("workloads.tables_server")


class Keeping:
    """Where parameters and the optimiser's state come from, and go to every so many rounds."""

    def __init__(self, path: Path, every: int, shards: Shards, shard: int) -> None:
        """Keep a checkpoint at `path`; `every` 0 leaves it as it is.

        Of several servers each keeps one of its own beside it, `NAME-server2.npz`, and begins with
        its keys of the whole where that is not there yet.
        """
        if every < 0:
            raise BadInput(f"checkpoint-every {every}: it must be 0 or more")
        self._whole = self._path = path
        if len(shards) > 1:
            self._path = path.with_name(f"{path.stem}-server{shard + 1}{path.suffix}")
        self._own = shards.own(shard)
        self._num_keys = shards.num_keys
        self._every = every
        self.epochs = EpochFile(self._path.with_suffix(".epoch.json"))

    def load(self, job: Job, optimizer: Optimizer) -> tuple[int, list[int], FloatArray]:
        """(rounds, steps, parameters) that are there; `BadInput` if they are not of the job."""
        is_whole = not self._path.exists()
        rounds, steps, parameters, state = load_checkpoint(self._whole if is_whole else self._path)
        if is_whole and not rounds and len(parameters) == self._num_keys:
            parameters = parameters[self._own].copy()
        if len(parameters) != job.num_keys or len(steps) != len(job.workers):
            raise BadInput(
                f"{self._path} has {len(parameters)} parameters of {len(steps)} workers, the job "
                f"{job.num_keys} of {len(job.workers)}"
            )
        if rounds or state:
            optimizer.load_state(state)
        return rounds, steps, parameters

    def on_commit(self, optimizer: Optimizer, commit: Commit, parameters: FloatArray) -> None:
        """Write a checkpoint if it is time."""
        rounds = commit.round + 1
        if self._every and rounds % self._every == 0:
            save_checkpoint(self._path, rounds, commit.steps, parameters, optimizer.state())


@contextmanager
def incarnations_of(
    job: Job, controller: ControllerAddress | None, epochs: EpochFile
) -> Iterator[JobIncarnations | OwnIncarnations]:
    """Those of the job's controller, or of a job without one, which are counted in `epochs`."""
    if controller is None:
        yield OwnIncarnations(epochs)
        return
    client = JobIncarnations(controller, job.job)
    try:
        yield client
        client.settle()
    finally:
        client.close()


@contextmanager
def answering(job: Job, controller: ControllerAddress | None, server: Server) -> Iterator[None]:
    """Read rows when the job's controller asks, if it has one."""
    if controller is None:
        yield
        return
    with closing(RowAnswers(controller, job, lambda: server.round, RowReader(job))):
        yield


def load_placement(path: Path, shards: Shards, shard: int) -> Placement:
    """The hot keys of a shard, from a file with those of the job.

    Raises `LayoutMismatch` for a placement of another layout, `BadInput` for keys that the job
    lacks.
    """
    placement = Placement.load(path)
    shards.job(shard).layout.require(placement.layout, str(path), here="in the job file")
    if len(placement) and (highest := placement.keys.max()) >= shards.num_keys:
        raise BadInput(f"{path} places key {highest}: the job has keys 0 to {shards.num_keys - 1}")
    return split_placement(placement, [job.num_keys for job in shards.jobs])[shard]


def first_incarnation(
    given: argparse.Namespace,
    shards: Shards,
    incarnations: JobIncarnations | OwnIncarnations,
    epochs: EpochFile,
    round_: int,
    *,
    resumed: bool,
) -> Incarnation:
    """The one in which this process begins, with `round_`: in no epoch of an earlier process."""
    if isinstance(incarnations, JobIncarnations):
        first = incarnations.begin(round_, resumed=resumed, timeout_s=CONTROLLER_S)
        epochs.write(first.epoch)
        return first
    job = shards.job(given.shard)
    if given.placement is None:
        placed = Placement.empty(job.layout)
    else:
        placed = load_placement(given.placement, shards, given.shard)
    return Incarnation(incarnations.begin(job.epoch), round_, job.fraction_bits, 1, placed)


def serve(given: argparse.Namespace) -> None:
    """Serve until all workers have ended; emits `ready`, a `commit` for each round, and `done`."""
    if given.save is not None and not given.save.absolute().parent.is_dir():
        raise BadInput(f"--save {given.save}: its folder does not exist")
    if given.placement is not None and given.controller is not None:
        raise BadInput(
            f"--placement {given.placement} with --controller: the hot keys are those that the "
            "controller has (libra push gives it others); leave one of them away"
        )
    shards = Shards.load(given.job)
    job = shards.job(given.shard)
    optimizer = make_optimizer(given.optimizer, job.num_keys, learning_rate=given.learning_rate)
    keeping = Keeping(given.parameters, given.checkpoint_every, shards, given.shard)
    round_, steps, parameters = keeping.load(job, optimizer)

    def on_commit(commit: Commit, parameters: FloatArray, aggregate: Aggregate) -> None:
        keeping.on_commit(optimizer, commit, parameters)
        emit("commit", round=commit.round, keys=commit.keys, drained_rows=commit.drained_rows)

    address = given.controller
    controller = None if address is None else ControllerAddress.parse(address, given.tls)
    # Also one that died before its first checkpoint has heard of its workers.
    resumed = round_ > 0 or keeping.epochs.read() is not None
    with incarnations_of(job, controller, keeping.epochs) as incarnations:
        epochs = keeping.epochs
        first = first_incarnation(given, shards, incarnations, epochs, round_, resumed=resumed)
        transport = open_transport(job, job.server)
        node = server_node(job, job.server)
        server = Server(
            job,
            first,
            parameters,
            optimizer,
            transport,
            node,
            incarnations,
            on_commit,
            resumed=steps if resumed else None,
            records_first=len(shards) > 1,
        )
        logs.describe(lambda: {"job": job.job, "epoch": server.epoch, "round": server.round})
        emit("ready", round=round_, epoch=first.epoch)
        _LOG.info("ready for round %d", round_)
        node.start()
        with answering(job, controller, server):
            server.run()
            # Workers that make no steps may still push.
            node.finalize(MAX_LIFETIME_S)
        epochs.remove()
        sha256 = model_sha256(server.parameters)
        emit("done", model_sha256=sha256, counters=server.statistics())
        transport.close()
    if given.save is not None:
        np.save(given.save, server.parameters)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tables_server", description="The server of a job.")
    parser.add_argument("job", type=Path, help="the job's description, a job.json")
    parser.add_argument("parameters", type=Path, help="checkpoint that it begins with")
    parser.add_argument("--shard", type=int, default=0, help="number of this server, from 0")
    parser.add_argument("--optimizer", default="sgd", help="NAME or NAME:option=number,…")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--controller", help="HOST:PORT or unix:PATH of the job's controller")
    parser.add_argument("--tls", type=Path, help="folder of ca.pem, cert.pem and key.pem, or token")
    parser.add_argument(
        "--placement", type=Path, help="hot keys of a job without a controller, of all servers"
    )
    parser.add_argument("--checkpoint-every", type=int, default=0, help="rounds; 0 for never")
    parser.add_argument("--save", type=Path, help="write the final parameters, as .npy")
    logs.add_options(parser)
    given = parser.parse_args()
    logs.start(given.log_format, "server", level=given.log_level)
    serve(given)


if __name__ == "__main__":
    sys.exit(run_role(main))
