"""From what the modes told to `run.json`."""

from __future__ import annotations

import platform
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import metadata
from typing import Any

import numpy as np

from controller.artifacts import Artifact
from host_stack.fixedpoint import FloatArray
from host_stack.progress import BSP, Consistency
from mininet_topos.job_processes import is_server, server_name, worker_name
from mininet_topos.mode import ModeResult
from mininet_topos.options import RunOptions
from mininet_topos.outcome import outcome
from mininet_topos.plan import Plan
from workloads.snapshots import Snapshots
from workloads.table_part import TablePart
from workloads.train_server import model_sha256
from workloads.training import DENSE_FOLDER
from workloads.workload import Workload

SCHEMA = 1
PHASES = ("compute", "push", "commit", "update")
"""Of a round at a worker."""
SERVER_PHASES = ("gather", "drain", "apply", "update")
"""Of a commit at the server; all but the first are within the workers' `commit`."""
REPORTED_VERSIONS = ("numpy", "pyzmq", "finsy", "scapy", "mininet")


def summarize(
    started: datetime,
    options: RunOptions,
    workload: Workload,
    plan: Plan,
    artifact: Artifact,
    results: dict[str, ModeResult],
) -> dict[str, Any]:
    """The contents of run.json, schema 1 (docs/run-json.md)."""
    in_step = Consistency.parse(options.consistency) == BSP
    modes = {
        mode: mode_summary(result, workload, artifact.layout.lanes, in_step=in_step)
        for mode, result in results.items()
    }
    run: dict[str, Any] = {
        "schema": SCHEMA,
        "libra_version": metadata.version("libra-ina"),
        "started": started.isoformat(timespec="seconds"),
        "target": options.target,
        "dataset": options.dataset,
        "model": options.model,
        "framework": options.framework,
        "optimizer": options.optimizer,
        "workers": options.workers,
        "servers": options.servers,
        "rounds": options.rounds,
        "consistency": options.consistency,
        "batch": options.batch,
        "learning_rate": options.learning_rate,
        "sample": options.sample,
        "evaluate_every": options.evaluate_every,
        "chosen": {"hot": options.hot is None, "fraction_bits": options.fraction_bits is None},
        "seed": options.seed,
        "transport": options.transport,
        "lanes": artifact.layout.lanes,
        "placement": options.placement,
        "rows": sum(placement.used_rows for placement in plan.placements),
        "paired_rows": sum(len(placement.pairs) for placement in plan.placements),
        "hot_keys": plan.hot_keys,
        "num_keys": workload.model.num_keys,
        "fraction_bits": plan.fraction_bits,
        "link_mbps": options.link_mbps,
        "links_mbps": options.links_mbps,
        "topology": options.topology,
        "switches": [site.name for site in options.network.switches],
        "versions": versions(artifact),
        "update_shares": plan.heat.cumulative(),
        "modes": modes,
        **outcome(modes),
        "speedup": None,
        "bound": None,
        "hot_coverage": None,
    }
    for mode in ("libra", "fallback"):
        if mode in results:
            run["hot_coverage"] = hot_coverage(results[mode])
            break
    if {"libra", "server-only"} <= results.keys():
        libra, base = modes["libra"], modes["server-only"]
        run["speedup"] = base["round_s_median"] / libra["round_s_median"]
        run["bound"] = link_time_bytes(base) / link_time_bytes(libra)
    return run


def mode_summary(
    result: ModeResult, workload: Workload, lanes: int, *, in_step: bool = True
) -> dict[str, Any]:
    """One entry of `modes`."""
    rounds = [list(result.rounds[index].values()) for index in sorted(result.rounds)]
    slowest = [max(round_, key=_round_s) for round_ in rounds]
    round_s = [_round_s(worker) for worker in slowest]
    names = {f"ps{rank}": server_name(rank) for rank in range(result.servers)} | {
        f"w{rank}": worker_name(rank) for rank in range(len(result.traffic) - result.servers)
    }
    commits = [
        max(result.commits[round_].values(), key=_commit_s) for round_ in sorted(result.commits)
    ]
    links = {names[host]: counters for host, counters in result.traffic.items()}
    counted: Counter[str] = Counter()
    for done in result.servers_done.values():
        counted.update(done["counters"])
    return {
        "model_sha256": _model_sha256(result, workload),
        "round_s": round_s,
        "round_s_median": statistics.median(round_s),
        **_phases("", slowest, PHASES),
        **_range(rounds),
        **_phases("server_", commits, SERVER_PHASES),
        "processors": result.processors,
        "bytes": {
            name: {"to_switch": link.to_switch.bytes, "from_switch": link.to_host.bytes}
            for name, link in links.items()
        },
        "packets": {
            name: {"to_switch": link.to_switch.packets, "from_switch": link.to_host.packets}
            for name, link in links.items()
        },
        "busiest_server": busiest_server(
            {name: (link.to_switch.bytes, link.to_host.bytes) for name, link in links.items()}
        ),
        "trunk_bytes": result.trunk_bytes,
        "dropped_packets": {
            name: {"to_switch": link.to_switch.drops, "from_switch": link.to_host.drops}
            for name, link in links.items()
        },
        "loss": [statistics.fmean(worker["loss"] for worker in round_) for round_ in rounds],
        "quality": quality(result, workload, round_s, in_step=in_step),
        "switch_answers": bool(result.switch_answers) and all(result.switch_answers),
        "counters": result.reasons,
        "scale": result.scale,
        "server_counters": dict(counted),
        "retransmissions": sum(
            worker["retransmissions"] for worker in result.workers_done.values()
        ),
        "packets_per_push": packets_per_push(rounds, lanes),
        "timeline": {
            "at_s": [at_s for at_s, _ in result.timeline],
            "committed": [rounds for _, rounds in result.timeline],
        },
        "faults": [injected.record() for injected in result.faults],
        "faults_missed": [fault.record() for fault in result.missed],
        "audit": None if result.audit is None else result.audit.as_fields(),
    }


