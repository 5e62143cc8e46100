"""Drift of the hot set: when a new one is proposed, and when it is not."""

from __future__ import annotations

import numpy as np
import pytest

from controller.drift import DriftDetector, Policy, Proposal
from host_stack.errors import BadInput

KEYS = 400
HOT = np.arange(40, dtype=np.uint64)
POLICY = Policy(window=8, half_life=16, margin=0.05, patience=2)


def rounds(number: int, first_hot: int, seed: int = 1) -> list[np.ndarray]:
    """Rounds of 60 updates, most of them of the 40 keys from `first_hot`."""
    random = np.random.default_rng(seed)
    weight = np.ones(KEYS)
    weight[first_hot : first_hot + 40] = 40
    weight /= weight.sum()
    drawn = [random.choice(KEYS, 60, replace=False, p=weight) for _ in range(number)]
    return [np.sort(keys).astype(np.uint64) for keys in drawn]


def observe(detector: DriftDetector, stream: list[np.ndarray]) -> list[Proposal]:
    """All proposals that a stream leads to; none of them is accepted."""
    return [p for keys in stream if (p := detector.observe(keys)) is not None]


def test_no_drift_no_proposal() -> None:
    """Chance alone never makes a challenger win for long."""
    assert observe(DriftDetector(HOT, KEYS, POLICY), rounds(400, 0)) == []


def test_a_moved_hot_set_is_proposed() -> None:
    """Once the keys move, the new ones are proposed within a few windows, hottest first."""
    detector = DriftDetector(HOT, KEYS, POLICY)
    assert observe(detector, rounds(80, 0)) == []
    proposals = observe(detector, rounds(80, 200, seed=2))
    first = proposals[0]
    assert first.round <= 80 + 5 * POLICY.window
    assert len(np.intersect1d(first.keys, np.arange(200, 240))) >= 38
    assert len(first.keys) == len(np.unique(first.keys)) == 40
    assert first.entering == len(np.setdiff1d(first.keys, HOT))
    assert first.proposed_coverage - first.coverage >= POLICY.margin
    assert first.coverage < 0.1
    assert first.proposed_coverage > 0.5


def test_an_accepted_proposal_is_not_made_again() -> None:
    """It is the current set from then on; one that is not accepted comes again."""
    stream = rounds(200, 200)
    detector = DriftDetector(HOT, KEYS, POLICY)
    assert len(observe(detector, stream)) > 2
    detector = DriftDetector(HOT, KEYS, POLICY)
    proposals = []
    for keys in stream:
        proposal = detector.observe(keys)
        if proposal is not None:
            proposals.append(proposal)
            detector.adopt(proposal.keys)
    assert len(proposals) == 1
    assert detector.last_window is not None
    assert detector.last_window[0] > 0.5


def test_a_short_burst_is_waited_for() -> None:
    """A single window in which other keys are hot is no drift."""
    detector = DriftDetector(HOT, KEYS, POLICY)
    for _ in range(4):
        assert observe(detector, rounds(6, 200)) == []
        assert observe(detector, rounds(58, 0)) == []


def test_updates_of_several_workers_count_each() -> None:
    """Coverage of a window, by hand."""
    detector = DriftDetector(np.array([3], np.uint64), 8, Policy(window=2))
    detector.observe(np.array([3, 5], np.uint64), np.array([4, 1]))
    assert detector.last_window is None
    detector.observe(np.array([1], np.uint64))
    assert detector.last_window == (4 / 6, None)


def test_long_runs_stay_finite() -> None:
    """Weights grow until they are scaled down, which changes no choice."""
    policy = Policy(window=8, half_life=0.1, margin=0.05)
    proposals = observe(DriftDetector(HOT, KEYS, policy), rounds(100, 200))
    assert proposals
    assert all(len(np.unique(p.keys)) == 40 for p in proposals)


def test_an_empty_hot_set_has_no_challenger() -> None:
    """Of size 0 there is only one set."""
    assert observe(DriftDetector(HOT[:0], KEYS, POLICY), rounds(50, 0)) == []


@pytest.mark.parametrize(
    "fields",
    [{"window": 0}, {"patience": 0}, {"half_life": 0.0}, {"margin": 1.0}, {"margin": float("nan")}],
)
def test_bad_policies(fields: dict[str, float]) -> None:
    """Each says what is allowed."""
    with pytest.raises(BadInput, match="drift"):
        Policy(**fields)  # type: ignore[arg-type]


def test_keys_of_another_model() -> None:
    """The hot set has to be of the model."""
    with pytest.raises(BadInput, match="hot key 400; allowed are 0 to 399"):
        DriftDetector(np.array([400], np.uint64), KEYS)
