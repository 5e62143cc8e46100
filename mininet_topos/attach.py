"""Enter a running emulation from another terminal: `python -m mininet_topos.attach w0`."""

import argparse
import os
import sys
from pathlib import Path

from mininet_topos.errors import BadTopology, EmulationError, NeedsRoot
from mininet_topos.tools import require_tools


def find_node(name: str, proc: Path = Path("/proc")) -> list[int]:
    """Return the processes that hold the namespaces of nodes of a name, one an emulation."""
    wanted = f"mininet:{name}".encode()  # Mininet's mark on each node's shell
    found = []
    for directory in proc.iterdir():
        if directory.name.isdecimal():
            try:
                words = (directory / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has just ended
            if words[:1] == [b"bash"] and wanted in words:
                found.append(int(directory.name))
    return sorted(found)


def choose_node(name: str, pid: int | None, found: list[int]) -> int:
    """Return the one process to enter.

    Raises BadTopology when no emulation has a node of the name, or several have and `pid` names
    none of them.
    """
    if pid is None and len(found) == 1:
        return found[0]
    if pid in found and pid is not None:
        return pid
    if not found:
        raise BadTopology(f"no running emulation has a node '{name}'")
    choices = ", ".join(map(str, found))
    raise BadTopology(f"{len(found)} nodes are named '{name}': choose one by --pid {choices}")


def enter_argv(pid: int, command: list[str]) -> list[str]:
    """Return the command line that runs a command beside a node's process."""
    return ["nsenter", "--target", str(pid), "--net", "--mount", "--pid", "--", *command]


def main() -> None:
    """Run a command, by default a shell, in a host or, as `s1`, beside the switch."""
    parser = argparse.ArgumentParser(
        prog="python -m mininet_topos.attach", description=main.__doc__
    )
    parser.add_argument("node", help="a host (ps0, w0, …) or the switch (s1)")
    parser.add_argument("--pid", type=int, help="which one, when several emulations run")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="bash when left out")
    options = parser.parse_args()
    try:
        if os.geteuid() != 0:
            raise NeedsRoot("only root may enter an emulation: run the command with sudo")
        require_tools("nsenter")
        pid = choose_node(options.node, options.pid, find_node(options.node))
    except EmulationError as error:
        sys.exit(f"error: {error}")
    argv = enter_argv(pid, options.command or ["bash"])
    os.execvp(argv[0], argv)  # noqa: S606


if __name__ == "__main__":
    main()