def _model_sha256(result: ModeResult, workload: Workload) -> str:
    """The hash of the trained model, of all of its parameters."""
    if result.servers == 1 and not isinstance(workload.model, TablePart):
        return str(result.servers_done[server_name(0)]["model_sha256"])
    *_, (_, parameters) = models(result, workload)
    return model_sha256(parameters)


def _phases(
    whose: str, told: list[dict[str, Any]], names: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    """What a process told of the phases of each round: as they passed, busy, and waiting."""
    return {
        f"{whose}phases{kind}_s": {
            name: [each["phases"][field].get(name, 0.0) for each in told]
            for name in names
            if any(name in each["phases"][field] for each in told)
        }
        for kind, field in (("", "elapsed_s"), ("_busy", "busy_s"), ("_waited", "waited_s"))
    }


def _range(rounds: list[list[dict[str, Any]]]) -> dict[str, dict[str, list[float]]]:
    """The least and the most seconds of a phase at any worker, in each round."""

    def picked(pick: Callable[[Iterator[float]], float]) -> dict[str, list[float]]:
        return {
            phase: [
                pick(each["phases"]["elapsed_s"].get(phase, 0.0) for each in told)
                for told in rounds
            ]
            for phase in PHASES
        }

    return {"phases_least_s": picked(min), "phases_most_s": picked(max)}


def busiest_server(moved: Mapping[str, tuple[int, int]]) -> str:
    """The server whose link moved most, of links with what they moved each way."""
    return max(filter(is_server, moved), key=lambda name: sum(moved[name]))


def _commit_s(commit: dict[str, Any]) -> float:
    """Seconds of a commit at a server."""
    return float(sum(commit["phases"]["elapsed_s"].values()))


def _round_s(worker: dict[str, Any]) -> float:
    """Seconds of a round at a worker."""
    return float(sum(worker["phases"]["elapsed_s"].values()))


def quality(
    result: ModeResult, workload: Workload, round_s: list[float], *, in_step: bool = True
) -> dict[str, Any]:
    """The metrics of the snapshots of the model, measured on the test part."""
    at_s = {rounds: at_s for at_s, rounds in result.timeline}

    def elapsed_s(rounds: int) -> float:
        # Under BSP the seconds of rounds add up; otherwise a round is not a step of the workers.
        return sum(round_s[:rounds]) if in_step else at_s.get(rounds, 0.0)

    measured = {rounds: workload.evaluate(model) for rounds, model in models(result, workload)}
    return {
        "round": list(measured),
        "elapsed_s": [elapsed_s(rounds) for rounds in measured],
        "metrics": {
            name: [each[name] for each in measured.values()]
            for name in next(iter(measured.values()))
        },
    }


def models(result: ModeResult, workload: Workload) -> Iterator[tuple[int, FloatArray]]:
    """(rounds, parameters) of each snapshot of the whole model, put together from its shards.

    Of a framework's model the servers have the tables, and a worker kept the rest.
    """
    shards = [Snapshots(folder / "snapshots").load() for folder in result.folders]
    at_server = [
        (same[0][0], np.concatenate([parameters for _, parameters in same]))
        for same in zip(*shards, strict=True)
    ]
    if not isinstance(workload.model, TablePart):
        yield from at_server
        return
    dense = dict(Snapshots(result.folder / DENSE_FOLDER).load())
    for rounds, tables in at_server:
        yield rounds, np.concatenate([tables, dense[rounds]])


def packets_per_push(rounds: list[list[dict[str, Any]]], lanes: int) -> dict[str, float] | None:
    """Mean packets of a hot push, and their ratio to the least possible, ⌈n / LANES⌉."""
    pushes = [worker for round_ in rounds for worker in round_ if worker["hot_keys"]]
    if not pushes:
        return None
    packets = sum(push["packets"] for push in pushes)
    ideal = sum(-(-push["hot_keys"] // lanes) for push in pushes)
    return {"mean": packets / len(pushes), "ratio": packets / ideal}


def hot_coverage(result: ModeResult) -> float:
    """The share of pushed gradients that were hot."""
    pushes = [worker for round_ in result.rounds.values() for worker in round_.values()]
    hot = sum(push["hot_keys"] for push in pushes)
    total = hot + sum(push["cold_keys"] for push in pushes)
    return hot / total if total else 0.0


def link_time_bytes(mode: dict[str, Any]) -> int:
    """Bytes that a mode must send one after the other, if every link but the slowest is free.

    A round has two phases that a barrier separates: gradients travel from the workers to the
    servers, parameters from the servers to the workers. Each takes as long as its busiest link.
    """
    up, down = ("from_switch", "to_switch"), ("to_switch", "from_switch")
    return sum(
        max(link[server if is_server(name) else worker] for name, link in mode["bytes"].items())
        for server, worker in (up, down)
    )


def versions(artifact: Artifact) -> dict[str, str]:
    """Versions of what took part."""
    return {
        "python": platform.python_version(),
        "kernel": f"{platform.release()} {platform.machine()}",
        "p4c": artifact.compiler,
        "p4_sources_sha256": artifact.sources_sha256,
        **{name: metadata.version(name) for name in REPORTED_VERSIONS},
    }
