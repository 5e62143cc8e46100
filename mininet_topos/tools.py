"""The programs that an emulation calls, and how they are called: argument lists, never a shell."""

import shutil
import subprocess
from collections.abc import Sequence

from mininet_topos.errors import CommandFailed, MissingTool

NETWORK_TOOLS = ("mnexec", "ifconfig", "ip", "tc", "bridge", "ethtool", "sysctl")

_DEBIAN = "Debian and Ubuntu: apt install {}"
WHERE = {
    "bridge": _DEBIAN.format("iproute2"),
    "ethtool": _DEBIAN.format("ethtool"),
    "ifconfig": _DEBIAN.format("net-tools"),
    "ip": _DEBIAN.format("iproute2"),
    "mnexec": _DEBIAN.format("mininet"),
    "mount": _DEBIAN.format("mount"),
    "nsenter": _DEBIAN.format("util-linux"),
    "sysctl": _DEBIAN.format("procps"),
    "tc": _DEBIAN.format("iproute2"),
    "unshare": _DEBIAN.format("util-linux"),
    "simple_switch_grpc": (
        "the P4 consortium's packages for Debian and Ubuntu, https://p4.org, package p4lang-bmv2; "
        "or use the embedded switch, target 'soft'"
    ),
}
"""Where a program comes from."""


def require_tools(*names: str) -> None:
    """Check that programs are on PATH.

    Raises:
        MissingTool: names the first one that is not and where it comes from.

    """
    for name in names:
        if shutil.which(name) is None:
            raise MissingTool(f"{name} is not on PATH; get it from {WHERE[name]}")


def run_tool(argv: Sequence[str], stdin: str = "", timeout_s: float = 30.0) -> str:
    """Run a set-up command to its end and return its standard output.

    Raises:
        CommandFailed: with the command and what it wrote to standard error.

    """
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"`{' '.join(argv)}` did not end within {timeout_s:g} s") from None
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip() or "no message"
        raise CommandFailed(f"`{' '.join(argv)}` returned {done.returncode}: {reason}")
    return done.stdout
