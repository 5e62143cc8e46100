"""Profiles from logs and from layer tables."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.errors import BadInput
from planner.errors import PlanError
from planner.layers import Kind, Layer, Model
from planner.models import KNOWN, make_model
from planner.profile import Profile, measured_profile, model_profile, recognise
from planner.profile_log import read_log, write_log
from tests.planner_support import profile_of, profiles

LOG = "times and sizes\n2\n2\n100.0,40\n50.0,8\n300,40\n150,8\n"


def test_batches_of_a_log_are_averaged(tmp_path: Path):
    """Two batches of two tensors; the iteration is estimated from the pass."""
    path = tmp_path / "two.log"
    path.write_text(LOG)
    profile = read_log(path)
    assert profile.name == "two"
    assert profile.wait_s == pytest.approx([200e-6, 100e-6])
    assert profile.size_bytes.tolist() == [40, 8]
    assert profile.iteration.seconds == pytest.approx(450e-6)
    assert profile.iteration.source.startswith("estimated")


@settings(derandomize=True, deadline=None)
@given(profile=profiles())
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, profile: Profile):
    """Times to the last digits, sizes exactly, and the time of the iteration."""
    path = tmp_path_factory.mktemp("logs") / "made.log"
    write_log(path, profile)
    again = read_log(path)
    assert again.wait_s == pytest.approx(profile.wait_s, rel=1e-12)
    assert again.size_bytes.tolist() == profile.size_bytes.tolist()
    assert again.iteration.seconds == pytest.approx(profile.iteration.seconds)
    assert again.iteration.source == "measured"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has 0 lines"),
        ("x\n1\n1\n", "has 3 lines"),
        ("x\none\n1\n1,1\n", "line 2: 'one' is no number"),
        ("x\n0\n1\n1,1\n", "line 2: '0' is no count"),
        ("x\n1\n2\n1,1\n", "1 batches of 2 tensors need 2 lines of events, 1 are there"),
        ("x\n1\n1\n1;1\n", "line 4: need two numbers"),
        ("x\n1\n1\n-1,1\n", "line 4: '-1' is no number from 0"),
        ("x\n1\n1\n1,nan\n", "line 4: 'nan' is no number"),
        ("x\n1\n1\n1,1.5\n", "line 4: 1.5 is no size"),
        ("x\n2\n1\n1,1\n1,2\n", "the batches do not have the same sizes"),
        ("x iteration_ms=0\n1\n1\n1,1\n", "time of an iteration is 0"),
        ("x iteration_ms=fast; y\n1\n1\n1,1\n", "line 1: 'fast' is no number"),
    ],
)
def test_other_files_are_refused_by_line(text: str, message: str, tmp_path: Path):
    """What is wrong, and where."""
    path = tmp_path / "bad.log"
    path.write_text(text)
    with pytest.raises(PlanError, match=message):
        read_log(path)


@settings(derandomize=True, deadline=None)
@given(content=st.binary(max_size=60))
def test_any_bytes_are_a_profile_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
):
    """Never another exception."""
    path = tmp_path_factory.mktemp("logs") / "any.log"
    path.write_bytes(content)
    with pytest.raises(BadInput):
        read_log(path)


def test_a_missing_log_is_named(tmp_path: Path):
    """With the reason."""
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        read_log(tmp_path / "absent.log")


def test_known_models_are_recognised_by_their_gradients():
    """Sizes, last layer first; batch and times play no part."""
    for name in ("resnet50", "resnet101", "vgg16"):
        sizes = [4 * size for layer in make_model(name) for size in layer.tensors][::-1]
        assert recognise(np.array(sizes)) == name
        measured = measured_profile("m", np.ones(len(sizes)), np.array(sizes), None)
        assert f"published for {name}" in measured.iteration.source
        assert recognise(np.array(sizes[1:])) is None


@pytest.mark.parametrize("name", KNOWN)
def test_layer_tables_make_profiles(name: str):
    """Two thirds of an iteration are the backward pass, whose gradients come last layer first."""
    model = make_model(name)
    profile = model_profile(model, model.batch, 1e12)
    iteration_s = 3 * model.flops * model.batch / 1e12
    assert profile.iteration.seconds == pytest.approx(iteration_s)
    ended = profile.backward_s
    assert ended <= 2 / 3 * iteration_s * (1 + 1e-9)
    assert ended > 0.5 * iteration_s
    last = model.layers[-1]
    assert profile.size_bytes[:2].tolist() == [4 * size for size in reversed(last.tensors)]
    given_time = model_profile(model, model.batch, 1e12, iteration_s=0.5)
    assert given_time.backward_s == pytest.approx(ended / iteration_s * 0.5)


def test_a_layer_without_parameters_delays_the_next_gradient():
    """Its backward pass takes time and makes no gradient."""
    layers = (
        Layer("a", Kind.DENSE, (3, 1), 10.0, 1),
        Layer("b", Kind.JOIN, (), 20.0, 1, inputs=("a",)),
        Layer("c", Kind.DENSE, (2,), 30.0, 1, inputs=("b",)),
    )
    profile = model_profile(Model("m", 1, layers), 1, 1.0)
    assert profile.wait_s == pytest.approx([60, 60, 0])
    assert profile.size_bytes.tolist() == [8, 4, 12]


@pytest.mark.parametrize(
    ("waits", "sizes", "message"),
    [
        ([], [], "has 0 times and 0 sizes"),
        ([1.0], [1, 2], "has 1 times and 2 sizes"),
        ([2.0, -1.0], [1, 1], "times must not be negative"),
        ([float("inf")], [1], "nor an iteration longer than 1,000,000 s"),
        ([float("nan")], [1], "times must not be negative"),
        ([1.1e9], [1], "nor an iteration longer than 1,000,000 s"),
        ([1.0], [-1], "sizes must be from 0 to"),
        ([1.0], [1 << 50], "sizes must be from 0 to"),
    ],
)
def test_events_that_cannot_be_are_refused(waits: list[float], sizes: list[int], message: str):
    """Lengths, times and sizes."""
    with pytest.raises(PlanError, match=message):
        profile_of(waits, sizes)


def test_what_never_ends_is_no_log(tmp_path: Path) -> None:
    """Neither a device nor a pipe that nobody writes to is read."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(PlanError, match="no regular file"):
            read_log(path)
