"""A job, as the commands of the planner are given it: by a file or by options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from planner.description import Cluster, Device, JobDescription, Links
from planner.errors import PlanError
from planner.models import make_model
from planner.units import parse_rate_bps

DEGREE = 4
DEVICES = 4
RATE_BPS = 100e9

T = TypeVar("T", Cluster, Links)


def described(
    job: Path | None,
    model: str | None,
    servers: int | None,
    degree: int | None,
    bandwidth: str | None,
    devices: int | None,
    batch: int | None,
    flops: float | None,
) -> JobDescription | None:
    """The job that is described, by a file or by options; None when neither is.

    Options given beside a file change what it says.

    Raises PlanError when a job is described twice or not enough.
    """
    if job is not None and model is not None:
        raise PlanError("--job and --model: give one of them")
    if job is not None:
        found = JobDescription.load(job)
    elif model is None:
        return None
    elif servers is None:
        raise PlanError("--model without --servers: say how many servers train it")
    else:
        made = make_model(model)
        cluster = Cluster(servers, DEVICES, DEGREE)
        found = JobDescription(made.name, made, made.batch, cluster, Links(RATE_BPS))
    rate_bps = None if bandwidth is None else parse_rate_bps(bandwidth)
    return replace(
        found,
        cluster=_with(found.cluster, servers=servers, devices_per_server=devices, degree=degree),
        links=_with(found.links, rate_bps=rate_bps),
        batch=found.batch if batch is None else batch,
        device=found.device if flops is None else Device(flops, "--flops"),
    )


def _with(given: T, **options: Any) -> T:
    """A dataclass with the options that are not None in place of its fields."""
    return replace(given, **{name: value for name, value in options.items() if value is not None})
