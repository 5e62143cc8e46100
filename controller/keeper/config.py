"""What a keeper is told: the switch, the hosts at its ports, and what of the job is on it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from controller.tables import Attachment, Membership
from controller.targets import find_target
from controller.targets.ports import PortMap
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.jsonfile import read_json_object

SCHEMA = 1
MAX_SOCKET_BYTES = 107
"""Of the path of a Unix-domain socket (sockaddr_un)."""


class Placed(StrEnum):
    """What of a job is on the switch."""

    JOB = "job"
    """All: hot gradients are summed there."""
    GROUP = "group"
    """The multicast group of its UPDATEs."""
    NOTHING = "nothing"


@dataclass(frozen=True)
class KeeperConfig:
    """A keeper's configuration.

    Attributes:
        socket: path of the Unix-domain socket of the job API.
        address, target, device_id: the switch, as P4Runtime has it.
        program: name of the compiled program that it runs.
        switch_mac: its own.
        hosts: who hangs at which port. In a file, a port of a Tofino can be the panel's name of it;
            `ports` there maps names to device ports.
        placed: what of the job is on the switch.
        slot, row_base, rows, group_id: of the job there, as `Membership` has them.
        has_detour: the network has another path, which packets take while the switch is down.
    """

    socket: str
    address: str
    target: str
    device_id: int
    program: str
    switch_mac: str
    hosts: tuple[Attachment, ...]
    placed: Placed
    slot: int
    row_base: int
    rows: int
    group_id: int
    has_detour: bool = False

    def __post_init__(self) -> None:
        find_target(self.target).check_ports(host.port for host in self.hosts)
        if len(self.socket.encode()) > MAX_SOCKET_BYTES:
            raise BadInput(
                f"socket {self.socket}: a path of at most {MAX_SOCKET_BYTES} bytes is needed"
            )

    def membership(self, job: Job, epoch: int, fraction_bits: int) -> Membership:
        """The job on the switch; `BadInput` if a host of the job hangs at no port."""
        at = {host.address: host for host in self.hosts}
        missing = [address for address in (*job.workers, job.server) if address not in at]
        if missing:
            raise BadInput(f"{', '.join(missing)}: no port of the switch is known for it")
        if self.placed is Placed.JOB:
            ports = [at[worker].port for worker in job.workers]
            find_target(self.target).check_workers(self.slot, ports)
        return Membership(
            job=job.job,
            epoch=epoch,
            fraction_bits=fraction_bits,
            slot=self.slot,
            row_base=self.row_base,
            rows=self.rows,
            workers=[at[worker] for worker in job.workers],
            server=at[job.server],
            group=job.group,
            group_id=self.group_id,
        )

    def save(self, path: Path) -> None:
        """Write the configuration as JSON."""
        path.write_text(json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> KeeperConfig:
        """Read a file of `save`; `BadInput` says what is wrong with it."""
        fields = read_json_object(path, "configuration of a keeper")
        try:
            if (schema := fields.pop("schema")) != SCHEMA:
                raise ValueError(f"schema {schema}, this version reads {SCHEMA}")
            ports = PortMap(fields.pop("ports", {}))
            fields["hosts"] = tuple(_host(host, ports) for host in fields["hosts"])
            fields["placed"] = Placed(fields["placed"])
            return cls(**fields)
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(f"{path} is no configuration of a keeper: {error}") from error


def _host(fields: dict[str, Any], ports: PortMap) -> Attachment:
    """A host of a file, at a device port or at a port with a name."""
    port = fields["port"]
    return Attachment(**{**fields, "port": ports.device_port(port) if type(port) is str else port})
