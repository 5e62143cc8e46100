"""The keeper of a job: no epoch twice, and an incarnation told only when it stands.

An epoch is on disk before a switch learns of it, and told to the job's server when all of it
stands, on every switch that sums for the job. What a dead controller has left on the switches is
left alone if it is whole (section 6 of the design).
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
from host_stack.incarnation import Incarnation, is_newer, next_epoch
from host_stack.layout import Layout
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
    """Owns the epochs of one job; the keepers of its switches ask it what is to be installed.

    Attributes:
        record: what was asked for and given.
        round: the lowest that is not committed, as the server last said.
        changes: (epoch, why it was made) of the last ones, oldest first.
        standing: when (monotonic) and what the server reported last.
        suspicions: what was asked, by switch; the keeper of a switch takes it up.
        down: those of its switches that are known to be down.
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
        address_of: Callable[[str], str],
    ) -> None:
        """Take up what an earlier controller has left of the job, if there was one.

        `wake` makes the keepers of its switches look at what was asked; `address_of` gives the
        IPv4 address of a switch.
        """
        self.record = record
        self.round = 0 if taken is None else taken.round
        self.changes: deque[tuple[int, str]] = deque(maxlen=CHANGES)
        self.standing: tuple[float, Standing] | None = None
        self.suspicions: dict[str, Request] = {}
        self.down: set[str] = set()
        self.deleted = False
        self.followers = 0
        self._taken = taken
        self._standing_on: set[str] = set()
        self._is_unsure = taken is not None and not taken.installed
        if taken is not None and taken.installed:
            self._standing_on = self.needed
        self._store = store
        self._layout = layout
        self._tell = tell
        self._wake = wake
        self._address_of = address_of
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
    def where(self) -> dict[str, int]:
        """Its newest epoch (0 before the first) and its round, for a log."""
        return {"epoch": 0 if self._taken is None else self._taken.epoch, "round": self.round}

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
        if self._concerns(request):
            self._take_another(request.reason)

    def suspect(self, request: Request) -> None:
        """Look at its switches, soon; unless one is down, which explains what was seen."""
        if self._concerns(request) and not self.down:
            self.suspicions = dict.fromkeys(self.needed, request)
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
        if current is None or self._placing is not None or not self._stands(current):
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

    def declare(self, record: JobRecord) -> None:
        """Give the job other workers, in another epoch; the caller has checked them."""
        left = [seat for seat in self.record.seats if seat not in record.seats]
        self.record = record
        self._store.save_job(record, left, 0 if self._taken is None else self._taken.epoch)
        self._tell("workers", f"{len(record.workers)} workers")
        if self._taken is not None:
            self._take_another("other workers")
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
    def needed(self) -> set[str]:
        """The switches on which an epoch has to stand before it is told."""
        seats = self.record.seats if self.record.placed is Placed.JOB else self.record.seats[-1:]
        return {seat.switch for seat in seats}

    @property
    def is_waiting(self) -> bool:
        """Whether the job has no workers yet."""
        return not self.record.workers

    @property
    def taken(self) -> Taken | None:
        """The newest epoch, installed or not."""
        return self._taken

    @property
    def is_unsure(self) -> bool:
        """Whether it is not known where the newest epoch stands, or a newer one is due anyway."""
        taken = self._taken
        return taken is not None and (self._is_unsure or taken.detour or self._placing is not None)

    def stands_on(self, switch: str) -> bool:
        """Whether the newest epoch was installed on a switch."""
        return switch in self._standing_on

    def has_been_seen(self, switch: str) -> bool:
        """Whether rows or slot there may hold something of the newest epoch's number.

        They belonged to another job, in another turn of the numbers; loading the program anew
        empties them.
        """
        taken = self._taken
        if taken is None or self.record.placed is not Placed.JOB or self.stands_on(switch):
            return False
        return self._store.spent_epoch(self.record.seat_on(switch)) >= taken.epoch

    def take(self, reason: str, *, detour: bool = False) -> Taken:
        """Take the next epoch for good; it is on disk when this returns."""
        old = self._taken
        epoch = self._next_epoch()
        if old is None:
            bits = self.record.fraction_bits
            taken = Taken(epoch, self.round, bits, 1, False, detour)
        else:
            taken = replace(old, epoch=epoch, round=self.round, installed=False, detour=detour)
        if (placing := self._placing) is not None:
            self._placing, self._placement = None, placing.placement
            taken = replace(taken, version=placing.version, fraction_bits=placing.fraction_bits)
        self._store.save_taken(self.record.job, taken)
        self._taken = taken
        self._standing_on = set()
        self._is_unsure = False
        self.changes.append((taken.epoch, reason))
        self._wake()
        return taken

    def _take_another(self, reason: str) -> None:
        """Take an epoch that holds where the newest one does."""
        self.take(reason, detour=self.is_around)
        if not self.is_on_switch:  # no epoch is
            self.settle_around()

    def settle(self, switch: str) -> None:
        """The newest epoch stands on a switch: remember so, and tell when it does on all."""
        self._standing_on.add(switch)
        taken, current = self._taken, self._current
        if taken is None or self.deleted or not self.needed <= self._standing_on:
            return
        if not taken.installed:
            self._taken = replace(taken, installed=True)
            self._store.save_taken(self.record.job, self._taken)
        if current is None or current.epoch != taken.epoch:
            self._publish()

    def settle_around(self) -> None:
        """The newest epoch needs nothing on a switch."""
        for switch in self.needed:
            self.settle(switch)

    def _publish(self) -> None:
        """Tell the newest epoch, which stands."""
        taken, old = self._taken, self._current
        assert taken is not None  # noqa: S101
        self._current = Incarnation(
            taken.epoch,
            taken.round,
            taken.fraction_bits,
            taken.version,
            self._placement,
            chain=tuple(self._address_of(seat.switch) for seat in self.record.chain),
            on_switch=self.is_on_switch,
        )
        if old is None or old.epoch != taken.epoch:
            reason = self.changes[-1][1] if self.changes else "the controller was restarted"
            self._tell("epoch", f"epoch {taken.epoch}: {reason}")
        self._wake_waiting()

    def concerns(self, request: Request) -> bool:
        """Whether the newest epoch is the one that was spoken of, and stands."""
        current = self._current
        return current is not None and self._stands(current) and request.seen_epoch == current.epoch

    def _stands(self, current: Incarnation) -> bool:
        """Whether no newer epoch was taken than the one that was told."""
        return self._taken is not None and self._taken.epoch == current.epoch

    def _concerns(self, request: Request) -> bool:
        self.round = max(self.round, request.round)
        return self.concerns(request)

    def _stored(self, version: int) -> Placing:
        found = self._store.placing(self.record.job, version)
        if found is None:
            raise DamagedState(f"placement {version} of job {self.record.job} is missing")
        return found

    def _next_epoch(self) -> int:
        """Above those that its rows have seen; from 1 on again where these are too far away."""
        newest = 0 if self._taken is None else self._taken.epoch
        spent = max(self._store.spent_epoch(seat) for seat in self.record.seats)
        if spent > newest and (newest == 0 or is_newer(spent + 1, newest)):
            newest = spent
        return next_epoch(newest)

    def _wake_waiting(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _is_same(incarnation: Incarnation, seen: Incarnation) -> bool:
    """Whether a server that has seen one need not be told of the other."""
    return (incarnation.epoch, incarnation.planned) == (seen.epoch, seen.planned)


def check_fits(placement: Placement, record: JobRecord, layout: Layout) -> None:
    """Raise `BadInput` unless a placement fits the rows and the keys of a job."""
    layout.require(placement.layout, f"the placement of job {record.job}")
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
