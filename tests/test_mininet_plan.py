"""What the controller decides before a run."""

from __future__ import annotations

import numpy as np
import pytest

from controller.artifacts import Artifact
from controller.byte_model import hot_set_size
from controller.placing.methods import METHODS
from host_stack.errors import BadInput
from host_stack.fixedpoint import to_fixed
from host_stack.layout import Layout
from mininet_topos.options import RunOptions
from mininet_topos.plan import make_plan, sample_gradients
from tests.host_support import LAYOUT
from workloads.workload import Workload

DATASET = "synthetic:examples=3000,features=900,nnz=8"


def artifact(layout: Layout = LAYOUT) -> Artifact:
    """A program of a layout; its code does not matter here."""
    return Artifact("libra", b"{}", "", layout, "p4c", "00")


def options(**changed: object) -> RunOptions:
    """A small run."""
    fields = {"dataset": DATASET, "model": "lr", "workers": 8, "batch": 64, "sample": 0.5} | changed
    return RunOptions(**fields)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def workload() -> Workload:
    """The workload of the small run."""
    return Workload.open(DATASET, "lr", seed=1, workers=8, batch_size=64)


def test_the_plan_places_the_hottest_keys(workload: Workload) -> None:
    """As many as pay, whatever the method."""
    for method in METHODS:
        plan = make_plan(options(placement=method), workload, artifact())
        assert 0 < plan.hot_keys == hot_set_size(plan.heat, 8, LAYOUT)
        hottest = plan.heat.keys[: plan.hot_keys]
        assert sorted(plan.placements[0].keys.tolist()) == sorted(hottest.tolist())
    assert plan.heat.share[0] == plan.heat.share.max()


def test_no_sampled_gradient_escapes(workload: Workload) -> None:
    """The chosen scale fits what was sampled, with room to grow."""
    plan = make_plan(options(), workload, artifact())
    gradients = sample_gradients(options(), workload)
    assert len(gradients) > 1000
    _, escape = to_fixed(64 * gradients, plan.fraction_bits)
    assert not escape.any()


def test_a_given_scale_is_kept(workload: Workload) -> None:
    """The user's F comes before the sample's."""
    assert make_plan(options(fraction_bits=17), workload, artifact()).fraction_bits == 17


@pytest.mark.parametrize("hot", [0, 1, 33])
def test_a_given_number_is_kept(hot: int, workload: Workload) -> None:
    """The user's number of hot keys comes before the model's."""
    assert len(make_plan(options(hot=hot), workload, artifact()).placements[0]) == hot


def test_all_keys(workload: Workload) -> None:
    """Keys that the sample did not see follow behind those that it saw, each once."""
    total = workload.model.num_keys
    plan = make_plan(options(hot=total, sample=0.03, placement="heat"), workload, artifact())
    assert len(plan.heat.keys) < total
    assert plan.placements[0].keys[: len(plan.heat.keys)].tolist() == plan.heat.keys.tolist()
    assert sorted(plan.placements[0].keys.tolist()) == list(range(total))


def test_more_than_the_switch_holds(workload: Workload) -> None:
    """The error says what the switch has."""
    small = Layout(lanes=8, rows=8, window=256, program=1)
    with pytest.raises(BadInput) as caught:
        make_plan(options(hot=65), workload, artifact(small))
    assert str(caught.value) == "hot set of 65 keys: the switch has 8 lanes of 8 rows, 64 cells"


def test_more_than_the_model_has(workload: Workload) -> None:
    """The error says what the model has."""
    total = workload.model.num_keys
    with pytest.raises(BadInput, match=f"{total + 1} keys: the model has {total}"):
        make_plan(options(hot=total + 1), workload, artifact())


def test_the_choice_stays_on_the_switch(workload: Workload) -> None:
    """The model of bytes never asks for more cells than there are."""
    small = Layout(lanes=8, rows=1, window=256, program=1)
    assert len(make_plan(options(), workload, artifact(small)).placements[0]) <= 8


def test_same_seed_same_plan(workload: Workload) -> None:
    """A plan is a function of its options."""
    first, second = (make_plan(options(seed=3), workload, artifact()) for _ in range(2))
    assert first.fraction_bits == second.fraction_bits
    assert np.array_equal(first.placements[0].keys, second.placements[0].keys)
