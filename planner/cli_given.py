"""A job, as the commands of the planner are given it: by a file or by options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planner.description import Cluster, Device, JobDescription, Links
from planner.errors import PlanError
from planner.models import make_model
from planner.units import parse_rate_bps

DEGREE = 4
RATE_BPS = 100e9


def described(
    job: Path | None,
    model: str | None,
    servers: int | None,
    degree: int | None,
    bandwidth: str | None,
    devices: int,
    batch: int | None,
    flops: float,
) -> JobDescription | None:
    """The job that is described, by a file or by options; None when neither is.

    Options given beside a file change what it says of the cluster and its links.

    Raises PlanError when a job is described twice or not enough.
    """
    if job is not None:
        if model is not None:
            raise PlanError("--job and --model: give one of them")
        found = JobDescription.load(job)
        if servers is not None or degree is not None:
            cluster = replace(
                found.cluster,
                servers=servers or found.cluster.servers,
                degree=degree or found.cluster.degree,
            )
            found = replace(found, cluster=cluster)
        if bandwidth is not None:
            found = replace(found, links=replace(found.links, rate_bps=parse_rate_bps(bandwidth)))
        return found
    if model is None:
        return None
    if servers is None:
        raise PlanError("--model without --servers: say how many servers train it")
    made = make_model(model)
    rate_bps = parse_rate_bps(bandwidth) if bandwidth else RATE_BPS
    return JobDescription(
        name=made.name,
        model=made,
        batch=batch or made.batch,
        cluster=Cluster(servers, devices, degree or DEGREE),
        links=Links(rate_bps),
        device=Device(flops, "--flops"),
    )
