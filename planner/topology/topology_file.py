"""Topologies as JSON, and writing JSON files whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mininet_topos.json_node import JsonNode
from planner.errors import PlanError
from planner.topology.permutations import Strides
from planner.topology.topology import RingGroup, Topology


def as_fields(topology: Topology) -> dict[str, Any]:
    """The topology for a JSON file: `from_fields` reads it back."""
    return {
        "servers": topology.servers,
        "degree": topology.degree,
        "groups": [
            {
                "members": list(group.members),
                "strides": list(group.strides.both_ways),
                "one_way_strides": list(group.strides.one_way),
            }
            for group in topology.groups
        ],
        "matched_pairs": [list(pair) for pair in topology.pairs],
    }


def from_fields(node: JsonNode) -> Topology:
    """Check a topology from a JSON file; raises PlanError naming what is wrong."""
    servers = node.get("servers").integer(1)
    groups = tuple(_group(each) for each in node.get("groups").elements())
    pairs = [
        tuple(end.integer() for end in each.elements())
        for each in node.get("matched_pairs").elements()
    ]
    if any(len(pair) != 2 or pair[0] == pair[1] for pair in pairs):
        raise node.get("matched_pairs").mismatch("pairs of different servers")
    return Topology(servers, node.get("degree").integer(1), groups, tuple((a, b) for a, b in pairs))


def _group(node: JsonNode) -> RingGroup:
    members = tuple(each.integer() for each in node.get("members").elements())
    if len(set(members)) < max(2, len(members)):
        raise node.get("members").mismatch("two servers or more, each once")
    strides = Strides(
        tuple(each.integer(1) for each in node.get("strides").elements()),
        tuple(each.integer(1) for each in node.get("one_way_strides").elements()),
    )
    if max((*strides.both_ways, *strides.one_way), default=0) >= len(members):
        raise node.mismatch(f"strides below the {len(members)} members")
    group = RingGroup(members, strides)
    group.check()
    return group


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON file so that a reader finds the old one or the new one, whole.

    Raises PlanError when the folder cannot be written to.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(document, indent=1) + "\n")
        beside.replace(path)
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror}") from error
