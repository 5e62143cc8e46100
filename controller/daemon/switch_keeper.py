"""The keeper of a switch: one connection, and a switch that is what its jobs need.

When the connection breaks, or when the switch turns out not to hold what it should, the switch is
brought back to what is wanted, by differences where it still holds something, and each job whose
state was lost goes on in another epoch (sections 4 and 5 of the design).
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import finsy as fy

from controller.counters import limit_probes
from controller.daemon.job_keeper import JobKeeper, Request
from controller.daemon.job_record import Placed, Taken
from controller.daemon.mirror import JOBS_TABLE, Mirror, Part
from controller.daemon.suspicion import Suspicion
from controller.inventory import SwitchSpec
from controller.provision import ProvisionFailed, connected
from controller.targets import Program, find_target

RETRY_S = 0.2
"""Between attempts to reach a switch that is gone."""

LOOK_S = 3.0
"""How long a switch may take to say what it holds."""

_T = TypeVar("_T")

Tell = Callable[..., None]
"""Is told of events: kind, text, and fields for programs."""

Turn = Callable[[bool], Awaitable[None]]
"""Leads the packets of the network around the switch (true), or back."""


class Wanted(Protocol):
    """What a switch is to hold."""

    def network(self, mirror: Mirror) -> Part:
        """What all jobs share."""

    def ports(self) -> set[int]:
        """Those from which packets may come."""

    def group(self, job: JobKeeper, mirror: Mirror) -> Part:
        """The multicast group of a job, as far as this switch has a part in it."""

    def job(self, job: JobKeeper, taken: Taken, mirror: Mirror) -> Part:
        """All of a job that is on this switch."""


class SwitchKeeper:
    """Owns a switch, and takes its jobs from epoch to epoch.

    Attributes:
        spec: the switch.
        jobs: those that it sums for. passing: those whose UPDATEs only pass it.
        is_ready: it is connected and holds what it should.
        reason: why it is not.
        written: updates that were sent since the controller was started.
    """

    def __init__(
        self,
        spec: SwitchSpec,
        program: Program,
        wanted: Wanted,
        tell: Tell,
        on_emptied: Callable[[], None],
        *,
        attempts: int = 0,
        turn: Turn | None = None,
    ) -> None:
        """Of a switch that may hold what an earlier controller has left.

        `on_emptied` is called when its program was loaded anew. After `attempts` in vain to set a
        switch up that never was, `keep` fails; 0 is for ever. One that jobs of the state have an
        epoch on was set up by an earlier controller, and may be as dead as that.
        """
        self.spec = spec
        self.jobs: list[JobKeeper] = []
        self.passing: list[JobKeeper] = []
        self.is_ready = False
        self.reason = "not connected yet"
        self.written = 0
        self._program = program
        self._wanted = wanted
        self._tell = tell
        self._on_emptied = on_emptied
        self._attempts = attempts
        self._turn = turn
        self._is_around: bool | None = None
        self._was_ready = False
        self._asked = asyncio.Event()
        self._changed = asyncio.Event()
        self._connection: fy.Switch | None = None
        self._suspicion = Suspicion()

    @property
    def connection(self) -> fy.Switch | None:
        """To read from; None while the switch is down."""
        return self._connection if self.is_ready else None

    def owners(self) -> dict[int, int]:
        """The job in each slot that is taken here."""
        seats = {job.record.seat_on(self.spec.name).slot: job.record.job for job in self.jobs}
        return {slot: job for slot, job in seats.items() if slot}

    def wake(self) -> None:
        """Look at what jobs ask."""
        self._asked.set()

    async def keep(self) -> None:
        """Keep the switch as it should be; returns never.

        Raises `ProvisionFailed` if a switch that was never set up cannot be, in so many attempts
        as were given.
        """
        fresh = False
        failures = 0
        if any(job.taken for job in self.jobs):
            self._was_ready = True
        else:
            self._is_around = False
        target = find_target(self.spec.target)
        while True:
            try:
                async with connected(
                    self.spec.address,
                    target,
                    self._program,
                    fresh=fresh,
                    device_id=self.spec.device_id,
                    tls=self.spec.tls,
                ) as switch:
                    fresh = await self._tend(switch, fresh)
            except ProvisionFailed as error:
                failures += 1
                if not self._was_ready and failures == self._attempts:
                    raise
                fresh = False
                self._mark_down(str(error))
                await self._go_around()
            self._connection = None
            await asyncio.sleep(0 if fresh else RETRY_S)

    async def _tend(self, switch: fy.Switch, fresh: bool) -> bool:
        """Set a connected switch up if need be, and serve; true if it must be loaded anew."""
        lost = switch.ee.event_future(fy.SwitchEvent.CHANNEL_DOWN)
        mirror = Mirror(
            switch,
            reads_replication=find_target(self.spec.target).capabilities.reads_replication,
        )
        if await self._set_up(mirror, fresh):
            return True
        self._connection = switch
        self._mark_ready()
        asked: asyncio.Task[bool] | None = None
        try:
            while True:
                asked = asyncio.create_task(self._asked.wait())
                await asyncio.wait([lost, asked], return_when=asyncio.FIRST_COMPLETED)
                if lost.done():
                    raise ProvisionFailed("the switch has closed the P4Runtime stream")
                self._asked.clear()
                if await self._serve(mirror):
                    return True
        finally:
            if asked is not None:
                asked.cancel()

    # -- setting up -------------------------------------------------------------------------

    async def _set_up(self, mirror: Mirror, fresh: bool) -> bool:
        """Bring a switch to what is wanted, by differences; true if it must be loaded anew."""
        began = time.monotonic()
        if not fresh:
            await self._finish(mirror.read())
        emptied = mirror.is_empty()
        if emptied:
            self._on_emptied()
        for job in self._on_switch():
            if (reason := self._why_another(job, mirror, emptied=emptied)) is not None:
                job.take(reason)
        if self._has_wrapped(mirror):
            return True
        before = mirror.written
        installed = await self._become(mirror)
        limits = limit_probes(mirror.switch, self._wanted.ports())
        self.written += await self._finish(limits)
        self._tell(
            "provisioned",
            f"{mirror.written - before} entities written",
            seconds=time.monotonic() - began,
            emptied=emptied,
        )
        await self._lead(detour=False)
        self._settle(installed)
        # What the last connection leaves behind is in circles; switches are lost too rarely for
        # Python to look at its oldest objects by itself. Takes some 20 ms.
        gc.collect()
        return False

    def _why_another(self, job: JobKeeper, mirror: Mirror, *, emptied: bool) -> str | None:
        """Why a job cannot go on in its newest epoch on this switch; None if it can."""
        if job.taken is None:
            return "the job begins"
        if emptied and job.record.placed is not Placed.JOB and not job.taken.detour:
            return None  # nothing of the epoch was on the switch
        if not (job.is_unsure or job.stands_on(self.spec.name)):
            return None  # it was never here
        if emptied:
            return "the switch was empty"
        if job.is_unsure or not mirror.holds(self._part(job, mirror)):
            return _NOT_WHOLE
        return None

    def _has_wrapped(self, mirror: Mirror) -> bool:
        """Whether an epoch's number may have been used since the program was loaded."""
        for job in self._on_switch():
            if job.taken is None or job.record.placed is not Placed.JOB:
                continue
            if job.has_been_seen(self.spec.name):
                return True
            if mirror.epoch_of(job.record.job) > job.taken.epoch:
                return True
        return False

    async def _become(self, mirror: Mirror) -> list[tuple[JobKeeper, Taken | None]]:
        """Write the difference to what is wanted now; return the jobs and their epochs."""
        installed = [(job, job.taken) for job in self._on_switch()]
        parts = [self._wanted.network(mirror)]
        parts += [self._part(job, mirror) for job in self._on_switch()]
        parts += [
            self._wanted.group(job, mirror)
            for job in self.passing
            if not job.is_waiting and job.record.placed is not Placed.NOTHING
        ]
        before = mirror.written
        await self._finish(mirror.become(parts))
        self.written += mirror.written - before
        return installed

    def _settle(self, installed: list[tuple[JobKeeper, Taken | None]]) -> None:
        """Tell jobs that an epoch stands here, unless another one was taken meanwhile."""
        for job, taken in installed:
            if job.taken is taken:
                job.settle(self.spec.name)

    def _part(self, job: JobKeeper, mirror: Mirror) -> Part:
        if job.record.placed is Placed.NOTHING or job.taken is None:
            return Part({})
        if job.record.placed is Placed.GROUP:
            return self._wanted.group(job, mirror)
        return self._wanted.job(job, job.taken, mirror)

    def _on_switch(self) -> list[JobKeeper]:
        return [job for job in self.jobs if not job.is_waiting]

    @staticmethod
    async def _finish(work: Awaitable[_T]) -> _T:
        try:
            return await work
        except fy.P4ClientError as error:
            raise ProvisionFailed(f"the switch refused: {' '.join(str(error).split())}") from error

    # -- serving ----------------------------------------------------------------------------

    async def _serve(self, mirror: Mirror) -> bool:
        """Do what was asked; true if the switch must be loaded anew."""
        for job in self._on_switch():
            if job.taken is None:
                job.take("the job begins")
        if self._has_wrapped(mirror):
            return True
        self._settle(await self._become(mirror))
        for job in self._on_switch():
            suspicion = job.suspicions.pop(self.spec.name, None)
            if (
                suspicion is not None
                and job.concerns(suspicion)
                and await self._look(mirror.switch, job, suspicion)
            ):
                return True
        return False

    async def _look(self, switch: fy.Switch, job: JobKeeper, request: Request) -> bool:
        """Read the switch back; true if it must be loaded anew."""
        now = time.monotonic()
        try:
            async with asyncio.timeout(LOOK_S):
                holds = await self._holds_epoch(switch, job)
        except TimeoutError:
            raise ProvisionFailed(
                f"the switch does not say what it holds in {LOOK_S:g} s"
            ) from None
        except fy.P4ClientError as error:
            raise ProvisionFailed(f"the switch cannot be read: {error}") from error
        if not holds:
            self._suspicion.confirmed(now)
        elif not self._suspicion.has_stayed(job.record.job, job.round, now):
            return False
        self._tell("distrusted", request.reason, holds=holds)
        return True

    async def _holds_epoch(self, switch: fy.Switch, job: JobKeeper) -> bool:
        found = None
        jobs = switch.read(fy.P4TableEntry(JOBS_TABLE))
        async for entry in jobs:  # type: ignore[attr-defined]  # finsy annotates a coroutine
            if int(entry["job"]) == job.record.job:
                found = int(entry.action.args["epoch"])
        if job.record.placed is not Placed.JOB:
            return found is None
        return job.taken is not None and found == job.taken.epoch

    # -- ways around ------------------------------------------------------------------------

    async def _go_around(self) -> None:
        """Lead packets around a switch that is down, if there is a path, in another epoch.

        A packet takes one way in an epoch: a late copy of one must not be added in two places.
        """
        started = [job for job in self._on_switch() if job.taken is not None]
        if self._turn is None or not started:
            return
        await self._lead(detour=True)
        for job in started:
            taken = job.taken
            assert taken is not None  # noqa: S101
            if not taken.detour:
                job.take("the switch is down", detour=True)
                job.settle_around()
            elif job.current is None:
                job.settle_around()

    async def _lead(self, *, detour: bool) -> None:
        """Let packets take a way, unless it is known that they do."""
        if self._turn is not None and self._is_around is not detour:
            await self._turn(detour)
            self._is_around = detour

    # -- the switch's state -----------------------------------------------------------------

    async def wait(self, done: Callable[[], bool]) -> None:
        """Wait until something holds that changes with the state of the switch."""
        while not done():
            await self._changed.wait()

    def _mark_down(self, reason: str) -> None:
        was_ready, self.is_ready = self.is_ready, False
        for job in self.jobs:
            job.down.add(self.spec.name)
        if was_ready or reason != self.reason:
            self._tell("switch-down", reason)
        self.reason = reason
        self._notify()

    def _mark_ready(self) -> None:
        if not self.is_ready:
            self.is_ready = self._was_ready = True
            for job in self.jobs:
                job.down.discard(self.spec.name)
            self.reason = ""
            self._tell("switch-ready", "the switch holds what it should")
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


_NOT_WHOLE = "the switch did not hold what it should"
