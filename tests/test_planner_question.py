"""Answers at one point, in figures and in words; sweeps and their axes."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.collectives import SCHEMES, Scheme
from planner.errors import PlanError
from planner.hot_cold import HotCold
from planner.plots import draw_answer, draw_sweep, sweep_curves, sweep_figure
from planner.profile import Profile
from planner.question import Question, as_fields, ask, in_words
from planner.simulation import Job, scaling_factor
from planner.sweeping import MAX_POINTS, axis, sweep
from planner.transport import Transport
from planner.units import parse_rate_bps
from tests.planner_support import ADDS, profile_of, profiles

FEW = settings(derandomize=True, deadline=None, max_examples=40)
JOB = Job(profile_of([5, 5, 5], [4_000_000, 6_000_000, 2_000_000]), scheme=Scheme(adds=ADDS))


def test_an_answer_has_all_figures():
    """The scheme that was asked about is one of all; JSON carries them."""
    answer = ask(Question(JOB, 1e9, 8))
    fields = as_fields(answer)
    assert list(answer.schemes) == list(SCHEMES)
    assert answer.schemes["ring"] == pytest.approx(answer.passage.scaling_factor)
    assert fields["scaling_factor"] == answer.passage.scaling_factor
    assert fields["messages"] == 3
    assert fields["first_flush_bytes"] == 4_000_000
    assert fields["overhead_s"] == answer.passage.overhead_s
    assert fields["bottleneck"] is True
    assert fields["answer"] == in_words(answer)
    assert fields["gradient_bytes"] == 12_000_000


def test_words_say_what_would_help():
    """The least ratio and rate, another scheme, and whether Libra would do."""
    text = " ".join(in_words(ask(Question(JOB, 1e9, 8))))
    assert "At 1 Gbit/s with 8 workers (ring) the scaling factor is" in text
    assert "The links are the bottleneck: 0.95 is missed." in text
    assert "× compression, or links of" in text
    assert "Libra with 1 server does not reach it" in text


@FEW
@given(profiles(), st.integers(2, 64), st.floats(1e8, 1e11), st.floats(0.3, 0.99))
def test_what_words_name_reaches_the_target(
    profile: Profile, workers: int, rate_bps: float, target: float
):
    """Ratios, rates and shares of hot gradients as they are printed, not only before rounding."""
    job = Job(profile, scheme=Scheme(adds=ADDS))
    question = Question(job, rate_bps, workers, target=target)
    text = " ".join(in_words(ask(question)))
    for pattern, points in (
        (r"by (\S+)× compression", lambda said: job.conditions(rate_bps, workers, said)),
        (r"links of (\S+ [kMGT]?)bit", lambda said: job.conditions(said, workers)),
    ):
        if (found := re.search(pattern, text)) is not None:
            said = found[1].replace(",", "").replace(" ", "")
            at = points(parse_rate_bps(said) if "links" in pattern else float(said))
            assert float(scaling_factor(job, at)) >= target
    if (found := re.search(r"reaches it with (\S+)%", text)) is not None:
        libra = Scheme("libra", adds=ADDS, hot_cold=HotCold(float(found[1]) / 100))
        assert float(scaling_factor(job, job.conditions(rate_bps, workers), libra)) >= target


def test_words_name_what_else_takes_time():
    """Latency, and compression where there is some."""
    slow = Job(profile_of([1], [10**9], 0.01), scheme=Scheme(adds=ADDS), latency_s=0.01)
    assert "because sums and latency take" in " ".join(in_words(ask(Question(slow, 1e12, 8))))
    costly = replace(slow, scheme=Scheme(adds=ADDS, compression_s_per_byte=1e-9), latency_s=0.0)
    text = " ".join(in_words(ask(Question(costly, 1e12, 8, 2.0))))
    assert "because sums and compression take" in text


def test_words_name_the_transport_and_the_sums():
    """Links that are not filled; sums that take longer than the target allows."""
    badly = Job(JOB.profile, scheme=JOB.scheme, transport=Transport.constant(0.25))
    assert "of which the transport fills 25%" in " ".join(in_words(ask(Question(badly, 1e9, 8))))
    slow = Job(profile_of([1], [10**9], 0.01), scheme=Scheme(adds=ADDS))
    text = " ".join(in_words(ask(Question(slow, 1e12, 8))))
    assert "with endless links it would be" in text
    assert "Neither compression, faster links nor another scheme reaches it." in text
    assert "the scheme in-network" in " ".join(in_words(ask(Question(slow, 1e14, 8))))


def test_words_say_when_there_is_nothing_to_do():
    """No remedies for a job that reaches the target."""
    lines = in_words(ask(Question(JOB, 1e12, 2)))
    assert len(lines) == 2
    assert "The network is no bottleneck" in lines[1]


def test_libra_reaches_what_a_server_does_not():
    """The least coverage is told."""
    job = Job(profile_of([10, 10, 10], [2_000_000] * 3, 0.2), scheme=Scheme("parameter-server"))
    text = " ".join(in_words(ask(Question(job, 10e9, 16))))
    assert "Libra with 1 server reaches it with" in text


def test_a_sweep_has_every_combination():
    """Each point is what it would be alone."""
    swept = sweep(JOB, [1e9, 1e10], [2, 8], [1, 4], [0.5, 1.0])
    assert len(swept) == 16
    for i in range(len(swept)):
        alone = Job(
            JOB.profile, scheme=JOB.scheme, transport=Transport.constant(swept.utilization[i])
        )
        at = alone.conditions(swept.rate_bps[i], swept.workers[i], swept.ratio[i])
        assert swept.scaling_factor[i] == pytest.approx(float(scaling_factor(alone, at)))
    points = set(zip(*(column for column in list(swept.as_fields().values())[:4]), strict=True))
    assert len(points) == 16


def test_a_sweep_is_bounded():
    """No more points than memory has room for, and none without values."""
    with pytest.raises(PlanError, match="a sweep of"):
        sweep(JOB, np.geomspace(1e9, 1e10, 2000), np.arange(1, MAX_POINTS // 1000))
    with pytest.raises(PlanError, match="a sweep of 0 points"):
        sweep(JOB, [], [2])


def test_axes_are_lists_and_ranges():
    """Values, or ranges with equal factors between."""
    assert axis("1G,10G", "rate", parse_rate_bps) == [1e9, 1e10]
    assert axis("1G:100G:3", "rate", parse_rate_bps) == pytest.approx([1e9, 1e10, 1e11])
    for text in ("1G:2G", "1G:2G:1", "1G:2G:x", "1G:2G:3:4"):
        with pytest.raises(PlanError, match="LOW:HIGH:COUNT"):
            axis(text, "rate", parse_rate_bps)


def test_a_constant_utilisation_is_an_axis_of_its_own():
    """Exactly the shares that were given, so that plots find one curve for each."""
    swept = sweep(JOB, np.geomspace(1e9, 1e11, 50), [2, 4], [1], [0.1, 0.3, 0.7])
    assert np.unique(swept.utilization).tolist() == [0.1, 0.3, 0.7]
    along, drawn = sweep_curves(swept)
    assert along.startswith("link rate")
    assert "workers 4, utilisation 0.3" in [label for label, _, _ in drawn]
    for _, rates, factors in drawn:
        assert len(rates) == 50
        assert (np.diff(rates) > 0).all()
        assert (np.diff(factors) >= 0).all()


@pytest.mark.parametrize(
    ("rates_bps", "workers", "ticks"),
    [
        ([1e9], [1, 2, 4, 64], ["1", "2", "4", "64"]),
        ([1e9], range(1, 200), ["1", "10", "100"]),
        (np.geomspace(1e9, 1e11, 3), [2], ["1 Gbit/s", "10 Gbit/s", "100 Gbit/s"]),
    ],
)
def test_ticks_are_values_or_round_numbers(rates_bps, workers, ticks: list[str]):
    """In plain text."""
    panel = sweep_figure(sweep(JOB, rates_bps, workers), 0.95).axes[0]
    low, high = panel.get_xlim()
    shown = [
        label.get_text()
        for at, label in zip(panel.get_xticks(), panel.get_xticklabels(), strict=True)
        if low <= at <= high
    ]
    assert shown == ticks


def test_plots_are_drawn(tmp_path):
    """Of an answer, and of sweeps, with a measured transport too."""
    draw_answer(ask(Question(JOB, 1e9, 8)), tmp_path / "answer.png")
    rates = np.geomspace(1e9, 1e11, 12)
    draw_sweep(sweep(JOB, rates, range(2, 14), [1, 2]), 0.95, tmp_path / "rates.png")
    curve = Transport.measured({1e9: 0.9e9, 1e10: 5e9}, "made up")
    measured = Job(JOB.profile, scheme=JOB.scheme, transport=curve)
    draw_sweep(sweep(measured, rates, [2, 8]), 0.95, tmp_path / "measured.png")
    for path in tmp_path.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.iterdir())) == 3
