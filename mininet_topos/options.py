"""The knobs of `libra run`, checked before anything starts."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controller.artifacts import program_with
from controller.placing.methods import BEST, METHODS
from controller.targets import EMULATED
from host_stack import logs
from host_stack.connect import TRANSPORTS
from host_stack.errors import BadInput
from host_stack.fixedpoint import check_fraction_bits
from host_stack.layout import MAX_ROUND, MAX_WORKERS
from host_stack.progress import BSP, Consistency
from host_stack.shards import MAX_SERVERS
from mininet_topos.faults import Action, BadFault, Fault, FaultPlan
from mininet_topos.job_processes import is_server, server_name, worker_name
from mininet_topos.leaf_spine import LEAVES_MAX, SPINES_MAX, LeafSpineTopology
from mininet_topos.shaping import LinkShape
from mininet_topos.star import StarTopology
from mininet_topos.topology import Topology
from workloads.holds import SERVER_PHASES, WORKER_PHASES
from workloads.optimizers import make_optimizer
from workloads.training import FRAMEWORKS

MODES = ("libra", "server-only", "fallback")
TOPOLOGIES = ("star", "leaf-spine")


@dataclass(frozen=True)
class RunOptions:
    """What a run is asked to do; `None` means: choose from the data.

    Attributes:
        dataset, model, optimizer: names, with options; see `workloads`.
        learning_rate: of the optimiser, for the sum of the workers' gradients.
        workers, rounds, batch, seed: size and seed of the training.
        servers: over which the keys are sharded.
        modes: which of `MODES` to run, in order.
        target: which switch.
        lanes: of the program that it runs.
        topology: of `TOPOLOGIES`. leaves, spines: switches of a leaf-spine network.
        link_mbps: rate of every link, each way.
        link_rates: `server`, `worker1`, … → Mbit/s of its link, if it is another one.
        hot: number of hot keys; None for the byte model's choice.
        placement: method of placing the hot keys.
        fraction_bits: F; None for a choice from sampled gradients.
        sample: share of the training data that identifies the hot keys.
        transport: "batch" or "scapy".
        evaluate_every, checkpoint_every: rounds.
        consistency: how workers keep in step; `rounds` are the steps of each.
        audit: record what is pushed and committed, and check it.
        backup_path: hosts have a second path, around the switch.
        change_hot_set: round at whose beginning other keys become hot; None for never.
        framework: what the workers compute with; of `FRAMEWORKS`.
        log_format: of the logs of all processes but switches; of `logs.FORMATS`.
        faults: what goes wrong; see `faults_of`.
        out: folder of results.
    """

    dataset: str = "movielens"
    model: str | None = None
    optimizer: str = "adagrad"
    learning_rate: float = 0.1
    workers: int = 4
    servers: int = 1
    rounds: int = 60
    batch: int = 512
    seed: int = 1
    modes: tuple[str, ...] = field(default=MODES)
    target: str = "soft"
    lanes: int = 32
    topology: str = TOPOLOGIES[0]
    leaves: int = 2
    spines: int = 1
    link_mbps: float = 20.0
    link_rates: Mapping[str, float] = field(default_factory=dict)
    hot: int | None = None
    placement: str = BEST
    fraction_bits: int | None = None
    sample: float = 0.08
    transport: str = "batch"
    evaluate_every: int = 5
    checkpoint_every: int = 25
    consistency: str = "bsp"
    audit: bool = False
    backup_path: bool = False
    change_hot_set: int | None = None
    framework: str = FRAMEWORKS[0]
    log_format: str = logs.FORMATS[0]
    faults: FaultPlan = field(default_factory=FaultPlan)
    out: Path = Path("out")

    def __post_init__(self) -> None:
        _one_of("target", self.target, tuple(EMULATED))
        program_with(self.lanes)
        self._check_topology()
        _one_of("transport", self.transport, TRANSPORTS)
        _one_of("log-format", self.log_format, logs.FORMATS)
        Consistency.parse(self.consistency)
        _one_of("placement", self.placement, tuple(METHODS))
        make_optimizer(self.optimizer, 0, learning_rate=self.learning_rate)
        if not self.modes:
            raise BadInput(f"no mode given; known are {', '.join(MODES)}")
        for mode in self.modes:
            _one_of("mode", mode, MODES)
        _between("workers", self.workers, 1, MAX_WORKERS)
        _between("servers", self.servers, 1, MAX_SERVERS)
        if self.servers > 1:
            self._check_servers()
        _between("rounds", self.rounds, 1, MAX_ROUND)
        _between("batch", self.batch, 1, 1 << 20)
        LinkShape(self.link_mbps)
        for name, mbps in self.link_rates.items():
            _one_of("link", name, tuple(self.links_mbps))
            LinkShape(mbps)
        _between("seed", self.seed, 0, (1 << 53) - 1)
        _between("evaluate-every", self.evaluate_every, 1, MAX_ROUND)
        _between("checkpoint-every", self.checkpoint_every, 0, MAX_ROUND)
        if self.change_hot_set is not None:
            _between("change-hot-set", self.change_hot_set, 1, self.rounds - 1)
        if self.hot is not None:
            _between("hot", self.hot, 0, 1 << 30)
        if self.fraction_bits is not None:
            check_fraction_bits(self.fraction_bits)
        if not 0 < self.sample <= 1:
            raise BadInput(f"sample {self.sample}: allowed are shares above 0, up to 1")
        if self.framework != FRAMEWORKS[0]:
            self._check_torch()
        self.faults.check(
            workers=self.workers,
            servers=self.servers,
            rounds=self.rounds,
            target=self.target,
            backup=self.backup_path,
            switches=self._switch_names,
        )

    @property
    def _switch_names(self) -> list[str]:
        return [site.name for site in self.network.switches]

    @property
    def network(self) -> Topology:
        """The network of a mode, but for its faults."""
        if self.topology == "star":
            return StarTopology(
                workers=self.workers,
                servers=self.servers,
                target=self.target,
                rate_mbps=self.link_mbps,
                rates_mbps=self._rates_of_hosts,
                backup_path=self.backup_path,
            )
        return LeafSpineTopology(
            workers=self.workers,
            servers=self.servers,
            target=self.target,
            rate_mbps=self.link_mbps,
            rates_mbps=self._rates_of_hosts,
            leaves=self.leaves,
            spines=self.spines,
        )

    @property
    def links_mbps(self) -> dict[str, float]:
        """`server`, `server2`, …, `worker1`, … → rate of its link."""
        servers = [server_name(rank) for rank in range(self.servers)]
        names = [*servers, *(worker_name(rank) for rank in range(self.workers))]
        return {name: self.link_rates.get(name, self.link_mbps) for name in names}

    @property
    def _rates_of_hosts(self) -> dict[str, float]:
        """The same by the names of hosts: a host is called by its role and rank."""
        hosts = [f"ps{rank}" for rank in range(self.servers)]
        hosts += [f"w{rank}" for rank in range(self.workers)]
        return dict(zip(hosts, self.links_mbps.values(), strict=True))

    def _check_topology(self) -> None:
        _one_of("topology", self.topology, TOPOLOGIES)
        if self.topology != "star" and self.backup_path:
            raise BadInput("a backup path leads around one switch: it needs --topology star")
        _between("leaves", self.leaves, 1, LEAVES_MAX)
        _between("spines", self.spines, 1, SPINES_MAX)

    def _check_servers(self) -> None:
        """What a job with several servers cannot do; see docs/reliability.md."""
        if Consistency.parse(self.consistency) != BSP:
            raise BadInput(f"consistency {self.consistency}: with several servers it is bsp")
        if self.transport != "batch":
            raise BadInput(f"transport {self.transport}: with several servers it is batch")
        if self.backup_path:
            raise BadInput("a backup path is for a job with one server")
        killed = [str(fault) for fault in self.faults.faults if is_server(fault.target)]
        dies = any(not each.startswith(Action.CUT) for each in killed)
        if dies and self.checkpoint_every != 1:
            raise BadInput(
                f"{', '.join(killed)}: of several servers one may come back only where every "
                "round is in its checkpoint: add --checkpoint-every 1"
            )

    def _check_torch(self) -> None:
        _one_of("framework", self.framework, FRAMEWORKS)
        if Consistency.parse(self.consistency) != BSP:
            raise BadInput(
                f"consistency {self.consistency}: workers with PyTorch keep in step, bsp"
            )
        hit = [f"{fault.action}={fault.target}" for fault in self.faults.faults]
        if any(not each.endswith("=switch") for each in hit):
            raise BadInput(
                f"{', '.join(hit)}: with PyTorch a run can lose its switch, and packets; a worker "
                "or server that is gone ends torch.distributed"
            )
        unseen = [fault for fault in self.faults.faults if fault.phase in WORKER_PHASES]
        if unseen:
            raise BadFault(
                f"fault {unseen[0].as_given}: workers with PyTorch stop in no phase; allowed are "
                f"the beginning of a round and {', '.join(SERVER_PHASES)}"
            )
        importlib.import_module("host_stack.torch")  # says so if PyTorch is missing

    @property
    def uncertain_faults(self) -> tuple[Fault, ...]:
        """Those whose point may never come: out of step a job may have fewer rounds than steps."""
        if Consistency.parse(self.consistency) == BSP:
            return ()
        return tuple(each for each in self.faults.faults if each.phase not in WORKER_PHASES)

    def faults_of(self, mode: str) -> FaultPlan:
        """The faults of one mode: server-only stays without, to compare with, unless alone."""
        if mode == "server-only" and len(self.modes) > 1:
            return FaultPlan()
        return self.faults.among(self._switch_names)


def parse_link_rate(text: str) -> tuple[str, float]:
    """Read NAME=MBPS: whose link, and its rate in Mbit/s; `BadInput` for anything else."""
    name, _, rate = text.partition("=")
    try:
        return name, float(rate)
    except ValueError:
        raise BadInput(f"--link-rate {text!r}: NAME=MBPS is needed, as in worker2=5") from None


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise BadInput(f"unknown {name} {value!r}; known are {', '.join(known)}")


def _between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise BadInput(f"{name} {value}: allowed are {low} to {high}")
