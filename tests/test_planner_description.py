"""The job description: what it reads, what it refuses and how it names it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.errors import BadInput
from planner.description import ASSUMED_DEVICE, JobDescription, parse_description
from planner.errors import PlanError
from planner.layers import Kind
from planner.prices import Prices
from planner.units import parse_rate_bps, rate_text

DOCUMENT: dict[str, Any] = {
    "schema": 1,
    "name": "ResNet-50 on 8 servers",
    "model": "resnet50",
    "batch": 32,
    "iteration_ms": 128.086,
    "profile": "resnet50.log",
    "device": {"flops_per_s": 6e12, "source": "measured"},
    "cluster": {
        "servers": 8,
        "devices_per_server": 8,
        "degree": 4,
        "parameter_servers": 2,
    },
    "links": {
        "rate_gbps": 100,
        "latency_us": 5,
        "servers": {"7": 10},
        "goodput_gbps": [[10, 9.4], [100, 32]],
    },
    "prices": {
        item: {"usd": price.usd, "source": "an offer"}
        for item, price in Prices.load().items.items()
    },
}
OWN = {
    "name": "two layers",
    "batch": 4,
    "layers": [
        {"name": "e", "kind": "embedding", "tensors": [80], "flops": 0, "outputs": 8, "rows": 10}
        | {"lookups": 1},
        {
            "name": "d",
            "kind": "dense",
            "tensors": [8, 1],
            "flops": 16,
            "outputs": 1,
            "inputs": ["e"],
        },
    ],
}


def changed(path: str, value: object) -> dict[str, Any]:
    """The document with the value at a path replaced."""
    document = copy.deepcopy(DOCUMENT)
    *parents, last = path.split("/")
    node = document
    for parent in parents:
        node = node[parent]
    node[last] = value
    return document


def test_every_field_is_read(tmp_path: Path):
    """Units of the file become SI units; paths are those of its folder."""
    path = tmp_path / "job.json"
    path.write_text(json.dumps(DOCUMENT))
    job = JobDescription.load(path)
    assert (job.name, job.model.name, job.batch) == ("ResNet-50 on 8 servers", "resnet50", 32)
    assert (job.cluster.workers, job.cluster.degree, job.parameter_servers) == (64, 4, 2)
    assert job.profile == tmp_path / "resnet50.log"
    assert job.iteration_s == pytest.approx(0.128086)
    assert (job.links.rate_of(0), job.links.rate_of(7)) == (100e9, 10e9)
    assert job.links.latency_s == pytest.approx(5e-6)
    assert job.links.goodput_bps == {10e9: 9.4e9, 100e9: 32e9}
    assert job.device.flops_per_s == 6e12
    assert job.prices is not None
    assert job.prices.items["ocs_port"].source == "an offer"


def test_what_is_optional_may_be_absent():
    """The least description; times come from operations and an assumed device."""
    job = parse_description(
        {"schema": 1, "model": "vgg16", "cluster": {"servers": 2}, "links": {"rate_gbps": 1}}
    )
    assert (job.batch, job.cluster.workers, job.profile) == (32, 2, None)
    assert job.device is ASSUMED_DEVICE
    expected = job.model["fc6"].flops * 32 / ASSUMED_DEVICE.flops_per_s
    assert job.forward_s["fc6"] == pytest.approx(expected)


def test_a_model_of_ones_own():
    """Layers are written out; an embedding may have sparse gradients."""
    job = parse_description(changed("model", OWN))
    assert [layer.kind for layer in job.model] == [Kind.EMBEDDING, Kind.DENSE]
    assert job.model["e"].gradient_values(4) == (32,)
    assert job.model["d"].inputs == ("e",)


def test_prices_may_have_a_file_of_their_own(tmp_path: Path):
    """Relative to the description."""
    (tmp_path / "prices.json").write_text(json.dumps(DOCUMENT["prices"]))
    job = parse_description(changed("prices", "prices.json"), tmp_path)
    assert job.prices == parse_description(DOCUMENT).prices


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", 2, "this version reads schema 1"),
        ("batches", 2, "job.batches is unknown; known are schema, name, model"),
        ("model", "alexnet", "unknown model"),
        ("model", {**OWN, "layers": []}, "has no layer"),
        ("model", {**OWN, "layers": [{"name": "x", "kind": "y"}]}, r"kind is 'y'; need one of"),
        ("batch", 0, "job.batch is 0; need an integer of at least 1"),
        ("batch", 10**400, "job.batch is 1000.*; need an integer up to"),
        ("links/rate_gbps", 10**400, "job.links.rate_gbps is 1000.*; need a finite number from 0"),
        (
            "model",
            {
                **OWN,
                "layers": [
                    {"name": "x", "kind": "dense", "tensors": [1 << 48], "flops": 1, "outputs": 1}
                ],
            },
            "layer x: a tensor has 2.81e.14 values; allowed are fewer",
        ),
        ("iteration_ms", 0, "job.iteration_ms is 0; need a number above 0"),
        ("cluster/servers", 1 << 30, "cluster.servers is 1073741824; allowed are 1 to"),
        ("links/rate_gbps", 0, "rate is 0 Gbit/s; allowed are 1 kbit/s to 100 Tbit/s"),
        ("links/rate_gbps", 1e300, "rate is inf Gbit/s; allowed are"),
        ("links/servers", {"3": 1e-7}, "rate of server 3 is 1e-07 Gbit/s; allowed are"),
        ("links/servers", {"8": 1}, "there is no server 8; servers are 0 to 7"),
        ("links/servers", {"last": 1}, "'last' is no server"),
        ("links/goodput_gbps", [[1]], "a list of pairs"),
        ("device/flops_per_s", 0, "device.flops_per_s is 0"),
        ("name", "two\nlines", "job.name is 'two.*printable"),
        ("prices", {"x": {"usd": 1}}, "prices.x.source is missing"),
        ("prices", {"x": {"usd": 1, "source": "a shop"}}, "prices.x is unknown; known are"),
        ("prices", {}, "prices: patch_panel_port, .* missing"),
        ("prices", "absent.json", "is not a list of prices"),
    ],
)
def test_what_is_wrong_is_named(path: str, value: object, message: str):
    """The field, what was found and what is needed."""
    with pytest.raises(BadInput, match=message):
        parse_description(changed(path, value))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(derandomize=True, deadline=None)
@given(st.sampled_from(sorted(DOCUMENT)), JSON)
def test_anything_in_a_field_is_read_or_refused(name: str, value: object):
    """No other exception, whatever the file holds."""
    try:
        parse_description({**DOCUMENT, name: value})
    except BadInput as error:
        assert str(error)


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [("10G", 1e10), ("2.5Gbit/s", 2.5e9), ("400M", 4e8), ("1e9", 1e9), (" 100Gbps ", 1e11)],
)
def test_rates_are_read_as_people_write_them(text: str, rate_bps: float):
    """Decimal prefixes, with or without a unit."""
    assert parse_rate_bps(text) == rate_bps


@pytest.mark.parametrize("text", ["", "fast", "-1G", "0", "1", "1000T", "nan", "infG", "1GB"])
def test_other_rates_are_refused(text: str):
    """The error names the form and the range."""
    with pytest.raises(PlanError, match="such as 100M or 10G"):
        parse_rate_bps(text)


@settings(derandomize=True)
@given(st.integers(1000, 9999), st.integers(0, 7))
def test_rates_are_written_and_read_alike(digits: int, power: int):
    """Four digits survive."""
    rate_bps = float(digits * 10**power)
    assert parse_rate_bps(rate_text(rate_bps).replace(" ", "")) == pytest.approx(rate_bps)
