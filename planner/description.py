"""The job description that all of the planner works on: one JSON file (docs/plan.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from host_stack.jsonfile import read_json_object
from mininet_topos.json_node import JsonNode
from planner.errors import PlanError
from planner.layers import Kind, Layer, Model
from planner.models import make_model
from planner.prices import Prices
from planner.units import MAX_RATE_BPS, MIN_RATE_BPS, above_0, is_rate_bps, rate_text

SCHEMA = 1
MAX_LAYERS = 100_000
MAX_SERVERS = 1 << 20


@dataclass(frozen=True)
class Device:
    """What computes: `flops_per_s` that it reaches in training, and where that figure is from."""

    flops_per_s: float
    source: str

    def __post_init__(self) -> None:
        above_0("device.flops_per_s", self.flops_per_s)


ASSUMED_DEVICE = Device(
    6.1e12, "assumed: ResNet-50 with 32 images an iteration of 128 ms, as published for a V100"
)


@dataclass(frozen=True)
class Cluster:
    """The servers of a job.

    Attributes:
        servers: hosts with a network interface.
        devices_per_server: devices that compute, each a worker.
        degree: interfaces of a server, each with the links' rate.
    """

    servers: int
    devices_per_server: int = 1
    degree: int = 1

    def __post_init__(self) -> None:
        for name in ("servers", "devices_per_server", "degree"):
            value = getattr(self, name)
            if not 1 <= value <= MAX_SERVERS:
                raise PlanError(f"cluster.{name} is {value}; allowed are 1 to {MAX_SERVERS}")

    @property
    def workers(self) -> int:
        """Devices of all servers."""
        return self.servers * self.devices_per_server


@dataclass(frozen=True)
class Links:
    """The links of the servers, the same both ways.

    Attributes:
        rate_bps: of an interface.
        latency_s: from one server to another.
        servers_bps: servers (from 0) whose interfaces have another rate.
        goodput_bps: what the transport was measured to reach at link rates, rate → goodput.

    Raises:
        PlanError: a rate that no link has.
    """

    rate_bps: float
    latency_s: float = 0.0
    servers_bps: Mapping[int, float] = field(default_factory=dict)
    goodput_bps: Mapping[float, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for server, rate in ((None, self.rate_bps), *self.servers_bps.items()):
            if not is_rate_bps(rate):
                whose = "" if server is None else f" of server {server}"
                raise PlanError(
                    f"links: rate{whose} is {rate / 1e9:g} Gbit/s; allowed are "
                    f"{rate_text(MIN_RATE_BPS)} to {rate_text(MAX_RATE_BPS)}"
                )

    def rate_of(self, server: int) -> float:
        """The rate of an interface of a server, bit/s."""
        return self.servers_bps.get(server, self.rate_bps)


@dataclass(frozen=True)
class JobDescription:
    """A model, the cluster that trains it, its links and prices.

    Attributes:
        name: for people.
        model: its layers.
        batch: examples per device and iteration.
        cluster: servers and devices.
        links: of the servers.
        device: what computes.
        profile: the file of measured gradient-ready events, if there is one.
        iteration_s: measured time of an iteration on one device, if it is known.
        parameter_servers: servers that hold the parameters, where a scheme needs some.
        prices: of parts of networks; None for those of the planner.
    """

    name: str
    model: Model
    batch: int
    cluster: Cluster
    links: Links
    device: Device = ASSUMED_DEVICE
    profile: Path | None = None
    iteration_s: float | None = None
    parameter_servers: int = 1
    prices: Prices | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise PlanError(f"batch is {self.batch}; it must be 1 or more")
        for server in self.links.servers_bps:
            if not 0 <= server < self.cluster.servers:
                raise PlanError(
                    f"links.servers: there is no server {server}; servers are 0 to "
                    f"{self.cluster.servers - 1}"
                )

    @classmethod
    def load(cls, path: Path) -> JobDescription:
        """Read a file; paths in it are relative to its folder.

        Raises `PlanError` naming the field that is wrong, `BadInput` if it holds no JSON object.
        """
        return parse_description(read_json_object(path, "job description"), path.parent)

    @property
    def forward_s(self) -> Mapping[str, float]:
        """Estimated seconds of each layer's forward pass on a device, from its operations."""
        rate = self.device.flops_per_s
        return {layer.name: layer.flops * self.batch / rate for layer in self.model}


