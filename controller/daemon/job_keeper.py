"""The keeper of a job: no epoch twice, and an incarnation told only when it stands.

An epoch is on disk before the switch learns of it, and told to the job's server when all of it
stands. What a dead controller has left on the switch is left alone if it is whole (section 6 of
the design).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from controller.daemon.job_record import JobRecord, Placed, Placing, Taken
from controller.daemon.store import Store
from controller.errors import DamagedState, NotKnown, NotNow
from host_stack.errors import BadInput
from host_stack.fixedpoint import check_fraction_bits
from host_stack.incarnation import Incarnation, next_epoch
from host_stack.layout import MAX_EPOCH, Layout
from host_stack.placement import Placement
from host_stack.standing import Standing

CHANGES = 32
"""How many changes are remembered for the status."""

Tell = Callable[[str, str], None]
"""Is told of events: kind and text."""


@dataclass(frozen=True)
class Request:
    """What is asked of the keeper, by a server that had seen an epoch."""

    seen_epoch: int
    round: int
    reason: str


class JobKeeper:
    """Owns the epochs of one job; the keeper of its switch asks it what is to be installed.

    Attributes:
        record: what was asked for and given.
        round: the lowest that is not committed, as the server last said.
        changes: (epoch, why it was made) of the last ones, oldest first.
        standing: when (monotonic) and what the server reported last.
        renewal, suspicion: what was asked and the switch's keeper has not taken up yet.
        deleted: nothing may be asked of it any more.
        followers: servers that are told of each incarnation.
    """

    def __init__(
        self,
        record: JobRecord,
        taken: Taken | None,
        store: Store,
        layout: Layout,
        tell: Tell,
        wake: Callable[[], None],
    ) -> None:
        """Take up what an earlier controller has left of the job, if there was one.

        `wake` makes the keeper of the switch look at what was asked.
        """
        self.record = record
        self.round = 0 if taken is None else taken.round
        self.changes: deque[tuple[int, str]] = deque(maxlen=CHANGES)
        self.standing: tuple[float, Standing] | None = None
        self.renewal: Request | None = None
        self.suspicion: Request | None = None
        self.deleted = False
        self.followers = 0
        self._taken = taken
        self._store = store
        self._layout = layout
        self._tell = tell
        self._wake = wake
        version = 1 if taken is None else taken.version
        self._placement = self._stored(version).placement
        self._placing = store.placing(record.job, version + 1)
        self._current: Incarnation | None = None
        self._changed = asyncio.Event()

    # -- the server's and the operator's side -------------------------------------------------

    @property
    def current(self) -> Incarnation | None:
        """The newest incarnation that is installed."""
        return self._current

    @property
    def placement(self) -> Placement:
        """The newest one."""
        return self._placement if self._placing is None else self._placing.placement

    @property
    def version(self) -> int:
        """Number of the newest placement."""
        if self._placing is not None:
            return self._placing.version
        return 1 if self._taken is None else self._taken.version

    async def after(self, seen: Incarnation | None) -> Incarnation:
        """Wait for an installed incarnation of another epoch, or with other plans, than `seen`.

        Raises `NotKnown` when the job is deleted.
        """
        while not self.deleted and (
            self._current is None or (seen is not None and _is_same(self._current, seen))
        ):
            await self._changed.wait()
        if self.deleted or self._current is None:
            raise NotKnown(f"job {self.record.job} was deleted")
        return self._current

    @contextmanager
    def followed(self) -> Iterator[JobKeeper]:
        """Count a server that is told of each incarnation, as long as the block lasts."""
        self.followers += 1
        try:
            yield self
        finally:
            self.followers -= 1

    def renew(self, request: Request) -> None:
        """Make another incarnation, unless the asking server has missed the newest one."""
        if not self._concerns(request):
            return
        if self.is_on_switch:
            self.renewal = request
            self._wake()
        else:  # no epoch is on the switch
            self.settle(self.take(request.reason, detour=self.is_around))

    def suspect(self, request: Request) -> None:
        """Look at the switch, soon."""
        if self._concerns(request):
            self.suspicion = request
            self._wake()

    def report(self, standing: Standing) -> None:
        """Remember how the job stands."""
        self.standing = (time.monotonic(), standing)
        self.round = max(self.round, standing.round)

    def change(self, placement: Placement | None, fraction_bits: int | None) -> None:
        """Give the job another placement, another F, or both, in the next epoch.

        A server that follows is told, and asks for that epoch between two rounds.

        Raises:
            BadInput: it does not fit.
            NotNow: the job is being set up, or changed already.
        """
        current = self._current
        if current is None or self._placing is not None:
            raise NotNow("the job is being set up, or is given a placement already: try again")
        new = self._placement if placement is None else placement
        check_fits(new, self.record, self._layout)
        bits = current.fraction_bits if fraction_bits is None else fraction_bits
        check_fraction_bits(bits)
        version = current.version + 1
        self._placing = Placing(version, bits, new)
        self._store.save_placement(self.record.job, self._placing)
        self._tell("placement", f"placement {version}: {len(new)} hot keys, F = {bits}")
        if self.followers:
            self._current = replace(current, planned=True)
            self._wake_waiting()
        else:
            self.renew(Request(current.epoch, self.round, f"placement {version}"))

    def declare(self, workers: tuple[str, ...]) -> None:
        """Give the job other workers, in another epoch; the caller has checked them."""
        self.record = self.record.with_workers(workers)
        self._store.save_job(self.record)
        self._tell("workers", f"{len(workers)} workers")
        if self._current is not None:
            self.renew(Request(self._current.epoch, self.round, "other workers"))
        self._wake()

    def delete(self) -> None:
        """Forget the job; whoever waits for an incarnation is told."""
        self.deleted = True
        self._store.delete_job(self.record, self._taken)
        self._wake_waiting()
        self._wake()

    # -- the switch's side --------------------------------------------------------------------

    @property
    def is_around(self) -> bool:
        """Whether packets of the newest epoch go around the switch."""
        return self._taken is not None and self._taken.detour

    @property
    def is_on_switch(self) -> bool:
        """Whether the newest epoch is (to be) on the switch."""
        return self.record.placed is Placed.JOB and not self.is_around

    @property
    def is_waiting(self) -> bool:
        """Whether the job has no workers yet."""
        return not self.record.workers

    @property
    def taken(self) -> Taken | None:
        """The newest epoch, installed or not."""
        return self._taken

    @property
    def would_wrap(self) -> bool:
        """Whether the next epoch may have been used since the switch was loaded."""
        if self._taken is not None:
            return next_epoch(self._taken.epoch) < self._taken.epoch
        return self._spent() >= MAX_EPOCH

    @property
    def was_whole(self) -> bool:
        """Whether the newest epoch was installed as a whole once, and nothing newer was asked."""
        taken = self._taken
        return taken is not None and taken.installed and not taken.detour and self._placing is None

    def after_emptying(self) -> Taken:
        """What is to be installed on an empty switch: another epoch, if one was there."""
        if self._taken is None:
            return self.take("the job begins")
        if self.record.placed is not Placed.JOB and not self._taken.detour:
            return self._taken  # nothing of the epoch was on the switch
        return self.take("the switch was empty")

    def take(self, reason: str, *, detour: bool = False) -> Taken:
        """Take the next epoch for good; it is on disk when this returns."""
        old = self._taken
        if old is None:
            bits = self.record.fraction_bits
            taken = Taken(self._spent() % MAX_EPOCH + 1, self.round, bits, 1, False, detour)
        else:
            epoch = next_epoch(old.epoch)
            taken = replace(old, epoch=epoch, round=self.round, installed=False, detour=detour)
        if (placing := self._placing) is not None:
            self._placing, self._placement = None, placing.placement
            taken = replace(taken, version=placing.version, fraction_bits=placing.fraction_bits)
        self._store.save_taken(self.record.job, taken)
        self._taken = taken
        self.changes.append((taken.epoch, reason))
        return taken

    def settle(self, taken: Taken) -> None:
        """An epoch stands: remember so, and tell."""
        if not taken.installed:
            self._taken = replace(taken, installed=True)
            self._store.save_taken(self.record.job, self._taken)
        self.publish()

    def publish(self) -> None:
        """Tell the newest epoch, which stands."""
        taken, old = self._taken, self._current
        assert taken is not None  # noqa: S101
        self._current = Incarnation(
            taken.epoch, taken.round, taken.fraction_bits, taken.version, self._placement
        )
        if old is None or old.epoch != taken.epoch:
            reason = self.changes[-1][1] if self.changes else "the controller was restarted"
            self._tell("epoch", f"epoch {taken.epoch}: {reason}")
        self._wake_waiting()

    def concerns(self, request: Request) -> bool:
        """Whether the newest epoch is the one that was spoken of."""
        return self._current is not None and request.seen_epoch == self._current.epoch

    def _concerns(self, request: Request) -> bool:
        self.round = max(self.round, request.round)
        return self.concerns(request)

    def _stored(self, version: int) -> Placing:
        found = self._store.placing(self.record.job, version)
        if found is None:
            raise DamagedState(f"placement {version} of job {self.record.job} is missing")
        return found

    def _spent(self) -> int:
        record = self.record
        return self._store.spent_epoch(record.switch, record.slot, record.block)

    def _wake_waiting(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _is_same(incarnation: Incarnation, seen: Incarnation) -> bool:
    """Whether a server that has seen one need not be told of the other."""
    return (incarnation.epoch, incarnation.planned) == (seen.epoch, seen.planned)


def check_fits(placement: Placement, record: JobRecord, layout: Layout) -> None:
    """Raise `BadInput` unless a placement fits the rows and the keys of a job."""
    layout.require(placement.layout, "the placement")
    last = int(placement.keys.max(initial=0))
    if last >= record.num_keys:
        raise BadInput(
            f"the placement has key {last}, the job's keys are 0 to {record.num_keys - 1}: "
            "it is of another model"
        )
    if placement.used_rows > record.block.rows:
        raise BadInput(
            f"the placement needs {placement.used_rows} rows, the job has {record.block.rows}"
        )
