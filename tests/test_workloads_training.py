"""What the processes of a training run share."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from host_stack.checkpoint import save_checkpoint
from host_stack.errors import BadInput, CannotWrite, PushFailed
from workloads.optimizers import make_optimizer
from workloads.train_server import Recorder
from workloads.training import Training, emit, run_role, shard_folder

TRAINING = Training(
    dataset="synthetic:examples=300,features=50", model="lr", optimizer="sgd", learning_rate=0.5,
    rounds=4, batch=16, seed=3, evaluate_every=2, checkpoint_every=0,
)  # fmt: skip


def test_files_hold_the_training(tmp_path: Path) -> None:
    """What was saved is loaded."""
    TRAINING.save(tmp_path / "training.json")
    assert Training.load(tmp_path / "training.json") == TRAINING


def test_a_server_of_several_makes_its_folder(tmp_path: Path) -> None:
    """Nobody has to make `server2` before it is started; what it kept there is found again."""
    training = replace(TRAINING, checkpoint_every=1)
    folder = shard_folder(tmp_path, 2, 1)
    recorder = Recorder(folder, 2, training, make_optimizer("sgd", 3, learning_rate=0.5))
    assert recorder.begin(np.ones(3, np.float32), 2, resume=True) == (0, [0, 0])
    assert (folder / "snapshots").is_dir()


@pytest.mark.parametrize(
    ("keys", "rounds", "steps", "why"),
    [
        (1, 2, [2, 2], "1 parameters of 2 workers, the job 3 of 2"),
        (4, 2, [2, 2], "4 parameters"),
        (3, 2, [2], "of 1 workers"),
        (3, 2, [2, 2, 2], "of 3 workers"),
        (3, 5, [5, 5], "the training has 4"),
        (3, 4, [1, 2], "4 rounds"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(
    keys: int, rounds: int, steps: list[int], why: str, tmp_path: Path
) -> None:
    """It does not fill the model with something else."""
    save_checkpoint(tmp_path / "checkpoint.npz", rounds, steps, np.ones(keys, np.float32), {})
    recorder = Recorder(tmp_path, 1, TRAINING, make_optimizer("sgd", 3, learning_rate=0.5))
    parameters = np.zeros(3, np.float32)
    with pytest.raises(BadInput, match=why):
        recorder.begin(parameters, 2, resume=True)
    assert not parameters.any()


def test_the_workload_is_the_one_named() -> None:
    """Data set, model, seed, batch size and workers arrive."""
    workload = TRAINING.open_workload(2)
    assert (workload.dataset.name, workload.model.name) == (TRAINING.dataset, "lr")
    assert len(workload.batch(1, 0)) == 16
    assert workload.schedule.workers == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "null",
        json.dumps({"dataset": "movielens"}),
        json.dumps(asdict(TRAINING) | {"color": "red"}),
    ],
)
def test_what_is_no_training_file(text: str, tmp_path: Path) -> None:
    """Anything else is refused, with the file's name."""
    path = tmp_path / "training.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"training\.json is not a training file"):
        Training.load(path)


def test_no_training_file(tmp_path: Path) -> None:
    """A file that is not there."""
    with pytest.raises(BadInput, match="is not a training file"):
        Training.load(tmp_path / "nowhere.json")


def test_events_are_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, with the event's name."""
    emit("round", round=3, loss=0.5)
    emit("ready")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"event": "round", "round": 3, "loss": 0.5},
        {"event": "ready"},
    ]


@pytest.mark.parametrize(
    ("error", "code"), [(BadInput("no such job"), 2), (PushFailed("no such job"), 1)]
)
def test_expected_errors_are_one_line(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind of the error decides the exit code."""

    def main() -> None:
        raise error

    assert run_role(main) == code
    assert capsys.readouterr().err == "error: no such job\n"


def test_what_cannot_be_written_is_an_event_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The log may be on the same full disk."""

    def main() -> None:
        raise CannotWrite("no room")

    assert run_role(main) == 1
    told = capsys.readouterr()
    assert json.loads(told.out) == {"event": "failed", "why": "no room"}
    assert told.err == "error: no room\n"


def test_an_interrupt_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """The shell's code for SIGINT."""

    def main() -> None:
        raise KeyboardInterrupt

    assert run_role(main) == 130
    assert capsys.readouterr().err == ""


def test_success() -> None:
    """Zero."""
    assert run_role(lambda: None) == 0
