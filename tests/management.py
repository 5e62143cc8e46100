"""A network for management in an emulation: hosts reach a controller beside that of their job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mininet_topos.fabric import FabricNetwork
from mininet_topos.tools import run_tool


@contextmanager
def managed(network: FabricNetwork[Any], links: dict[str, str]) -> Iterator[None]:
    """Link hosts with the emulation's root, where the controller is.

    `links` gives each host the first three bytes of its link's addresses: `.1` is the controller's
    end, `.2` the host's.
    """
    for host, net in links.items():
        node = network.host(host)
        ends = ("type", "veth", "peer", "name", "mgmt", "netns", str(node.pid))
        run_tool(["ip", "link", "add", f"mg-{host}", *ends])
        run_tool(["ip", "address", "add", f"{net}.1/30", "dev", f"mg-{host}"])
        run_tool(["ip", "link", "set", f"mg-{host}", "up"])
        node.run("ip", "address", "add", f"{net}.2/30", "dev", "mgmt")
        node.run("ip", "link", "set", "mgmt", "up")
    try:
        yield
    finally:
        for host in links:
            run_tool(["ip", "link", "delete", f"mg-{host}"])
