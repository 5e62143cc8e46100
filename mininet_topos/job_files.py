"""The files from which the processes of a job in an emulation read what they have to do."""

from __future__ import annotations

from pathlib import Path

from controller.artifacts import Artifact
from controller.keeper.config import KeeperConfig, Placed
from controller.placing.blocks import block_rows
from controller.tables import Attachment
from host_stack.job import DEFAULT_TIMEOUTS_S, Job
from host_stack.placement import Placement, heat_based
from mininet_topos.job_processes import SCHEDULER_PORT
from mininet_topos.options import RunOptions
from mininet_topos.plan import Plan
from mininet_topos.star import HostSpec, StarTopology
from workloads.training import Training

JOB_ID = 1
JOB_SLOT = 1
EPOCH = 1
GROUP = "239.19.52.2"
GROUP_ID = 1
GRPC_ADDRESS = "127.0.0.1:9559"

PATIENT_TIMEOUTS_S = {"push": 60.0, "drain": 60.0, "commit": 120.0}
"""Of a run with faults: something is away for seconds, and has to be set up by a busy machine."""

_PLACED = {"libra": Placed.JOB, "fallback": Placed.GROUP, "server-only": Placed.NOTHING}
"""In mode fallback the job stays off the switch: its packets go on to the server. Its multicast
group is needed there too."""


class JobFiles:
    """job.json, training.json, keeper.json and placement-1.npz of one mode."""

    def __init__(
        self,
        mode: str,
        options: RunOptions,
        plan: Plan,
        artifact: Artifact,
        topology: StarTopology,
        folder: Path,
    ) -> None:
        self._mode = mode
        self._options = options
        self._plan = plan
        self._artifact = artifact
        self._topology = topology
        self._server = topology.server_hosts[0]
        self._folder = folder

    def write(self, num_keys: int, socket: Path) -> None:
        """Write all files; `socket` is where the controller is to listen."""
        self.job(num_keys).save(self._folder / "job.json")
        self.training().save(self._folder / "training.json")
        self.keeper(socket).save(self._folder / "keeper.json")
        self.placement().save(self._folder / "placement-1.npz")

    @property
    def fraction_bits(self) -> int:
        """F."""
        return self._plan.fraction_bits

    def placement(self) -> Placement:
        """The hot keys of the mode."""
        if self._mode == "server-only":
            return Placement.empty(self._artifact.layout)
        return self._plan.placement

    def other_placement(self) -> Placement:
        """Other hot keys, as many: the hottest quarter makes room for keys that were cold."""
        if self._mode == "server-only":
            return self.placement()
        hot = len(self._plan.placement)
        return heat_based(self._plan.heat.keys[hot // 4 : hot // 4 + hot], self._artifact.layout)

    def job(self, num_keys: int) -> Job:
        """What workers and server must know."""
        faults = self._options.faults_of(self._mode)
        return Job(
            job=JOB_ID,
            epoch=EPOCH,
            fraction_bits=self._plan.fraction_bits,
            num_keys=num_keys,
            layout=self._artifact.layout,
            workers=tuple(host.ip for host in self._topology.worker_hosts),
            server=self._server.ip,
            switch=self._topology.switch_ip,
            group=GROUP,
            scheduler=(self._server.ip, SCHEDULER_PORT),
            transport=self._options.transport,
            timeouts_s=dict(PATIENT_TIMEOUTS_S if faults else DEFAULT_TIMEOUTS_S),
        )

    def training(self) -> Training:
        """What is trained."""
        options = self._options
        return Training(
            dataset=options.dataset,
            model=str(options.model),
            optimizer=options.optimizer,
            learning_rate=options.learning_rate,
            rounds=options.rounds,
            batch=options.batch,
            seed=options.seed,
            evaluate_every=options.evaluate_every,
            checkpoint_every=options.checkpoint_every,
            consistency=options.consistency,
            audit=options.audit,
            framework=options.framework,
        )

    def keeper(self, socket: Path) -> KeeperConfig:
        """What the controller must know."""
        return KeeperConfig(
            socket=str(socket),
            address=GRPC_ADDRESS,
            target=self._options.target,
            device_id=1,
            program=self._artifact.name,
            switch_mac=self._topology.switch_mac,
            hosts=tuple(map(_attachment, self._topology.hosts)),
            placed=_PLACED[self._mode],
            slot=JOB_SLOT,
            row_base=0,
            rows=block_rows(self._plan.placement.used_rows),
            group_id=GROUP_ID,
            has_detour=self._options.backup_path,
        )


def _attachment(host: HostSpec) -> Attachment:
    return Attachment(host.ip, host.mac, host.port)
