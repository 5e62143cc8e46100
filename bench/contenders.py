"""What is measured against one another: switches and the reflector, each a process with links."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.frames import ACK_BYTES, CHECKSUM_AT, SEQ_AT
from bench.job import BenchJob
from bench.traffic import Generator, Load, Sent, open_socket
from mininet_topos.nodes import Bmv2Switch, bmv2_argv, prepare_ports, softswitch_argv
from mininet_topos.processes import ProcessGroup, SupervisedProcess, tcp_probe
from mininet_topos.tools import run_tool

READY_S = 60.0
FRAMES = 512
"""Different GRADs of each worker."""

SWITCHES = {"soft": 9559, "bmv2": 9560}
"""Targets, with the port where each serves P4Runtime."""


def bmv2_is_installed() -> bool:
    """Whether `simple_switch_grpc` is on PATH."""
    return shutil.which("simple_switch_grpc") is not None


def prefer(pid: int | str) -> None:
    """Give the session of a process the highest share of the processor, where the kernel can.

    Contenders and generator get the same, so that other work on the machine disturbs them less.
    """
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("-19")


@dataclass
class Contender:
    """A running process, the generator that loads it, and the rates that it reached.

    `address` is where a switch serves P4Runtime, None for the reflector.
    """

    name: str
    process: SupervisedProcess
    generator: Generator
    job: BenchJob
    address: str | None
    runs: list[Sent] = field(default_factory=list)
    warm_up: list[Sent] = field(default_factory=list)

    def measure(self, seconds: float, *, warm_up: bool = False) -> Sent:
        """Load it for so long."""
        self.process.require_running()
        sent = self.generator.run(seconds)
        (self.warm_up if warm_up else self.runs).append(sent)
        return sent

    def aggregated(self) -> int | None:
        """How many packets a switch says that it added up."""
        if self.address is None:
            return None
        return asyncio.run(self.job.aggregated(self.address, self.name))


@contextmanager
def links(prefix: str, count: int) -> Iterator[list[tuple[str, str]]]:
    """Pairs of interfaces (generator's end, switch's end), without offloads."""
    pairs = [(f"{prefix}g{i}", f"{prefix}s{i}") for i in range(count)]
    lines = [f"link add name {near} type veth peer name {far}" for near, far in pairs]
    lines += [f"link set dev {name} up" for pair in pairs for name in pair]
    run_tool(["ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))
    prepare_ports(name for pair in pairs for name in pair)
    yield pairs
    run_tool(["ip", "-batch", "-"], "".join(f"link delete dev {near}\n" for near, _ in pairs))


@contextmanager
def contender(
    name: str, job: BenchJob, processes: ProcessGroup, *, window: int
) -> Iterator[Contender]:
    """A contender (`soft`, `bmv2`, `reflector`) that is ready for load, with links of its own.

    Must be called inside an emulation's namespaces. The reflector has one link.
    """
    workers = job.workers if name in SWITCHES else 1
    address = f"127.0.0.1:{SWITCHES[name]}" if name in SWITCHES else None
    with ExitStack() as stack:
        pairs = stack.enter_context(links(name[:2], workers))
        process = _start(name, address, [far for _, far in pairs], job, processes)
        prefer(process.pid)
        sockets = [stack.enter_context(open_socket(near)) for near, _ in pairs]
        loads = [
            Load(
                ifname=near,
                frames=job.frames(rank, FRAMES),
                window=window,
                answer_bytes=ACK_BYTES,
                counter_at=SEQ_AT,
                checksum_at=CHECKSUM_AT,
            )
            for rank, (near, _) in enumerate(pairs)
        ]
        yield Contender(name, process, Generator(loads, sockets), job, address)
        process.stop()


def _start(
    name: str, address: str | None, ifnames: Sequence[str], job: BenchJob, processes: ProcessGroup
) -> SupervisedProcess:
    if address is None:
        argv = [sys.executable, "-m", "bench.reflector", ifnames[0], str(ACK_BYTES)]
        process = processes.start(name, argv)
        process.wait_event("ready", READY_S)
        return process
    ports = dict(zip(job.ports, ifnames, strict=True))
    if name == "soft":
        process = processes.start(name, softswitch_argv(address, 1, ports))
        process.wait_event("ready", READY_S)
    else:
        Bmv2Switch.setup()
        process = processes.start(name, bmv2_argv(address, 1, ports))
        host, _, port = address.rpartition(":")
        process.wait_until(tcp_probe(host, int(port)), f"gRPC server on {address}", READY_S)
    asyncio.run(job.install(address, name))
    return process
