"""Workers out of step learn, whatever the order in which they happen to step."""

from __future__ import annotations

import random

import numpy as np
import pytest

from host_stack.progress import Consistency, Progress
from workloads.optimizers import Optimizer, make_optimizer
from workloads.workload import Workload

WORKERS = 2
STEPS = 20
SPEEDS = ((1, 1), (1, 3), (10, 1), (1, 1000))
"""Steps of each worker in a unit of time, on average."""

RULES = ("ssp:2", "async:steps=3", "async:steps=8")


@pytest.fixture(scope="module")
def workload() -> Workload:
    """Sparse logistic regression of a size that trains in a moment."""
    data = "synthetic:examples=4000,features=2000,nnz=20"
    return Workload.open(data, "lr", seed=1, workers=WORKERS, batch_size=64)


class Schedule:
    """A training in which a seed decides who is next: the server's rules, and nothing else."""

    def __init__(self, workload: Workload, rule: str, optimizer: Optimizer) -> None:
        self._workload = workload
        self._optimizer = optimizer
        self._progress = Progress(WORKERS, Consistency.parse(rule), 0, [0] * WORKERS)
        self.parameters = workload.model.initial_params(1)
        self._seen = [self.parameters.copy() for _ in range(WORKERS)]
        self._sums = [np.zeros(len(self.parameters), np.float32) for _ in range(2)]
        self._next = [0] * WORKERS

    def run(self, seed: int, speeds: tuple[int, ...]) -> None:
        """Train to the end."""
        source = random.Random(seed)
        due = {rank: source.expovariate(speeds[rank]) for rank in range(WORKERS)}
        while due:
            rank = min(due, key=due.__getitem__)
            now = due.pop(rank)
            self._step(rank, now)
            for each in self._go_on(now):
                if self._next[each] < STEPS:
                    due[each] = now + source.expovariate(speeds[each])
        assert self._progress.has_ended

    def _step(self, rank: int, now: float) -> None:
        """Push the gradient of what the worker was last told."""
        step, generation = self._next[rank], self._progress.target(rank)
        keys = self._workload.keys(rank, step)
        at = keys.astype(np.int64)
        gradient, _ = self._workload.gradient(rank, step, keys, self._seen[rank][at])
        self._sums[generation % 2][at] += gradient
        self._next[rank] += 1
        final = self._next[rank] == STEPS
        self._progress.complete(rank, generation, step, now, final=final)

    def _go_on(self, now: float) -> list[int]:
        """Commit what can be; return who goes on, with the parameters of that moment."""
        going = []
        while True:
            for rank in self._progress.release(now):
                self._seen[rank] = self.parameters.copy()
                going.append(rank)
            if not self._progress.can_commit:
                return going
            sums = self._sums[self._progress.round % 2]
            at = np.flatnonzero(sums)
            self._optimizer.apply(self.parameters, at.astype(np.uint64), sums[at])
            sums[:] = 0
            self._progress.commit()


def log_losses(workload: Workload, rule: str, optimizer: str) -> tuple[float, list[float]]:
    """Of the model before the training, and after each of 12 schedules."""
    before = workload.evaluate(workload.model.initial_params(1))["log_loss"]
    after = []
    for seed in range(12):
        made = make_optimizer(optimizer, workload.model.num_keys)
        schedule = Schedule(workload, rule, made)
        schedule.run(seed, SPEEDS[seed % len(SPEEDS)])
        after.append(workload.evaluate(schedule.parameters)["log_loss"])
    return before, after


@pytest.mark.parametrize("rule", RULES)
def test_small_steps_come_to_the_same(workload: Workload, rule: str) -> None:
    """With a small rate, what matters is what is summed and not when: no step is scaled or lost."""
    optimizer = "sgd:learning_rate=0.005"
    before, after = log_losses(workload, rule, optimizer)
    _, (in_step, *_) = log_losses(workload, "bsp", optimizer)
    assert in_step < before
    for each in after:
        assert before - each == pytest.approx(before - in_step, rel=0.02)


@pytest.mark.parametrize("rule", RULES)
def test_every_schedule_learns(workload: Workload, rule: str) -> None:
    """So does the optimiser of `libra run`, which steps far however small a gradient is."""
    before, after = log_losses(workload, rule, "adagrad:learning_rate=0.1")
    assert max(after) < before - 0.05
