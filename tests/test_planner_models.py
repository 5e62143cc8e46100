"""Layer tables: sizes known from the publications, and the orders and sizes of measured logs."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlanError
from planner.layers import Kind, Layer, Model
from planner.models import KNOWN, make_model
from workloads.errors import WorkloadError

MIB = 1 << 20


@pytest.mark.parametrize(
    ("spec", "tensors", "parameters"),
    [
        ("resnet50", 161, 25_557_032),
        ("resnet101", 314, 44_549_160),
        ("vgg16", 58, 138_365_992),
        ("vgg16:batch_norm=0", 32, 138_357_544),
    ],
)
def test_image_models_have_their_published_sizes(spec: str, tensors: int, parameters: int):
    """Parameters and tensors are those of the architectures."""
    model = make_model(spec)
    assert model.parameters == parameters
    assert sum(len(layer.tensors) for layer in model) == tensors


@pytest.mark.parametrize(
    ("spec", "gflops"), [("resnet50", 4.09), ("resnet101", 7.80), ("vgg16:batch_norm=0", 15.47)]
)
def test_image_models_have_their_published_arithmetic(spec: str, gflops: float):
    """Multiplications with additions per image, of convolutions and dense layers."""
    counted = sum(
        layer.flops for layer in make_model(spec) if layer.kind in {Kind.CONVOLUTION, Kind.DENSE}
    )
    assert counted / 2e9 == pytest.approx(gflops, rel=0.005)


def test_bert_large_has_its_published_size():
    """24 layers of 1024: 335 million, with embeddings and pooler."""
    assert make_model("bert:layers=24").parameters == 335_141_888
    assert make_model("bert:hidden=768").parameters == 109_482_240


def test_dlrm_has_its_tables_and_layers():
    """64 tables of 10^7 rows of 128; 8 layers below, 17 above the concatenation."""
    model = make_model("dlrm")
    tables = [layer for layer in model if layer.kind is Kind.EMBEDDING]
    dense = [layer for layer in model if layer.kind is Kind.DENSE]
    assert sum(layer.parameters for layer in tables) == 64 * 10**7 * 128
    assert [len(tables), len(dense)] == [64, 8 + 16 + 1]
    assert model["top0"].tensors == ((2048 + 64 * 128) * 4096, 4096)
    assert tables[0].gradient_values(batch=100) == (100 * 128,)


def test_candle_at_the_shared_cluster_size_has_the_sizes_of_the_published_graph():
    """12 feature layers and 8 dense ones of 4096: what its task graph reduces.

    Two tensors of one value, which the graph has for the doses, are no parameters of the model.
    """
    model = make_model("candle:feature_layers=12,feature_size=4096,size=4096")
    assert model.parameters == 1_188_171_779 - 2
    assert model["dense0"].tensors[0] == 83_894_272


def test_ncf_has_four_tables_for_each_pair():
    """Users and items in both parts."""
    model = make_model("ncf:tables=2,rows=10")
    tables = [layer for layer in model if layer.kind is Kind.EMBEDDING]
    assert sum(layer.parameters for layer in tables) == 2 * 2 * 10 * (64 + 128)
    assert model["mlp.dense0"].tensors[0] == 2 * 2 * 128 * 4096


@pytest.mark.parametrize("name", KNOWN)
def test_every_layer_takes_earlier_ones_and_one_ends_the_model(name: str):
    """The tables are graphs of which the last layer is the only end."""
    model = make_model(name)
    taken = {source for layer in model for source in layer.inputs}
    assert [layer.name for layer in model if layer.name not in taken] == [model.layers[-1].name]


LOGS = os.environ.get("LIBRA_WHATIF_LOGS")


@pytest.mark.skipif(LOGS is None, reason="LIBRA_WHATIF_LOGS names no folder of measured logs")
@pytest.mark.parametrize("name", ["resnet50", "resnet101", "vgg16"])
def test_gradients_are_those_of_the_measured_logs(name: str):
    """Sizes and order of the tensors, last first, as a framework reported them."""
    lines = Path(str(LOGS), f"{name}.bk.log").read_text().splitlines()[3:]
    measured = [int(line.split(",")[1]) for line in lines]
    tensors = [size for layer in make_model(name) for size in layer.tensors]
    assert [4 * size for size in reversed(tensors)] == measured


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("alexnet", PlanError, "unknown model 'alexnet'; known are resnet50"),
        ("dlrm:heads=2", WorkloadError, "unknown option heads"),
        ("vgg16:batch_norm=2", WorkloadError, "allowed: an integer from 0 to 1"),
        ("bert:layers=1.5", WorkloadError, "bert:layers is 1.5"),
    ],
)
def test_bad_models_are_refused(spec: str, error: type[Exception], message: str):
    """The error says what is allowed."""
    with pytest.raises(error, match=message):
        make_model(spec)


def test_bad_layers_are_refused():
    """No layer, a name twice, an input that does not come before, rows that do not fit."""
    layer = Layer("a", Kind.DENSE, (1,), 1.0, 1)
    later = Layer("b", Kind.DENSE, (1,), 1.0, 1, inputs=("c",))
    for layers, message in (
        ((), "has no layer"),
        ((layer, layer), "two layers are called a"),
        ((layer, later), "takes c, which is no earlier layer"),
    ):
        with pytest.raises(PlanError, match=message):
            Model("m", 1, layers)
    with pytest.raises(PlanError, match="rows of equal width"):
        Layer("e", Kind.EMBEDDING, (10,), 0.0, 1, lookups=1, rows=3)
    with pytest.raises(PlanError, match="a count is negative"):
        Layer("e", Kind.DENSE, (-10,), 0.0, 1)


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 100), st.integers(1, 8), st.integers(1, 200))
def test_sparse_gradients_grow_with_the_batch_up_to_the_table(rows: int, width: int, batch: int):
    """No more rows than there are."""
    layer = Layer("e", Kind.EMBEDDING, (rows * width,), 0.0, 3 * width, lookups=3, rows=rows)
    assert layer.gradient_values(batch) == (min(3 * batch, rows) * width,)
