"""A job on a connected switch: read back, installed, taken to another epoch."""

from __future__ import annotations

import finsy as fy

from controller.keeper.config import KeeperConfig, Placed
from controller.provision import provision_group, provision_job, provision_network
from controller.tables import Forward, Local
from controller.targets import Program
from host_stack.job import Job


class JobSwitch:
    """What a keeper reads and writes; errors are those of finsy."""

    def __init__(self, config: KeeperConfig, job: Job, program: Program) -> None:
        self._config = config
        self._job = job
        self._program = program

    async def is_empty(self, switch: fy.Switch) -> bool:
        """Whether nothing was written since the program was loaded: routes are written first."""
        routes = switch.read(fy.P4TableEntry("LibraIngress.forward.routes"))
        async for _ in routes:  # type: ignore[attr-defined]  # finsy annotates a coroutine
            return False
        return True

    async def epoch(self, switch: fy.Switch) -> int | None:
        """The epoch of the job on the switch; None if the job is not there."""
        jobs = switch.read(fy.P4TableEntry("LibraIngress.membership.jobs"))
        async for entry in jobs:  # type: ignore[attr-defined]
            if int(entry["job"]) == self._job.job:
                return int(entry.action.args["epoch"])
        return None

    async def holds(self, switch: fy.Switch, epoch: int) -> bool:
        """Whether the switch is as `install` of an epoch, run to its end, leaves it."""
        if self._config.placed is Placed.JOB:
            return await self.epoch(switch) == epoch
        return not await self.is_empty(switch) and await self.epoch(switch) is None

    async def install(self, switch: fy.Switch, epoch: int, fraction_bits: int) -> None:
        """Install network and job on an empty switch."""
        config = self._config
        forward, local = Forward(config.switch_mac, config.hosts), Local(self._job.switch)
        await provision_network(switch, forward, local)
        membership = config.membership(self._job, epoch, fraction_bits)
        if config.placed is Placed.JOB:
            await provision_job(switch, membership, self._program)
        elif config.placed is Placed.GROUP:
            await provision_group(switch, membership)

    async def change_epoch(self, switch: fy.Switch, epoch: int, fraction_bits: int) -> None:
        """Take the installed job to another epoch, at once for all packets."""
        if self._config.placed is Placed.JOB:
            membership = self._config.membership(self._job, epoch, fraction_bits)
            await switch.modify([membership.job_entry()])
