"""Who may go on, and when a generation closes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_stack.errors import BadInput
from host_stack.progress import BSP, Consistency, Progress


def test_bsp_is_one_step_each() -> None:
    """Nobody goes on before all have completed their step and it is committed."""
    progress = Progress(3, BSP, 0, [0, 0, 0])
    for rank in (2, 0):
        progress.complete(rank, 0, 0, 0.0, final=False)
        assert progress.release(0.0) == []
        assert not progress.can_commit
    progress.complete(1, 0, 0, 0.0, final=False)
    assert progress.release(0.0) == []
    assert progress.can_commit
    progress.commit()
    assert progress.release(0.0) == [0, 1, 2]
    assert [progress.target(rank) for rank in range(3)] == [1, 1, 1]
    assert progress.committed == [1, 1, 1]


def test_staleness_bounds_the_fast() -> None:
    """A fast worker is held k steps ahead, and the others' steps let it go on."""
    progress = Progress(2, Consistency(staleness=1), 0, [0, 0])
    progress.complete(0, 0, 0, 0.0, final=False)
    assert progress.release(0.0) == [0]
    progress.complete(0, 0, 1, 0.0, final=False)
    assert progress.release(0.0) == []
    assert not progress.can_commit
    progress.complete(1, 0, 0, 0.0, final=False)
    assert progress.release(0.0) == [1]
    assert progress.target(1) == 1
    assert progress.can_commit
    progress.commit()
    assert progress.committed == [2, 1]
    assert progress.release(0.0) == [0]
    assert progress.target(0) == 1


def test_count_and_time_close() -> None:
    """Asynchronous workers never wait for each other; steps or seconds close a generation."""
    for rule in (Consistency(None, close_steps=2), Consistency(None, close_s=5.0)):
        progress = Progress(2, rule, 0, [0, 0])
        progress.complete(0, 0, 0, 1.0, final=False)
        assert progress.release(1.0) == [0]
        assert progress.target(0) == 0
        progress.complete(0, 0, 1, 6.0, final=False)
        assert progress.release(6.0) == [0]
        assert progress.target(0) == 1
        assert not progress.can_commit  # worker 1 may be pushing
        progress.complete(1, 0, 0, 6.0, final=False)
        assert progress.release(6.0) == [1]
        assert progress.can_commit


def test_time_is_waited_for_until_it_closes() -> None:
    """Not while a slow worker keeps a generation from its commit: that would be a busy wait."""
    progress = Progress(2, Consistency(None, close_s=5.0), 0, [0, 0])
    assert progress.due_in_s(0.0) == math.inf
    progress.complete(0, 0, 0, 1.0, final=False)
    assert progress.release(1.0) == [0]
    assert progress.due_in_s(2.0) == 4.0
    assert progress.due_in_s(7.0) == 0.0
    assert progress.release(7.0) == []
    assert not progress.can_commit
    assert progress.due_in_s(7.0) == math.inf


def test_steps_come_in_order() -> None:
    """A gap and a wrong generation are refused; a repeated step counts once."""
    progress = Progress(1, BSP, 4, [4])
    with pytest.raises(BadInput, match="step 4 in round 4 comes next"):
        progress.complete(0, 4, 5, 0.0, final=False)
    with pytest.raises(BadInput, match="step 4 in round 4 comes next"):
        progress.complete(0, 5, 4, 0.0, final=False)
    for _ in range(2):
        progress.complete(0, 4, 4, 0.0, final=False)
    assert progress.steps == [5]


def test_asynchronous_needs_something_that_closes() -> None:
    """Without a bound, a generation would never be drained."""
    with pytest.raises(BadInput, match="needs a number of steps or a time"):
        Consistency(staleness=None)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    workers=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 6), min_size=5, max_size=5),
    rule=st.sampled_from(
        [
            BSP,
            Consistency(1),
            Consistency(3),
            Consistency(2, close_steps=3),
            Consistency(None, close_steps=1),
            Consistency(None, close_steps=7),
            Consistency(None, close_s=2.0),
        ]
    ),
    seed=st.integers(0, 2**32 - 1),
    restarts=st.integers(0, 3),
)
def test_everything_is_committed_once(
    workers: int, lengths: list[int], rule: Consistency, seed: int, restarts: int
) -> None:
    """In any order of steps, commits and restarts all steps end up committed, within the bound."""
    rng = np.random.default_rng(seed)
    progress = Progress(workers, rule, 0, [0] * workers)
    now = 0.0
    pushing = set(range(workers))
    for _ in range(2000):
        now += 0.3
        if progress.has_ended:
            break
        choice = rng.integers(0, 12)
        if choice == 0 and restarts:
            restarts -= 1
            progress.restart()
            pushing = {rank for rank in range(workers) if progress.steps[rank] < lengths[rank]}
            for rank in set(range(workers)) - pushing:
                progress.complete(rank, progress.target(rank), lengths[rank] - 1, now, final=True)
        elif choice < 9 and pushing:
            rank = int(rng.choice(sorted(pushing)))
            step = progress.steps[rank]
            final = step + 1 == lengths[rank]
            progress.complete(rank, progress.target(rank), step, now, final=final)
            pushing.discard(rank)
        elif progress.can_commit:
            assert not any(progress.target(rank) == progress.round for rank in pushing)
            progress.commit()
        for rank in progress.release(now):
            if progress.steps[rank] < lengths[rank]:
                pushing.add(rank)
                if rule.staleness is not None:
                    training = [
                        progress.committed[each]
                        for each in range(workers)
                        if progress.committed[each] < lengths[each]
                    ]
                    assert progress.steps[rank] - min(training) <= rule.staleness
    assert progress.committed == lengths[:workers]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("bsp", BSP),
        ("ssp:3", Consistency(3)),
        ("ssp:2,steps=4", Consistency(2, close_steps=4)),
        ("async:steps=4", Consistency(None, close_steps=4)),
        ("async:seconds=0.5", Consistency(None, close_s=0.5)),
        ("async:steps=4,seconds=0.5", Consistency(None, 4, 0.5)),
    ],
)
def test_rules_are_read_and_written(text: str, rule: Consistency) -> None:
    """The words of the command line."""
    assert Consistency.parse(text) == rule
    assert str(rule) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "BSP", "bsp:1", "ssp", "ssp:", "ssp:-1", "ssp:x", "ssp:1,steps=0", "ssp:1,2"),
        *("async", "async:", "async:steps=1,steps=2", "async:seconds=nan", "async:minutes=1"),
    ],
)
def test_other_rules_are_refused(text: str) -> None:
    """The error says which rules there are."""
    with pytest.raises(BadInput, match=r"allowed are bsp|must be|needs a number"):
        Consistency.parse(text)


def test_a_rank_that_was_not_waited_for_cannot_step_into_what_is_committed() -> None:
    """The round that it would have pushed into is gone; that is said, and changes nothing."""
    progress = Progress(2, BSP, 0, [0, 0])
    progress.leave(1)
    progress.complete(0, 0, 0, 0.0, final=False)
    progress.release(0.0)
    progress.commit()
    with pytest.raises(BadInput, match="round 0 of worker 1: open are 1, 2"):
        progress.complete(1, 0, 0, 0.0, final=False)
    assert (progress.steps, progress.committed) == ([1, 0], [1, 0])
