"""Steps that a worker keeps until their commit."""

from __future__ import annotations

import numpy as np
import pytest

from host_stack.uncommitted import Step, Uncommitted


def kept(*numbers: int) -> Uncommitted:
    """Steps of these numbers, none of them pushed."""
    steps = Uncommitted()
    for number in numbers:
        steps.append(Step(number, np.zeros(0, np.uint64), np.zeros(0, np.float32)))
    return steps


def left(steps: Uncommitted) -> list[int]:
    """The numbers of the steps that are to be pushed, in order; pushes them."""
    numbers = []
    while (step := steps.next) is not None:
        numbers.append(step.number)
        steps.push()
    return numbers


def test_steps_are_pushed_in_order_and_kept() -> None:
    """A step that is pushed is held until it is committed."""
    steps = kept(3, 4)
    assert left(steps) == [3, 4]
    assert steps.first == 3
    steps.drop(5)
    assert not steps
    assert steps.first is None


def test_a_commit_leaves_what_was_not_pushed() -> None:
    """The step after the committed one is the next to push, once."""
    steps = kept(0, 1)
    steps.push()
    steps.drop(1)
    assert left(steps) == [1]


@pytest.mark.parametrize(("goes_on", "expected"), [(3, [3, 4, 5]), (4, [4, 5]), (6, []), (2, [])])
def test_another_epoch_begins_behind_what_is_committed(goes_on: int, expected: list[int]) -> None:
    """All later steps are pushed again; none where the server lacks an earlier one."""
    steps = kept(3, 4, 5)
    steps.push()
    steps.push()
    steps.restart(goes_on)
    assert left(steps) == expected
