"""What a machine must have to run Libra: each requirement looked at, with what to do about it.

Requirements are tried, not guessed: a namespace is made, a header compiled, a port bound. Nothing
that is tried outlives the check.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.artifacts import PROGRAMS, Artifact
from host_stack.errors import LibraError
from mininet_topos.errors import CommandFailed, IsolationFailed, MissingTool, NeedsRoot
from mininet_topos.namespace import require_permission
from mininet_topos.runner import MIN_DESCRIPTORS
from mininet_topos.tools import NETWORK_TOOLS, WHERE, require_tools, run_tool
from softswitch.compiler import find_compiler
from softswitch.errors import NoCompiler

MIN_KERNEL: Final = (4, 3)
"""Ambient capabilities and `tc`'s token bucket as the emulation uses them."""
MIN_PYTHON: Final = (3, 11)
MIN_CORES: Final = 2
PORTS: Final = {9559: "P4Runtime of a switch", 9560: "job API of a controller"}
CLOCK_STEP_S: Final = 1e-5
"""The coarsest clock that round-trip times can be measured by."""
TOOL_S: Final = 15.0

_HEADERS = "#include <stdio.h>\n#include <pthread.h>\n#include <linux/if_packet.h>\n"


@dataclass(frozen=True)
class Finding:
    """What was found, whether it will do, and if not, what to do (one sentence)."""

    ok: bool
    found: str
    fix: str = ""


@dataclass(frozen=True)
class Requirement:
    """Something that a machine must, or should, have.

    Attributes:
        name: one word, stable: programs may look for it.
        needed_for: what does not work without it.
        required: without it `libra run` does not work at all.
        look: finds out.
    """

    name: str
    needed_for: str
    required: bool
    look: Callable[[], Finding]


@dataclass(frozen=True)
class Check:
    """A requirement and what was found of it."""

    name: str
    needed_for: str
    required: bool
    ok: bool
    found: str
    fix: str


def examine() -> Iterator[Check]:
    """Look at each requirement in turn; nothing that is found raises an error."""
    for requirement in REQUIREMENTS:
        finding = requirement.look()
        yield Check(
            requirement.name,
            requirement.needed_for,
            requirement.required,
            finding.ok,
            finding.found,
            finding.fix,
        )


def look_at_kernel() -> Finding:
    """Linux, new enough, on a 64-bit processor."""
    system, release, machine = platform.system(), platform.release(), platform.machine()
    found = f"{system} {release}, {machine}"
    if system != "Linux" or sys.maxsize < 1 << 32:
        return Finding(False, found, "use Linux on a 64-bit processor, in a virtual machine too")
    numbers = release.split("-")[0].split(".")[:2]
    version = tuple(int(number) for number in numbers if number.isdecimal())
    if version < MIN_KERNEL:
        return Finding(False, found, f"use a kernel from {'.'.join(map(str, MIN_KERNEL))} on")
    return Finding(True, found)


def look_at_python() -> Finding:
    """The interpreter that runs this."""
    found = platform.python_version()
    wanted = ".".join(map(str, MIN_PYTHON))
    if sys.version_info[:2] < MIN_PYTHON:
        return Finding(False, found, f"make clean, then make run PYTHON=python{wanted} or newer")
    return Finding(True, found)


def look_at_cores() -> Finding:
    """Processors that this process may use."""
    cores = len(os.sched_getaffinity(0))
    if cores < MIN_CORES:
        return Finding(
            False,
            f"{cores}",
            f"give the machine {MIN_CORES} cores: the switch fills one, so times say nothing",
        )
    return Finding(True, f"{cores}")


def look_at_root() -> Finding:
    """Whether this process is root's."""
    uid = os.geteuid()
    if uid:
        return Finding(False, f"user {uid}", "run the command with sudo")
    return Finding(True, "root")


def look_at_namespaces() -> Finding:
    """Make network, mount and process namespaces, as an emulation does."""
    try:
        require_permission()
    except NeedsRoot:
        return Finding(False, "not tried: only root may", "run the command with sudo")
    except MissingTool as error:
        return Finding(False, "not tried: a program is missing", str(error))
    except IsolationFailed as error:
        return Finding(
            False,
            "forbidden here",
            f"{error}; elsewhere, raise the sysctls user.max_net_namespaces, "
            "user.max_mnt_namespaces and user.max_pid_namespaces",
        )
    return Finding(True, "network, mount and process namespaces can be made")


_LINK_TRIALS = {
    "veth": ("ip", "link", "add", "name", "v0", "type", "veth", "peer", "name", "v1"),
    "sch_tbf": (
        *("tc", "qdisc", "add", "dev", "lo", "root", "tbf"),
        *("rate", "1mbit", "burst", "10k", "latency", "10ms"),
    ),
    "bridge": ("ip", "link", "add", "name", "b0", "type", "bridge"),
}
"""What a kernel must have for the links of an emulation, and a command that fails without it."""


def look_at_links() -> Finding:
    """Make the links of an emulation in a namespace that vanishes at once."""
    if os.geteuid():
        return Finding(False, "not tried: only root may", "run the command with sudo")
    missing = []
    for module, command in _LINK_TRIALS.items():
        try:
            require_tools("unshare", command[0])
            run_tool(["unshare", "--net", *command], timeout_s=TOOL_S)
        except MissingTool as error:
            return Finding(False, "not tried: a program is missing", str(error))
        except CommandFailed:
            missing.append(module)
    if missing:
        return Finding(
            False,
            f"the kernel does not make {', '.join(missing)}",
            f"load the modules: modprobe {' '.join(missing)}; if there are none, use a kernel "
            "that has them",
        )
    return Finding(True, ", ".join(_LINK_TRIALS))


