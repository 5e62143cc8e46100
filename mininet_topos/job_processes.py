"""The processes of a job in an emulation: started, killed, and started again."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from controller.jobapi.channel import ControllerAddress
from host_stack import logs
from mininet_topos.fabric import FabricNetwork
from mininet_topos.processes import OnEvent, SupervisedProcess
from mininet_topos.star import StarNetwork
from workloads.training import FRAMEWORKS

CONTROLLER = "controller"
SWITCH = "switch"
SCHEDULER_PORT = 9700
READY_S = 180.0  # PyTorch alone takes a busy machine a minute
TORCH_PORT = 29500
ATTEMPTS = 3
"""After which a controller gives a switch up that it never set up: the run then says why."""


def worker_name(rank: int) -> str:
    """The name of a worker's process: they are counted from 1 for people."""
    return f"worker{rank + 1}"


def server_name(rank: int) -> str:
    """The name of a server's process and of its link: `server`, and `server2` of the next one."""
    return "server" if not rank else f"server{rank + 1}"


def is_server(name: str) -> bool:
    """Whether a name is one of `server_name`."""
    return re.fullmatch(r"server\d*", name) is not None


def is_worker(name: str) -> bool:
    """Whether a name is one of `worker_name`."""
    return re.fullmatch(r"worker\d+", name) is not None


def scheduler_name(rank: int) -> str:
    """The name of the process of a server's scheduler, which runs beside it."""
    return server_name(rank).replace("server", "scheduler")


class JobProcesses:
    """Schedulers, controller, servers and workers of one job, and the switch.

    Attributes:
        servers, schedulers, workers: the names of their processes, by rank.
        controller: where the controller serves its APIs.
    """

    def __init__(
        self,
        network: FabricNetwork[Any],
        folder: Path,
        on_event: OnEvent,
        holds: Mapping[str, Sequence[str]],
        framework: str = FRAMEWORKS[0],
        *,
        log_format: str = logs.FORMATS[0],
        has_detour: bool = False,
    ) -> None:
        """Of a job whose files are in `folder`; `holds` are points at which processes wait.

        With `has_detour` the controller asks for other routes while the switch is down.
        """
        topology = network.topology
        self._network = network
        self._folder = folder
        self._on_event = on_event
        self._holds = holds
        self._framework = framework
        self._log_format = log_format
        servers = {server_name(host.rank): host for host in topology.server_hosts}
        schedulers = {scheduler_name(host.rank): host for host in topology.server_hosts}
        workers = {worker_name(host.rank): host for host in topology.worker_hosts}
        self._hosts = servers | schedulers | workers
        self.servers, self.schedulers = list(servers), list(schedulers)
        self.workers = list(workers)
        self._switches = [site.name for site in topology.switches]
        self._down: set[str] = set()
        self._stack = ExitStack()
        # A path for a socket may have 107 bytes, the folder's path any length.
        private = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="libra-"))
        self._socket = Path(private) / "job.sock"
        self.controller = ControllerAddress.at_socket(self._socket)
        self._has_detour = has_detour

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def __getitem__(self, name: str) -> SupervisedProcess:
        """A process by its name."""
        if (switch := self._switch(name)) is not None:
            process: SupervisedProcess = switch.process
            return process
        return self._network.processes[name]

    @property
    def pids(self) -> dict[str, int]:
        """The processes that run now, by name."""
        names = (CONTROLLER, *self.schedulers, *self.servers, *self.workers, *self._switches)
        running = {name: self[name] for name in names if name not in self._down}
        return {name: each.pid for name, each in running.items() if each.running}

    def start(self, name: str, *, again: bool = False) -> SupervisedProcess:
        """Start a process; `again` says that it takes the place of one that died."""
        name = self._named(name)
        self._down.discard(name)
        if (switch := self._switch(name)) is not None:
            switch.start()
            return self[name]
        log = ("--log-format", self._log_format)
        argv = [sys.executable, "-m", *self._command(name, again), *log]
        if name == CONTROLLER:
            return self._network.processes.start(name, argv, on_event=self._on_event)
        host = self._hosts[name].name
        process = self._network.start(host, argv, name=name, on_event=self._on_event)
        if again and name in self.workers:
            process.go()  # others wait at their points alone, and would not do so at the first one
        return process

    def kill(self, name: str) -> bool:
        """Kill a process, by SIGKILL; until it is started again it may be missing.

        Returns false where it has ended by itself: there is nothing to kill, nor to start again.
        """
        name = self._named(name)
        if not self[name].running:
            return False
        self._down.add(name)
        if (switch := self._switch(name)) is not None:
            switch.kill()
        else:
            self[name].kill()
        return True

    def restart(self, name: str) -> None:
        """Start again what was killed."""
        self.start(name, again=True)

    def set_link(self, name: str, *, up: bool) -> None:
        """Cut the link of a process's host, or mend it."""
        self._network.set_link(self._hosts[name].name, up=up)

    def turn(self, *, detour: bool) -> None:
        """Change the hosts' routes as the controller has asked, and tell it so."""
        assert isinstance(self._network, StarNetwork)  # noqa: S101  others have no detour
        self._network.turn(detour=detour)
        self.release(CONTROLLER)

    def release(self, name: str) -> None:
        """Let a process go on that waits."""
        self[name].go()

    def check(self) -> None:
        """Raise the error of a process that failed, or that has ended where it must not.

        Those that were killed here, and are to be started again, may be missing.
        """
        for name in (CONTROLLER, *self._switches):
            if name not in self._down:
                self[name].require_running()
        self._network.processes.check()

    def _switch(self, name: str) -> Any:
        """The node of a switch; None for any other name."""
        found = self._named(name)
        return self._network.switch_named(found) if found in self._switches else None

    def _named(self, name: str) -> str:
        """The name of the first switch for `switch`."""
        return self._switches[0] if name == SWITCH else name

    def _command(self, name: str, again: bool) -> list[str]:
        folder = str(self._folder)
        holds = [word for point in self._holds.get(name, ()) for word in ("--hold", point)]
        if name == CONTROLLER:
            return [
                *("controller.daemon", f"{folder}/inventory.toml", f"{folder}/controller.sqlite"),
                *("--listen", f"unix:{self._socket}", "--attempts", str(ATTEMPTS)),
                *(["--detour"] if self._has_detour else []),
            ]
        if name in self.schedulers:
            return [
                *("host_stack.kv.scheduler", "--host", self._hosts[name].ip),
                *("--port", str(SCHEDULER_PORT), "--workers", str(len(self.workers))),
                *("--servers", "1", "--start-timeout-s", str(READY_S)),
            ]
        if name in self.servers:
            resume = ["--resume"] if again else []
            shard = ["--shard", str(self._hosts[name].rank)]
            return ["workloads.train_server", folder, str(self.controller), *shard, *resume, *holds]
        rank = str(self._hosts[name].rank)
        if self._framework == "torch":
            return [*self._torchrun(rank), "-m", "workloads.train_torch", folder]
        rejoin = ["--rejoin"] if again else []
        return ["workloads.train_worker", folder, rank, *rejoin, *holds]

    def _torchrun(self, rank: str) -> list[str]:
        """Torchrun on one host of the workers: a process there, which meets those of the others."""
        return [
            *("torch.distributed.run", "--nnodes", str(len(self.workers)), "--node-rank", rank),
            *("--nproc-per-node", "1", "--master-addr", self._hosts[self.workers[0]].ip),
            *("--master-port", str(TORCH_PORT)),
        ]
