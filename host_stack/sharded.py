"""A worker of a job with several servers: one `Worker` for each shard, behind the same calls.

All shards make a round at once, each in a thread. So their committed rounds differ by one at most:
nobody pushes round r + 1 anywhere before round r is committed everywhere. A worker that comes back
in between makes round r again from the parameters that round r found, also at a server that has
committed it, and pushes it where it is missing (docs/reliability.md, "Several servers").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

import numpy as np

from host_stack.errors import BadInput, ServersApart
from host_stack.fixedpoint import FloatArray
from host_stack.incarnation import Moved
from host_stack.placement import Keys
from host_stack.push import PushStats
from host_stack.shards import Shards
from host_stack.stopwatch import RoundTimes
from host_stack.worker import Worker

_T = TypeVar("_T")


class JobWorker(Protocol):
    """What a training loop needs of a worker, whether its job has one server or several."""

    parameters: FloatArray
    is_current: bool

    @property
    def shards(self) -> Sequence[Worker]:
        """The worker of each shard."""

    @property
    def hot_keys(self) -> Keys:
        """uint64[n], those that are placed now, in any order."""

    def start(self) -> int:
        """Join the job; see `Worker.start`."""

    def fetch(self, keys: Keys) -> None:
        """See `Worker.fetch`."""

    def pull(self, keys: Keys) -> None:
        """See `Worker.pull`."""

    def push_round(
        self, step: int, keys: Keys, gradients: FloatArray, next_keys: Keys
    ) -> RoundTimes:
        """See `Worker.push_round`."""

    def end(self, step: int) -> None:
        """See `Worker.end`."""


def versions(worker: JobWorker) -> tuple[int, ...]:
    """The number of the placement of each shard: with another one, other keys are hot."""
    return tuple(shard.incarnation.version for shard in worker.shards)


def where(worker: JobWorker) -> dict[str, int]:
    """Job, epoch and round of a worker, for its log; of several servers those of the first."""
    first = worker.shards[0]
    return {"job": first.job, "epoch": first.incarnation.epoch, "round": first.round}


def push_stats(worker: JobWorker) -> PushStats:
    """What the pushes of all shards cost."""
    total = PushStats()
    for shard in worker.shards:
        for name, count in vars(shard.hot.stats).items():
            setattr(total, name, getattr(total, name) + count)
    return total


class ShardedWorker:
    """The calls of `Worker` under BSP, for a job with several servers.

    `parameters` is float32[num_keys] of all shards.
    """

    def __init__(self, shards: Shards, parameters: FloatArray, workers: Sequence[Worker]) -> None:
        """Of a worker for each shard that is not started and keeps its part of `parameters`.

        The part is `parameters[shards.own(i)]`. Raises `BadInput` for another number of workers.
        """
        if len(workers) != len(shards):
            raise BadInput(f"{len(workers)} workers for {len(shards)} shards: one each is needed")
        self.parameters = parameters
        self.is_current = False
        self._job = shards
        self._shards = tuple(workers)
        self._steps = [0] * len(workers)
        self._pool = ThreadPoolExecutor(len(workers), thread_name_prefix="shard")

    @property
    def shards(self) -> Sequence[Worker]:
        """The worker of each shard, in the order of keys."""
        return self._shards

    @property
    def hot_keys(self) -> Keys:
        """uint64[n], those of all shards that are placed now, in any order."""
        firsts = zip(self._shards, self._job.bounds, strict=False)
        return np.concatenate([shard.hot_keys + first for shard, first in firsts])

    def close(self) -> None:
        """End the threads; what waits in one gives up."""
        for worker in self._shards:
            worker.give_up()
        self._pool.shutdown()

    def start(self) -> int:
        """Join the job at all servers, with the nodes started; return the step to begin with.

        Raises:
            ServersApart: a server has committed rounds that another one lacks, more than one.
            PushFailed: a server does not answer.
        """
        self._steps = self._each(lambda _, worker: worker.start())
        self.is_current = False
        self._check_together()
        return self._step

    def fetch(self, keys: Keys) -> None:
        """Get all hot keys and the cold keys among uint64[n] `keys`, sorted and unique.

        They are as the step that is to be made next has to find them.

        Raises:
            Moved: a server goes on in another incarnation.
            ServersApart: one goes on at another step.
            PushFailed: one does not answer.
        """
        self._get(keys, Worker.fetch)
        self.is_current = True

    def pull(self, keys: Keys) -> None:
        """Get the cold keys among uint64[n] `keys`, sorted and unique, as they are now.

        The hot ones are there while `is_current`.

        Raises:
            Moved, ServersApart, PushFailed: as `fetch`.
        """
        self._get(keys, Worker.pull)

    def push_round(
        self, step: int, keys: Keys, gradients: FloatArray, next_keys: Keys
    ) -> RoundTimes:
        """Push a step to all servers at once; return when each has committed its round.

        Args:
            step: number of the step, from 0: that of the round.
            keys: uint64[n], sorted and unique.
            gradients: float32[n], any values.
            next_keys: uint64[m], sorted and unique: what the next batch needs. Unless
                `is_current` is true afterwards, they have to be fetched.

        Returns:
            Seconds of the shard that took longest; the numbers are of all shards together.

        Raises:
            ServersApart: a server goes on at an earlier step.
            PushFailed: nothing moves any more, and nobody says why.
        """
        parts, wanted = self._job.split(keys), self._job.split(next_keys)
        values = [gradients[part] for part in self._job.slices(keys)]

        def push(shard: int, worker: Worker) -> RoundTimes:
            if self._steps[shard] > step:  # committed, before this process came back
                worker.is_current = False
                return RoundTimes()
            times = worker.push_round(step, parts[shard], values[shard], wanted[shard])
            self._steps[shard] = step + 1
            return times

        times = self._each(push)
        self.is_current = all(worker.is_current for worker in self._shards)
        return _together(times)

    def end(self, step: int) -> None:
        """Say that nothing comes behind `step`, and wait until the job has ended at all servers.

        Raises:
            ServersApart, PushFailed: as `push_round`.
        """
        self._each(lambda _, worker: worker.end(step))

    @property
    def _step(self) -> int:
        """The one to make next: the lowest that a server lacks."""
        return min(self._steps)

    def _get(self, keys: Keys, get: Callable[[Worker, Keys], None]) -> None:
        """Get keys as the next step has to find them, also where that step is committed."""
        parts, step = self._job.split(keys), self._step

        def get_part(shard: int, worker: Worker) -> None:
            if self._steps[shard] == step:
                get(worker, parts[shard])
            else:
                worker.fetch_before(parts[shard])

        self._each(get_part)

    def _check_together(self) -> None:
        low, high = min(self._steps), max(self._steps)
        if high - low > 1:
            behind, ahead = self._steps.index(low), self._steps.index(high)
            raise ServersApart(
                f"the server at {self._server(ahead)} is at round {high}, the one at "
                f"{self._server(behind)} at round {low}"
            )

    def _server(self, shard: int) -> str:
        return self._job.jobs[shard].server

    def _each(self, call: Callable[[int, Worker], _T]) -> list[_T]:
        """Carry out a call for all shards at once, to its end; see `_raise` for what they raise."""
        futures = [
            self._pool.submit(call, shard, worker) for shard, worker in enumerate(self._shards)
        ]
        wait(futures)
        self._raise(future.exception() for future in futures)
        return [future.result() for future in futures]

    def _raise(self, errors: Iterable[BaseException | None]) -> None:
        """Raise what a shard has raised; a mere move only where that is all.

        A server that goes on at an earlier step has lost rounds that others have committed.
        """
        moves: list[Moved] = []
        for shard, error in enumerate(errors):
            if isinstance(error, Moved) and error.steps == self._steps[shard]:
                moves.append(error)
            elif isinstance(error, Moved):
                raise ServersApart(
                    f"the server at {self._server(shard)} has gone back to round {error.steps}, "
                    f"this worker is at {self._steps[shard]}"
                )
            elif error is not None:
                raise error
        if moves:
            self.is_current = False
            raise Moved(moves[0].incarnation, self._step, moves[0].committed)


def _together(times: Sequence[RoundTimes]) -> RoundTimes:
    """The phases of the shard that took longest, and the keys and packets of all."""
    slowest = max(times, key=lambda each: sum(each.phases.elapsed_s.values()))
    return RoundTimes(
        slowest.phases,
        *(
            sum(getattr(each, name) for each in times)
            for name in ("hot_keys", "cold_keys", "packets", "fetched_rows", "replays")
        ),
    )
