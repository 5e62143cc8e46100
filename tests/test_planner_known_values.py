"""The what-if analysis against the values known for the published profiles (reference page)."""

import os
from pathlib import Path

import numpy as np
import pytest

from planner.adding import V100_ADDS, AddTable
from planner.collectives import Scheme
from planner.profile import Profile
from planner.profile_log import read_log
from planner.simulation import Job, passage, scaling_factor

LOGS = os.environ.get("LIBRA_WHATIF_LOGS")
pytestmark = pytest.mark.skipif(
    LOGS is None, reason="LIBRA_WHATIF_LOGS names no folder of published profiles"
)
TOLERANCE = 0.0005
WORKERS = 64
SCALING = {
    "resnet50": (0.9946, 0.5397, 0.0760),
    "resnet101": (0.9968, 0.4998, 0.0660),
    "vgg16": (0.9935, 0.2013, 0.0221),
}
RATES_BPS = (100e9, 10e9, 1e9)
COMPRESSED = (
    ("resnet50", 2, 0.8169),
    ("resnet50", 5, 0.9944),
    ("vgg16", 5, 0.7228),
    ("vgg16", 10, 0.9935),
)


def profile(name: str) -> Profile:
    """A published profile."""
    return read_log(Path(str(LOGS), f"{name}.bk.log"))


def job(name: str, adds: AddTable | None = None) -> Job:
    """The study's set-up, with its own table of additions unless told otherwise."""
    table = adds or AddTable.load(Path(str(LOGS), "cuda_vec_add.log"))
    return Job(profile(name), scheme=Scheme(adds=table))


@pytest.mark.parametrize("name", SCALING)
def test_scaling_factors_are_the_known_ones(name: str):
    """64 workers, full utilisation; the times of iterations are found by the sizes."""
    asked = job(name)
    found = scaling_factor(asked, asked.conditions(np.array(RATES_BPS), WORKERS))
    assert found == pytest.approx(SCALING[name], abs=TOLERANCE)


@pytest.mark.parametrize(("name", "ratio", "expected"), COMPRESSED)
def test_compression_gains_what_is_known(name: str, ratio: float, expected: float):
    """At 10 Gbit/s."""
    asked = job(name)
    found = scaling_factor(asked, asked.conditions(10e9, WORKERS, ratio))
    assert found == pytest.approx(expected, abs=TOLERANCE)


def test_assumed_additions_are_as_good_as_the_table():
    """Without a table: the device is described by a few points."""
    for name, expected in SCALING.items():
        asked = job(name, V100_ADDS)
        found = scaling_factor(asked, asked.conditions(np.array(RATES_BPS), WORKERS))
        assert found == pytest.approx(expected, abs=TOLERANCE)
    for name, ratio, known in COMPRESSED:
        asked = job(name, V100_ADDS)
        found = scaling_factor(asked, asked.conditions(10e9, WORKERS, ratio))
        assert found == pytest.approx(known, abs=TOLERANCE)


def test_messages_are_the_known_ones():
    """How many, the first flush of ResNet-50, and the second message of VGG-16."""
    messages = {name: job(name).messages() for name in SCALING}
    assert [len(each) for each in messages.values()] == [12, 20, 15]
    first = messages["resnet50"]
    assert first.size_bytes[0] / 2**20 == pytest.approx(41.86, abs=0.005)
    assert first.ready_s[0] * 1e3 == pytest.approx(5.49, abs=0.005)
    assert messages["vgg16"].size_bytes[1] / 2**20 == pytest.approx(392.0, abs=0.05)


@pytest.mark.parametrize(
    ("name", "mib", "iteration_ms"),
    [("resnet50", 97.49, 128.086), ("resnet101", 169.94, 192.006), ("vgg16", 527.82, 194.524)],
)
def test_sizes_and_iterations_are_the_known_ones(name: str, mib: float, iteration_ms: float):
    """All gradients of a pass, and the published time of an iteration."""
    read = profile(name)
    assert read.total_bytes / 2**20 == pytest.approx(mib, abs=0.006)
    assert read.iteration.seconds * 1e3 == pytest.approx(iteration_ms)


def test_a_passage_tells_the_same_as_the_scaling_factor():
    """One point, message by message."""
    asked = job("resnet50")
    at = asked.conditions(10e9, WORKERS)
    passed = passage(asked, at)
    assert passed.scaling_factor == pytest.approx(float(scaling_factor(asked, at)))
    assert (passed.begin_s >= passed.messages.ready_s).all()
    assert (passed.begin_s[1:] >= passed.end_s[:-1] - 1e-12).all()
