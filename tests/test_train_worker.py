"""A worker process of `libra run` whose job moves before its training begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from host_stack.incarnation import Incarnation, Moved
from host_stack.placement import Placement
from host_stack.push import PushStats
from host_stack.shards import Shards
from host_stack.stopwatch import RoundTimes
from tests.job_in_memory import LAYOUT, make_job
from workloads import train_worker
from workloads.holds import Holds
from workloads.training import Training

NEXT = Incarnation(2, 0, 40, 1, Placement.empty(LAYOUT))


class MovedWorker:
    """A worker of a job that goes to another epoch while it gets its first parameters."""

    job = 1
    round = 0
    incarnation = NEXT
    hot = SimpleNamespace(stats=PushStats())

    def __init__(self, num_keys: int) -> None:
        self.parameters = np.zeros(num_keys, np.float32)
        self.is_current = False
        self.fetched = 0
        self.pushed: list[int] = []

    @property
    def shards(self) -> tuple[MovedWorker]:
        """Itself."""
        return (self,)

    def start(self) -> int:
        """Join."""
        return 0

    def fetch(self, keys: np.ndarray) -> None:
        """The first time, the server says that the job has moved."""
        self.fetched += 1
        if self.fetched == 1:
            raise Moved(NEXT, 0, 0)
        self.is_current = True

    def push_round(self, step: int, *push: np.ndarray) -> RoundTimes:
        """Commit at once."""
        assert self.is_current
        self.pushed.append(step)
        return RoundTimes()


def test_a_job_that_moves_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker fetches again when it begins, and trains."""
    data = "synthetic:examples=100,features=50,nnz=5"
    training = Training(data, "lr", "sgd", 0.1, 2, 8, 1, 1, 0)
    training.save(tmp_path / "training.json")
    num_keys = training.open_workload(1).model.num_keys
    Shards((make_job(1, num_keys, 40, 9700),)).save(tmp_path / "job.json")
    worker = MovedWorker(num_keys)

    @contextmanager
    def connected(*_: Any, **__: Any) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(worker=worker, probe=lambda: None)

    metrics = SimpleNamespace(watch=lambda _: None, pushed=lambda *_: None)
    monkeypatch.setattr(train_worker, "connected", connected)
    monkeypatch.setattr(train_worker, "WorkerMetrics", lambda *_: metrics)
    monkeypatch.setattr(train_worker, "await_start", lambda: None)
    train_worker.train(tmp_path, 0, Holds([]), rejoin=False)
    assert worker.pushed == [0, 1]