def look_at_mininet() -> Finding:
    """Mininet's helper that enters namespaces."""
    return _program("mnexec", f"get it from {WHERE['mnexec']}")


def look_at_network_tools() -> Finding:
    """The programs that set an emulation up."""
    wanted = [tool for tool in NETWORK_TOOLS if tool != "mnexec"]
    wanted += ["unshare", "nsenter", "mount"]
    fixes = []
    for name in wanted:
        try:
            require_tools(name)
        except MissingTool as error:
            fixes.append(str(error))
    if fixes:
        return Finding(False, f"{len(fixes)} of {len(wanted)} programs missing", "; ".join(fixes))
    return Finding(True, ", ".join(wanted))


def look_at_compiler() -> Finding:
    """A C compiler with the headers of the C library and of the kernel."""
    try:
        compiler = find_compiler()
    except NoCompiler as error:
        return Finding(False, "none", str(error))
    version = (compiler.version.splitlines() or [""])[0]
    command = [*compiler.command, "-fsyntax-only", "-x", "c", "-"]
    try:
        done = subprocess.run(
            command, input=_HEADERS, capture_output=True, text=True, timeout=TOOL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(False, version, f"{compiler.command[0]} does not run: {error}")
    if done.returncode:
        return Finding(
            False,
            f"{version}, without headers",
            "install the headers of the C library and of Linux; Debian and Ubuntu: "
            "apt install libc6-dev linux-libc-dev",
        )
    return Finding(True, version)


def look_at_programs() -> Finding:
    """The compiled switch programs, made of the sources that are here."""
    try:
        for name in PROGRAMS:
            artifact = Artifact.load(name)
            artifact.require_current()
    except LibraError as error:
        return Finding(False, "not those of the sources", str(error))
    return Finding(True, f"{', '.join(PROGRAMS)}, by {artifact.compiler}")


def look_at_files() -> Finding:
    """How many files a process may have open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    found = "unlimited" if unlimited else f"{hard} open files"
    if not unlimited and hard < MIN_DESCRIPTORS:
        return Finding(False, found, f"raise the limit, as root: ulimit -n {MIN_DESCRIPTORS}")
    return Finding(True, found)


def look_at_ports() -> Finding:
    """TCP ports of the loopback; an emulation does not need them, it has its own."""
    taken = []
    for port, purpose in PORTS.items():
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                taken.append(f"{port} ({purpose})")
    if taken:
        return Finding(
            False,
            f"taken: {', '.join(taken)}",
            "end what listens there (`ss -ltnp` names it), or choose another port: --grpc of "
            "softswitch, --listen of libra controller",
        )
    return Finding(True, f"{', '.join(map(str, PORTS))} are free")


def look_at_clock() -> Finding:
    """A fine monotonic clock, and a date that is not before that of this program."""
    step_s = time.get_clock_info("monotonic").resolution
    date = time.strftime("%Y-%m-%d", time.gmtime(time.time()))
    if step_s > CLOCK_STEP_S:
        return Finding(
            False,
            f"steps of {step_s:g} s",
            "choose a finer clock source: /sys/devices/system/clocksource/clocksource0",
        )
    written = max(path.stat().st_mtime for path in Path(__file__).parent.glob("*.py"))
    if time.time() < written - 86400:
        return Finding(
            False,
            f"{date}, which is before this program was installed",
            "set the clock (certificates are refused before their time): timedatectl set-ntp true",
        )
    return Finding(True, f"{date}, steps of {step_s:g} s")


def look_at_p4c() -> Finding:
    """The P4 compiler."""
    return _program("p4c-bm2-ss", "build or install p4c, see the README, and put it on PATH")


def look_at_bmv2() -> Finding:
    """The reference switch."""
    return _program("simple_switch_grpc", f"get it from {WHERE['simple_switch_grpc']}")


def _program(name: str, fix: str) -> Finding:
    path = shutil.which(name)
    return Finding(False, "not on PATH", fix) if path is None else Finding(True, path)


RUN = "libra run"
REQUIREMENTS: Final = (
    Requirement("kernel", RUN, True, look_at_kernel),
    Requirement("python", RUN, True, look_at_python),
    Requirement("root", RUN, True, look_at_root),
    Requirement("namespaces", RUN, True, look_at_namespaces),
    Requirement("links", RUN, True, look_at_links),
    Requirement("mininet", RUN, True, look_at_mininet),
    Requirement("network-tools", RUN, True, look_at_network_tools),
    Requirement("compiler", "the embedded switch", True, look_at_compiler),
    Requirement("programs", RUN, True, look_at_programs),
    Requirement("files", RUN, True, look_at_files),
    Requirement("clock", "round-trip times, certificates", True, look_at_clock),
    Requirement("cores", "times that mean something", False, look_at_cores),
    Requirement("ports", "softswitch run, libra controller", False, look_at_ports),
    Requirement("p4c", "make p4", False, look_at_p4c),
    Requirement("bmv2", "make run TARGET=bmv2", False, look_at_bmv2),
)
