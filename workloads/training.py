"""What the processes of one training run share: the configuration file and events on stdout."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_type_hints

from host_stack import logs
from host_stack.audit.log import PushLog
from host_stack.errors import BadInput, CannotWrite, LibraError
from host_stack.jsonfile import read_json_object
from workloads.table_part import open_tables
from workloads.workload import Workload

AUDIT_FOLDER = "audit"
"""Where the processes of a run record, within the folder of their mode."""

DENSE_FOLDER = "snapshots-dense"
"""Where a worker keeps snapshots of what is not at the server."""

FRAMEWORKS = ("numpy", "torch")


@dataclass(frozen=True)
class Training:
    """A training run, as `libra run` hands it to worker and server processes.

    Attributes:
        dataset, model, optimizer: names as on the command line.
        learning_rate: of the optimiser; the gradient is the sum over workers.
        rounds, batch, seed: rounds of BSP, examples per worker and round, seed of everything.
        evaluate_every: rounds between snapshots of the model.
        checkpoint_every: rounds between checkpoints of the server; 0 for none.
        consistency: as `Consistency.parse` reads it; `rounds` are then the steps of each worker.
        audit: record what is pushed and committed (`host_stack.audit`).
        framework: of `FRAMEWORKS`; with torch the job has the embedding tables only, and gradients
            are averaged over workers.
    """

    dataset: str
    model: str
    optimizer: str
    learning_rate: float
    rounds: int
    batch: int
    seed: int
    evaluate_every: int
    checkpoint_every: int
    consistency: str = "bsp"
    audit: bool = False
    framework: str = FRAMEWORKS[0]

    def __post_init__(self) -> None:
        lowest = {"rounds": 1, "batch": 1, "evaluate_every": 1, "checkpoint_every": 0}
        for name, low in lowest.items():
            if (value := getattr(self, name)) < low:
                raise BadInput(f"{name} {value}: it must be {low} or more")

    def open_workload(self, workers: int) -> Workload:
        """The workload of this run."""
        return open_workload(
            self.framework,
            self.dataset,
            self.model,
            seed=self.seed,
            workers=workers,
            batch_size=self.batch,
        )

    def save(self, path: Path) -> None:
        """Write the configuration as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> Training:
        """Read a configuration of `save`; `BadInput` if the file is none."""
        given = read_json_object(path, "training file")
        kinds = get_type_hints(cls)
        for name, kind in kinds.items():
            if type(given.get(name)) is not kind:
                raise BadInput(
                    f"{path} is not a training file: {name} is {given.get(name)!r}, which is no "
                    f"{kind.__name__}"
                )
        if given.keys() != kinds.keys():
            unknown = ", ".join(sorted(given.keys() - kinds.keys()))
            raise BadInput(f"{path} is not a training file: unknown are {unknown}")
        return cls(**given)


def open_workload(
    framework: str, dataset: str, model: str, *, seed: int, workers: int, batch_size: int
) -> Workload:
    """The workload of which a job has the keys; see `Workload.open` and `open_tables`.

    Raises `BadInput` for an unknown framework, `WorkloadError` for a workload that it cannot do.
    """
    if framework not in FRAMEWORKS:
        raise BadInput(f"unknown framework {framework!r}; known are {', '.join(FRAMEWORKS)}")
    open_ = open_tables if framework == "torch" else Workload.open
    return open_(dataset, model, seed=seed, workers=workers, batch_size=batch_size)


def shard_folder(folder: Path, servers: int, shard: int) -> Path:
    """Where a server and the audit of its shard keep their files: `server2` for the second one.

    A job with one server has no folders of shards.
    """
    return folder if servers == 1 else folder / f"server{shard + 1}"


def push_log(folder: Path, servers: int, shard: int, rank: int) -> PushLog:
    """Where a process of a worker records what it pushes to a shard."""
    return PushLog(shard_folder(folder, servers, shard) / AUDIT_FOLDER, rank)


def emit(event: str, **fields: Any) -> None:
    """Write one event as a line of JSON on stdout."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def await_start() -> None:
    """Wait until the runner says, by a line on standard input, that it measures from here."""
    if not sys.stdin.readline():
        raise LibraError("the runner ended before the training began")


def run_role(main: Any) -> int:
    """Run a role's main function; an expected error becomes one line and its exit code.

    A full disk may hold the log, too: that something cannot be written is an event besides.
    """
    try:
        main()
    except CannotWrite as error:
        emit("failed", why=str(error))
        with suppress(OSError):
            logs.tell_error(error)
        return error.exit_code
    except LibraError as error:
        logs.tell_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0
