"""The file that a planned topology is handed on in: `libra run --topo` brings it up.

It holds the topology, the rate of its links, the traffic of an iteration and what the simulator
says that the communication takes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from host_stack.jsonfile import read_json_object
from mininet_topos.json_node import JsonNode
from planner.errors import PlanError
from planner.topology.direct import PATHS_MAX
from planner.topology.finder import AllReduceDemand, Demand
from planner.topology.topology import Topology
from planner.topology.topology_file import as_fields as topology_fields
from planner.topology.topology_file import from_fields as read_topology
from planner.topology.topology_file import write_json

SCHEMA = 1


@dataclass(frozen=True)
class PlanFile:
    """A topology with its traffic.

    Attributes:
        name: of the job.
        topology: servers, rings and links.
        rate_bps: of every link, each way.
        demand: what an iteration sends.
        paths: that share a transfer.

    """

    name: str
    topology: Topology
    rate_bps: float
    demand: Demand
    paths: int

    def write(self, path: Path) -> None:
        """Write it as JSON; raises PlanError when the folder cannot be written to."""
        transfers = self.demand.transfers
        write_json(
            path,
            {
                "schema": SCHEMA,
                "name": self.name,
                "rate_bps": self.rate_bps,
                "paths": self.paths,
                "topology": topology_fields(self.topology),
                "allreduces": [
                    {"members": list(each.members), "size_bytes": each.size_bytes}
                    for each in self.demand.allreduces
                ],
                "transfers": [
                    [a, b, float(transfers[a, b])] for a, b in np.argwhere(transfers).tolist()
                ],
            },
        )

    @classmethod
    def read(cls, path: Path) -> PlanFile:
        """Read what `write` wrote; raises PlanError naming what is wrong with it."""
        root = JsonNode("topo", read_json_object(path, "planned topology"), PlanError)
        schema = root.get("schema").integer()
        if schema != SCHEMA:
            raise PlanError(f"topo.schema is {schema}; this version reads schema {SCHEMA}")
        topology = read_topology(root.get("topology"))
        rate_bps = root.get("rate_bps").number()
        if not rate_bps > 0:
            raise PlanError(f"topo.rate_bps is {rate_bps:g}; need a number above 0")
        return cls(
            root.get("name").label(),
            topology,
            rate_bps,
            _demand(root, topology.servers),
            _paths(root),
        )


def _paths(root: JsonNode) -> int:
    paths = root.get("paths").integer(1)
    if paths > PATHS_MAX:
        raise PlanError(f"topo.paths is {paths}; allowed are 1 to {PATHS_MAX}")
    return paths


def _demand(root: JsonNode, servers: int) -> Demand:
    matrix = np.zeros((servers, servers))
    for node in root.get("transfers").elements():
        ends: list[Any] = node.elements()
        if len(ends) != 3:
            raise node.mismatch("a server, a server and bytes")
        source, to = ends[0].integer(), ends[1].integer()
        if max(source, to) >= servers:
            raise node.mismatch(f"servers from 0 to {servers - 1}")
        matrix[source, to] += ends[2].number()
    rings = tuple(
        AllReduceDemand(
            tuple(each.integer() for each in node.get("members").elements()),
            node.get("size_bytes").number(),
        )
        for node in root.get("allreduces").elements()
    )
    return Demand(servers, rings, matrix)
