"""The keeper of a job: no epoch twice, and a switch that is what the newest one says.

It holds one connection to the switch. When that breaks, or when the switch turns out not to hold
what it should, the switch is set up again in another epoch; an epoch is on disk before the switch
learns of it, and told to the server when all of it stands. What a dead keeper leaves behind is
read back and, if it is whole, left alone (section 6 of the design).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import finsy as fy

from controller.keeper.config import KeeperConfig, Placed
from controller.keeper.epochs import EpochFile, Taken
from controller.keeper.job_switch import JobSwitch
from controller.provision import ProvisionFailed, connected, read_reasons
from controller.targets import Program, find_target
from host_stack.errors import BadInput
from host_stack.fixedpoint import check_fraction_bits
from host_stack.incarnation import Incarnation, next_epoch
from host_stack.job import Job
from host_stack.placement import Placement
from host_stack.standing import Standing

RETRY_S = 0.2
"""Between attempts to reach a switch that is gone."""

FIRST_ATTEMPTS = 3

LOOK_S = 3.0
"""How long a switch may take to say what it holds."""

PATIENCE_S = 4.0
"""So long the suspicion of a switch that reads well may stay before it is set up again."""

FORGIVE_S = 3.0
"""A suspicion that is not repeated within this time is over."""

CHANGES = 32
"""How many changes are remembered for the status."""

Report = Callable[..., None]
Turn = Callable[[bool], Awaitable[None]]


class SwitchState(StrEnum):
    """What the keeper thinks of the switch."""

    READY = "ready"
    DOWN = "down"


@dataclass(frozen=True)
class Request:
    """What is asked of the keeper, by a server that had seen an epoch."""

    seen_epoch: int
    round: int
    reason: str


@dataclass(frozen=True)
class Placing:
    """A placement that begins with the next epoch."""

    version: int
    fraction_bits: int
    placement: Placement


class Keeper:
    """Owns the epochs of one job, and its switch."""

    def __init__(
        self,
        folder: Path,
        config: KeeperConfig,
        job: Job,
        program: Program,
        report: Report = lambda event, **fields: None,
        turn: Turn | None = None,
    ) -> None:
        """Take up what an earlier keeper of the same folder has left, if there was one.

        The folder holds `epochs.json` and the placements, `placement-<version>.npz`. `report` is
        told of events. `turn` leads the network's packets around the switch, or back; it is needed
        where the configuration says that there is a detour.
        """
        self.config = config
        self.job = job
        self.switch_state = SwitchState.DOWN
        self.round = 0
        self.changes: deque[tuple[int, str]] = deque(maxlen=CHANGES)
        self.standing: tuple[float, Standing] | None = None
        self._folder = folder
        self._program = program
        self._report = report
        self._turn = turn
        self._epochs = EpochFile(folder / "epochs.json", job.job)
        self._taken = self._epochs.load()
        self._is_first = self._taken is None
        self._is_around = False if self._is_first else None
        self._placement = self._load(self._taken.version if self._taken else 1)
        self._on_switch = JobSwitch(config, job, program)
        self._placing: Placing | None = None
        self._switch: fy.Switch | None = None
        self._current: Incarnation | None = None
        self._changed = asyncio.Event()
        self._renewal: Request | None = None
        self._suspicion: Request | None = None
        self._asked = asyncio.Event()
        self._suspected_since = 0.0
        self._suspected_at = 0.0

    # -- the server's side ------------------------------------------------------------------

    @property
    def current(self) -> Incarnation | None:
        """The newest incarnation that is installed."""
        return self._current

    async def after(self, epoch: int | None) -> Incarnation:
        """Wait for an installed incarnation of another epoch than `epoch`."""
        while self._current is None or self._current.epoch == epoch:
            await self._changed.wait()
        return self._current

    async def renew(self, request: Request) -> None:
        """Make another incarnation, unless the asking server has missed the newest one."""
        if not self._concerns(request):
            return
        if self._is_on_switch:
            self._renewal = request
            self._asked.set()
        else:  # no epoch is on the switch
            detour = self._taken is not None and self._taken.detour
            self._settle(self._take(request.reason, request.round, detour=detour))

    async def suspect(self, request: Request) -> None:
        """Look at the switch, soon."""
        if self._concerns(request):
            self._suspicion = request
            self._asked.set()

    def report(self, standing: Standing) -> None:
        """Remember how the job stands."""
        self.standing = (time.monotonic(), standing)
        self.round = max(self.round, standing.round)

    async def place(self, placement: Placement, fraction_bits: int) -> int:
        """Give the job another placement, in another epoch; return its number.

        The round that is open then is pushed again. `BadInput` if it does not fit.
        """
        current = self._current
        if current is None or self._placing is not None:
            raise BadInput("the job is being set up, or is given a placement already: try again")
        self._check_fit(placement)
        version = current.version + 1
        check_fraction_bits(fraction_bits)
        placement.save(self._file_of(version))
        self._placing = Placing(version, fraction_bits, placement)
        await self.renew(Request(current.epoch, self.round, f"placement {version}"))
        return version

    async def reasons(self) -> dict[str, int]:
        """The switch's packets by reason; empty if it cannot be read."""
        if self._switch is None:
            return {}
        try:
            async with asyncio.timeout(LOOK_S):
                return await read_reasons(self._switch, self.config.slot)
        except (TimeoutError, fy.P4ClientError):
            return {}

    @property
    def _is_on_switch(self) -> bool:
        """Whether the newest epoch is (to be) on the switch."""
        detour = self._taken is not None and self._taken.detour
        return self.config.placed is Placed.JOB and not detour

    def _concerns(self, request: Request) -> bool:
        self.round = max(self.round, request.round)
        return self._current is not None and request.seen_epoch == self._current.epoch

    # -- the switch's side ------------------------------------------------------------------

    async def keep(self) -> None:
        """Keep the switch as it should be; returns never.

        Raises `ProvisionFailed` if a switch that was never set up before cannot be, in a few
        attempts.
        """
        fresh = False
        failures = 0
        target = find_target(self.config.target)
        while True:
            try:
                async with connected(
                    self.config.address,
                    target,
                    self._program,
                    fresh=fresh,
                    device_id=self.config.device_id,
                ) as switch:
                    fresh = await self._tend(switch, fresh)
            except ProvisionFailed as error:
                failures += 1
                if self._is_first and self._current is None and failures == FIRST_ATTEMPTS:
                    raise
                fresh = False
                self._mark_down(str(error))
                await self._go_around()
            self._switch = None
            await asyncio.sleep(0 if fresh else RETRY_S)

    async def _tend(self, switch: fy.Switch, fresh: bool) -> bool:
        """Set a connected switch up if need be, and serve; true if it must be loaded anew."""
        lost = switch.ee.event_future(fy.SwitchEvent.CHANNEL_DOWN)
        if fresh or await self._on_switch.is_empty(switch):
            await self._set_up(switch)
        elif not await self._is_as_left(switch):
            return True
        self._switch = switch
        self._mark_ready()
        asked: asyncio.Task[bool] | None = None
        try:
            while True:
                asked = asyncio.create_task(self._asked.wait())
                await asyncio.wait([lost, asked], return_when=asyncio.FIRST_COMPLETED)
                if lost.done():
                    raise ProvisionFailed("the switch has closed the P4Runtime stream")
                self._asked.clear()
                if await self._serve(switch):
                    return True
        finally:
            if asked is not None:
                asked.cancel()

    async def _serve(self, switch: fy.Switch) -> bool:
        """Do what was asked; true if the switch must be loaded anew."""
        renewal, self._renewal = self._renewal, None
        suspicion, self._suspicion = self._suspicion, None
        if renewal is not None and self._concerns(renewal):
            return await self._to_next_epoch(switch, renewal)
        if suspicion is not None and self._concerns(suspicion):
            return await self._look(switch, suspicion)
        return False

    async def _is_as_left(self, switch: fy.Switch) -> bool:
        """Whether the switch holds what this job has left there; publishes it then."""
        taken = self._taken
        if taken is None or not taken.installed or taken.detour:
            return False
        if not await self._on_switch.holds(switch, taken.epoch):
            return False
        if self._current is None:
            await self._lead(detour=False)
            self._publish(taken)
        return True

    async def _set_up(self, switch: fy.Switch) -> None:
        """Install everything on an empty switch, in another epoch if there was one."""
        began = time.monotonic()
        first = self._taken is None
        reason = "the job begins" if first else "the switch was empty"
        old = self._taken
        if old is not None and self.config.placed is not Placed.JOB and not old.detour:
            taken = old  # nothing of the epoch was on the switch
        else:
            taken = self._take(reason, self.round)
        await self._write(self._on_switch.install(switch, taken.epoch, taken.fraction_bits))
        self._report("provisioned", epoch=taken.epoch, seconds=time.monotonic() - began)
        await self._lead(detour=False)
        self._settle(taken)

    async def _go_around(self) -> None:
        """Lead packets around a switch that is down, if there is a path, in another epoch.

        A packet takes one way in an epoch: a late copy of one must not be added in two places.
        """
        taken = self._taken
        if self._turn is None or taken is None:
            return
        await self._lead(detour=True)
        if not taken.detour:
            self._settle(self._take("the switch is down", self.round, detour=True))
        elif self._current is None:
            self._settle(taken)

    async def _lead(self, *, detour: bool) -> None:
        """Let packets take a way, unless it is known that they do."""
        if self._turn is not None and self._is_around is not detour:
            await self._turn(detour)
            self._is_around = detour

    async def _to_next_epoch(self, switch: fy.Switch, request: Request) -> bool:
        """Take the switch to the next epoch; true if it must be loaded anew for it."""
        assert self._taken is not None  # noqa: S101
        if next_epoch(self._taken.epoch) < self._taken.epoch:
            return True  # a number that may have been used since the program was loaded
        if self._placing and self._placing.fraction_bits != self._taken.fraction_bits:
            return True  # the look-up tables of the lanes are for another F
        taken = self._take(request.reason, request.round)
        await self._write(self._on_switch.change_epoch(switch, taken.epoch, taken.fraction_bits))
        self._settle(taken)
        return False

    async def _look(self, switch: fy.Switch, request: Request) -> bool:
        """Read the switch back; true if it must be loaded anew."""
        assert self._taken is not None  # noqa: S101
        now = time.monotonic()
        try:
            async with asyncio.timeout(LOOK_S):
                holds = await self._on_switch.holds(switch, self._taken.epoch)
        except TimeoutError:
            raise ProvisionFailed(
                f"the switch does not say what it holds in {LOOK_S:g} s"
            ) from None
        if now - self._suspected_at > FORGIVE_S:
            self._suspected_since = now
        self._suspected_at = now
        if holds and now - self._suspected_since < PATIENCE_S:
            return False
        self._suspected_since = now
        self._report("distrusted", reason=request.reason, holds=holds)
        return True

    @staticmethod
    async def _write(writing: Awaitable[None]) -> None:
        try:
            await writing
        except fy.P4ClientError as error:
            raise ProvisionFailed(f"the switch refused: {error}") from error

    # -- epochs -----------------------------------------------------------------------------

    def _take(self, reason: str, round_: int, *, detour: bool = False) -> Taken:
        """Take the next epoch for good; it is on disk when this returns."""
        old = self._taken
        if old is None:
            taken = Taken(self.job.epoch, 0, self.job.fraction_bits, 1, False)
        else:
            epoch = next_epoch(old.epoch)
            taken = replace(old, epoch=epoch, round=round_, installed=False, detour=detour)
            if (placing := self._placing) is not None:
                self._placing, self._placement = None, placing.placement
                taken = replace(taken, version=placing.version, fraction_bits=placing.fraction_bits)
        self._epochs.save(taken)
        self._taken = taken
        self.changes.append((taken.epoch, reason))
        return taken

    def _settle(self, taken: Taken) -> None:
        """An epoch stands: remember so, and tell."""
        self._taken = replace(taken, installed=True)
        self._epochs.save(self._taken)
        self._publish(self._taken)

    def _publish(self, taken: Taken) -> None:
        old = self._current
        self._current = Incarnation(
            taken.epoch, taken.round, taken.fraction_bits, taken.version, self._placement
        )
        if old is None or old.epoch != taken.epoch:
            reason = self.changes[-1][1] if self.changes else "the controller was restarted"
            self._report("epoch", epoch=taken.epoch, reason=reason)
        self._changed.set()
        self._changed = asyncio.Event()

    def _file_of(self, version: int) -> Path:
        return self._folder / f"placement-{version}.npz"

    def _load(self, version: int) -> Placement:
        placement = Placement.load(self._file_of(version))
        self._check_fit(placement)
        return placement

    def _check_fit(self, placement: Placement) -> None:
        self.job.layout.require(placement.layout, "the placement")
        if placement.used_rows > self.config.rows:
            raise BadInput(
                f"the placement needs {placement.used_rows} rows, the job has {self.config.rows}"
            )

    # -- the switch's state -----------------------------------------------------------------

    def _mark_down(self, reason: str) -> None:
        if self.switch_state is SwitchState.READY:
            self.switch_state = SwitchState.DOWN
            self._report("switch", state="down", reason=reason)

    def _mark_ready(self) -> None:
        if self.switch_state is SwitchState.DOWN:
            self.switch_state = SwitchState.READY
            self._report("switch", state="ready")
