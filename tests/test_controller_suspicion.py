"""How long a switch that reads well may be suspected."""

from __future__ import annotations

from itertools import count

from controller.daemon.suspicion import FORGIVE_S, MAX_PATIENCE_S, PATIENCE_S, Suspicion

JOB, OTHER = 1, 2
EVERY_S = 1.0


def waited_s(suspicion: Suspicion, round_: int, began: float, job: int = JOB) -> float:
    """How long a job has to suspect without a break until the switch is loaded anew."""
    for seconds in count():
        if suspicion.has_stayed(job, round_, began + seconds * EVERY_S):
            return seconds * EVERY_S
    raise AssertionError


def test_a_suspicion_has_to_stay() -> None:
    """One that is not repeated for a while begins anew."""
    suspicion = Suspicion()
    assert not suspicion.has_stayed(JOB, 0, 100.0)
    assert not suspicion.has_stayed(JOB, 0, 100.0 + PATIENCE_S - 1.5)
    later = 100.0 + PATIENCE_S - 1.5 + FORGIVE_S + 0.1
    assert not suspicion.has_stayed(JOB, 0, later)
    assert waited_s(suspicion, 0, later) == PATIENCE_S


def test_in_vain_it_takes_twice_as_long() -> None:
    """A round that takes longer than the patience ends some time; another one begins as ever."""
    suspicion = Suspicion()
    now, waits = 100.0, []
    for _ in range(7):
        waits.append(waited_s(suspicion, 3, now))
        now += waits[-1]
    assert waits == [min(MAX_PATIENCE_S, PATIENCE_S * 2**times) for times in range(7)]
    assert suspicion.patience_s(OTHER, 3) == PATIENCE_S
    assert waited_s(suspicion, 4, now) == PATIENCE_S
    assert suspicion.patience_s(JOB, 4) == 2 * PATIENCE_S


def test_a_switch_that_has_lost_its_job_brings_no_patience() -> None:
    """It was the reason: the next suspicion has the usual time."""
    suspicion = Suspicion()
    assert not suspicion.has_stayed(JOB, 0, 100.0)
    suspicion.confirmed(102.0)
    assert suspicion.patience_s(JOB, 0) == PATIENCE_S
    assert waited_s(suspicion, 0, 103.0) == PATIENCE_S - 1.0