def parse_description(document: Mapping[str, Any], folder: Path = Path()) -> JobDescription:
    """Check a decoded job description, schema 1; relative paths are those of `folder`.

    Raises `PlanError` for a field that is missing, unknown or outside of what is allowed.
    """
    root = JsonNode("job", document, PlanError)
    schema = root.get("schema").integer()
    if schema != SCHEMA:
        raise PlanError(f"job.schema is {schema}; this version reads schema {SCHEMA}")
    root.only("schema name model batch cluster links device profile iteration_ms prices")
    model = _model(root.get("model"))
    batch = root.optional("batch")
    device = root.optional("device")
    profile = root.optional("profile")
    iteration = root.optional("iteration_ms")
    name = root.optional("name")
    cluster = root.get("cluster")
    servers = cluster.optional("parameter_servers")
    return JobDescription(
        name=name.label() if name else model.name,
        model=model,
        batch=batch.integer(1) if batch else model.batch,
        cluster=_cluster(cluster),
        links=_links(root.get("links")),
        device=_device(device) if device else ASSUMED_DEVICE,
        profile=folder / profile.text() if profile else None,
        iteration_s=above_0("job.iteration_ms", iteration.number()) / 1e3 if iteration else None,
        parameter_servers=servers.integer(1) if servers else 1,
        prices=_prices(root.optional("prices"), folder),
    )


def _model(node: JsonNode) -> Model:
    if node.is_text():
        return make_model(node.text())
    node.only("name batch layers")
    layers = node.get("layers").elements()
    if len(layers) > MAX_LAYERS:
        raise PlanError(f"{node.path}.layers has {len(layers)} layers; allowed: {MAX_LAYERS}")
    return Model(
        node.get("name").label(),
        node.get("batch").integer(1),
        tuple(_layer(each) for each in layers),
    )


def _layer(node: JsonNode) -> Layer:
    node.only("name kind tensors flops outputs inputs lookups rows")
    kind = node.get("kind")
    if kind.text() not in list(Kind):
        raise kind.mismatch(f"one of {', '.join(Kind)}")
    tensors, inputs = node.optional("tensors"), node.optional("inputs")
    lookups, rows = node.optional("lookups"), node.optional("rows")
    return Layer(
        name=node.get("name").label(),
        kind=Kind(kind.text()),
        tensors=tuple(each.integer(1) for each in tensors.elements()) if tensors else (),
        flops=node.get("flops").number(),
        outputs=node.get("outputs").integer(),
        inputs=tuple(each.text() for each in inputs.elements()) if inputs else (),
        lookups=lookups.integer() if lookups else 0,
        rows=rows.integer() if rows else 0,
    )


def _cluster(node: JsonNode) -> Cluster:
    node.only("servers devices_per_server degree parameter_servers")
    devices, degree = node.optional("devices_per_server"), node.optional("degree")
    return Cluster(
        node.get("servers").integer(1),
        devices.integer(1) if devices else 1,
        degree.integer(1) if degree else 1,
    )


def _links(node: JsonNode) -> Links:
    node.only("rate_gbps latency_us servers goodput_gbps")
    latency, servers = node.optional("latency_us"), node.optional("servers")
    goodput = node.optional("goodput_gbps")
    links = Links(
        rate_bps=node.get("rate_gbps").number() * 1e9,
        latency_s=latency.number() / 1e6 if latency else 0.0,
    )
    if servers:
        rates = {_index(name, each): each for name, each in servers.fields().items()}
        links = replace(links, servers_bps={i: each.number() * 1e9 for i, each in rates.items()})
    if goodput:
        pairs = [each.numbers() for each in goodput.elements()]
        if any(len(pair) != 2 for pair in pairs):
            raise goodput.mismatch("a list of pairs: link rate and goodput, Gbit/s")
        links = replace(links, goodput_bps={rate * 1e9: good * 1e9 for rate, good in pairs})
    return links


def _index(name: str, node: JsonNode) -> int:
    if not name.isascii() or not name.isdecimal():
        raise PlanError(f"{node.path}: {name!r} is no server; servers are numbers from 0")
    return int(name)


def _device(node: JsonNode) -> Device:
    node.only("flops_per_s source")
    return Device(node.get("flops_per_s").number(), node.get("source").label())


def _prices(node: JsonNode | None, folder: Path) -> Prices | None:
    """Prices in the description, or in the file that it names."""
    if node is None:
        return None
    return Prices.load(folder / node.text()) if node.is_text() else Prices.from_fields(node)
