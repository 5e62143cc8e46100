"""Small workloads for the tests of the planner."""

from __future__ import annotations

from planner.description import Cluster, Device, JobDescription, Links
from planner.models import make_model
from planner.topology.operators import Workload, workload_of

SMALL = {
    "dlrm": "dlrm:tables=6,rows=10000,width=32,bottom=2,bottom_size=64,top=2,top_size=64",
    "ncf": "ncf:tables=3,rows=1000,layers=2,size=64",
    "candle": "candle:feature_layers=2,feature_size=256,layers=2,size=256",
    "bert": "bert:layers=2,hidden=64,sequence=8",
    "resnet50": "resnet50",
    "vgg16": "vgg16",
}
"""Each of the six models, small where it can be."""


def job(model: str, servers: int = 8, degree: int = 4, rate_bps: float = 10e9) -> JobDescription:
    """A job of two devices a server."""
    made = make_model(model)
    device = Device(1e12, "a test")
    return JobDescription(model, made, 8, Cluster(servers, 2, degree), Links(rate_bps), device)


def workload(name: str, servers: int = 8) -> Workload:
    """One of `SMALL`, or another model."""
    return workload_of(job(SMALL.get(name, name), servers))
