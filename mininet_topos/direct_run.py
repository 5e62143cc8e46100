"""`libra run --topo`: bring a planned topology up and run its traffic for real."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mininet_topos.direct import DirectNetwork
from mininet_topos.direct_routes import Routing, route
from mininet_topos.direct_traffic import (
    PAYLOAD_SHARE,
    Traffic,
    queueing_s,
    scaled,
    shape_of,
    told,
    window_bytes,
)
from mininet_topos.errors import BadTopology, EmulationError
from mininet_topos.namespace import enter_isolated
from mininet_topos.runner import allow_descriptors, point_latest, results_folder
from mininet_topos.shaping import LinkShape
from mininet_topos.tools import NETWORK_TOOLS, require_tools
from planner.topology.plan_file import PlanFile

READY_S = 120.0
PATIENCE = 30.0
"""How many times as long as simulated the traffic may take before it is given up."""
SCHEMA = 1
SECONDS_MAX = 600.0


@dataclass(frozen=True)
class DirectOptions:
    """What is asked for.

    Attributes:
        topo: the file that `libra plan topology --emit` wrote.
        link_mbps: rate of every link, each way.
        seconds: that the traffic should take by the simulator.
        seed: of the vectors that are reduced.
        out: folder of results.

    """

    topo: Path
    link_mbps: float = 20.0
    seconds: float = 5.0
    seed: int = 1
    out: Path = Path("out")

    def __post_init__(self) -> None:
        LinkShape(self.link_mbps)
        if not 0.1 <= self.seconds <= SECONDS_MAX:
            raise BadTopology(
                f"traffic of {self.seconds:g} s: allowed are 0.1 to {SECONDS_MAX:g} s"
            )


def run_direct(options: DirectOptions, say: Callable[[str], None]) -> tuple[dict[str, Any], Path]:
    """Run the traffic; returns what run.json holds and the folder with the results.

    Continues inside an emulation of its own, see `enter_isolated`.
    """
    plan = PlanFile.read(options.topo)
    routing = route(plan)
    shape = shape_of(routing, options.link_mbps)
    traffic = scaled(plan, routing, shape.rate_bps, options.seconds)
    enter_isolated()
    require_tools(*NETWORK_TOOLS)
    allow_descriptors()
    started = datetime.now(UTC).astimezone()
    folder = results_folder(options.out, started)
    say(
        f"{plan.name} · {plan.topology.servers} servers · {len(routing.cables)} links of "
        f"{options.link_mbps:g} Mbit/s · {len(routing.routes)} routes · {len(routing.rings)} "
        f"rings, {len(routing.transfers)} transfers · results in {folder}"
    )
    reports = _run(options, plan, routing, traffic, shape, folder)
    summary = _summary(options, plan, routing, traffic, shape, reports)
    summary["started"] = started.isoformat()
    (folder / "run.json").write_text(json.dumps(summary, indent=2) + "\n")
    point_latest(options.out, folder)
    return summary, folder


def _run(
    options: DirectOptions,
    plan: PlanFile,
    routing: Routing,
    traffic: Traffic,
    shape: LinkShape,
    folder: Path,
) -> list[dict[str, Any]]:
    """Bring the network up and let every server communicate; what each reports."""
    servers = plan.topology.servers
    argv = [sys.executable, "-m", "mininet_topos.direct_host"]
    with (
        DirectNetwork(routing, shape, servers, folder) as network,
        Progress(
            TextColumn("{task.description:>12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("servers"),
            TimeElapsedColumn(),
        ) as progress,
    ):
        orders = told(routing, traffic, servers, options.seed, shape.rate_bps)
        processes = []
        for server, each in enumerate(orders):
            path = folder / f"h{server}.json"
            path.write_text(json.dumps(each))
            processes.append(network.start(server, [*argv, str(path)]))
        for process in progress.track(processes, description="connected"):
            process.wait_event("ready", READY_S)
        for process in processes:
            process.go()
        limit_s = PATIENCE * options.seconds + READY_S
        reports = []
        for process in progress.track(processes, description="done"):
            reports.append(dict(process.wait_event("done", limit_s).fields))
    errors = [f"h{i}: {error}" for i, each in enumerate(reports) for error in each["errors"]]
    if errors:
        raise EmulationError(f"the traffic failed (logs: {folder}): {errors[0]}")
    return reports


def _summary(
    options: DirectOptions,
    plan: PlanFile,
    routing: Routing,
    traffic: Traffic,
    shape: LinkShape,
    reports: list[dict[str, Any]],
) -> dict[str, Any]:
    """Measured times beside simulated ones."""
    start = min(report["start_s"] for report in reports)
    ends: dict[str, float] = {}
    for report in reports:
        for label, end in report["ends_s"].items():
            ends[label] = max(ends.get(label, 0.0), end - start)
    simulated, last = traffic.simulated_s(plan, shape.rate_bps)
    allreduces = []
    for group, each in enumerate(traffic.allreduces):
        rings = [f"ring{i}" for i, ring in enumerate(routing.rings) if ring.group == group]
        allreduces.append(
            {
                "members": len(each.members),
                "rings": len(rings),
                "size_bytes": each.size_bytes,
                "measured_s": max(ends[label] for label in rings),
                "simulated_s": simulated[group],
            }
        )
    moved = [end for label, end in ends.items() if not label.startswith("ring")]
    return {
        "schema": SCHEMA,
        "kind": "topology",
        "name": plan.name,
        "servers": plan.topology.servers,
        "degree": plan.topology.degree,
        "links": len(routing.cables),
        "routes": len(routing.routes),
        "link_mbps": options.link_mbps,
        "payload_share": PAYLOAD_SHARE,
        "scale": traffic.scale,
        "window_bytes": window_bytes(shape.rate_bps),
        "queue_ms": shape.queue_ms,
        "segments": sum(report["tcp"]["OutSegs"] for report in reports),
        "segments_sent_again": sum(report["tcp"]["RetransSegs"] for report in reports),
        "allreduces": allreduces,
        "transfers": {
            "count": len(routing.transfers),
            "size_bytes": sum(traffic.transfers.values()),
            "measured_s": max(moved, default=0.0),
            "simulated_s": last,
            "queueing_s": queueing_s(routing, shape.rate_bps),
        },
        "measured_s": max(ends.values()),
        "simulated_s": max([*simulated, last]),
        "sums_checked": True,
    }
