"""Records of runs and profiles of rounds, made up, for the tests of `planner.from_run`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mininet_topos.run_record import parse_run
from planner.round_bytes import RoundBytes
from planner.round_model import LinkRates, RoundProfile, Work

GRAD_BYTES, ACK_BYTES, DRAIN_BYTES = 42 + 16 + 4 + 32 * 6, 42 + 16, 42 + 16 + 6
WORKERS, ROUNDS, PACKETS = 4, 10, 50.0
RATE_BPS = 8e6  # a megabyte a second
LINKS = LinkRates.all(RATE_BPS)


def traffic(**changes: float) -> RoundBytes:
    """Bytes of a round in which everything is different."""
    own = PACKETS * GRAD_BYTES + 5_000
    sizes = {"own": own, "push": WORKERS * 5_000, "drained": 30_000.0, "update": 20_000.0}
    sizes |= {"requests": 100.0 * DRAIN_BYTES, "cold_down": 4_000.0}
    return RoundBytes(WORKERS, **{**sizes, **changes})


def profile_of(traffic_: RoundBytes, **changes: Any) -> RoundProfile:
    """A profile without waiting, whose workers get their values at once."""
    worker = {"compute": Work(0.01)}
    server = {"apply": Work(0.002)}
    profile = RoundProfile(traffic_, worker, server, drain_rest_s=0.005, spread_s=0.0, rates=LINKS)
    return replace(profile, **changes)


def mode_of(bytes_: RoundBytes, *, switch: bool = True, packets: float = PACKETS) -> dict[str, Any]:
    """What a run records of rounds with these bytes; after the last one nobody asks for values."""
    asked = bytes_.cold_down * (ROUNDS - 1)
    acks = ROUNDS * packets * ACK_BYTES
    values_s, links = 8 * bytes_.values / RATE_BPS, {}
    for worker in range(1, WORKERS + 1):
        links[f"worker{worker}"] = {
            "to_switch": round(ROUNDS * bytes_.own),
            "from_switch": round(ROUNDS * bytes_.update + asked + acks),
        }
    links["server"] = {
        "from_switch": round(ROUNDS * (bytes_.push + bytes_.drained)),
        "to_switch": round(
            ROUNDS * (bytes_.update + bytes_.requests)
            + WORKERS * asked
            + (0 if switch else WORKERS * acks)
        ),
    }
    return {
        "model_sha256": "0" * 64,
        "round_s": [1.0] * ROUNDS,
        "round_s_median": 1.0,
        "phases_s": {"compute": [0.01] * ROUNDS, "push": [values_s] * ROUNDS},
        "phases_busy_s": {"push": [0.003] * ROUNDS, "update": [0.001] * ROUNDS},
        "phases_waited_s": {"compute": [0.004] * ROUNDS, "push": [0.05] * ROUNDS},
        "phases_least_s": {"update": [0.004] * ROUNDS},
        "phases_most_s": {"update": [0.006] * ROUNDS},
        "server_phases_s": {"drain": [0.035] * ROUNDS, "apply": [0.002] * ROUNDS},
        "server_phases_busy_s": {"drain": [0.010] * ROUNDS, "update": [0.012] * ROUNDS},
        "server_phases_waited_s": {"drain": [0.022] * ROUNDS, "update": [0.001] * ROUNDS},
        "processors": {
            "count": 2,
            "watched_s": 10.0,
            "busy_s": 18.0,
            "pressure": {"some_s": 5.0, "full_s": 0.0},
            "processes": {"server": {"busy_s": 4.0, "waited_s": 1.0}},
        },
        "bytes": links,
        "counters": {"aggregated": 100 if switch else 0},
        "server_counters": {"drain_requests": round(ROUNDS * bytes_.requests / DRAIN_BYTES)},
        "retransmissions": 0,
        "packets_per_push": {"mean": packets, "ratio": 1.0} if packets else None,
        "timeline": {"at_s": [0.5, 0.62, 0.74, 0.9], "committed": [1, 2, 3, 4]},
    }


def run_of(**modes: dict[str, Any]) -> dict[str, Any]:
    """A run on links of `RATE_BPS`."""
    return {
        "schema": 1,
        "dataset": "made",
        "model": "lr",
        "workers": WORKERS,
        "rounds": ROUNDS,
        "lanes": 32,
        "link_mbps": RATE_BPS / 1e6,
        "modes": {name.replace("_", "-"): mode for name, mode in modes.items()},
    }


def bytes_of(mode: dict[str, Any]) -> RoundBytes:
    """The bytes that are read from a record."""
    return RoundBytes.of(parse_run(run_of(libra=mode)).modes["libra"], 32)
