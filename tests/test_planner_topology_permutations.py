"""Rings of an AllReduce group and the choice among them."""

from __future__ import annotations

from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlanError
from planner.topology.permutations import is_prime, ring, select_permutations, totient_perms


def test_candidates_of_twelve() -> None:
    """All of the twelve servers, and a group of four that are three apart."""
    assert totient_perms(12) == (1, 5, 7, 11)
    assert totient_perms(12, 4) == (3, 9)
    assert totient_perms(12, 1) == (12,)


def test_candidates_that_are_prime() -> None:
    """1 and the primes that do not divide the size."""
    assert totient_perms(16, prime_only=True) == (1, 3, 5, 7, 11, 13)
    assert totient_perms(15, prime_only=True) == (1, 2, 7, 11, 13)


@given(st.integers(1, 300))
@settings(derandomize=True)
def test_there_are_totient_many(members: int) -> None:
    """φ(g) candidates, by Euler's product over the primes that divide g."""
    totient = members
    for prime in (p for p in range(2, members + 1) if members % p == 0 and is_prime(p)):
        totient = totient // prime * (prime - 1)
    assert len(totient_perms(members)) == totient


@given(st.integers(2, 200), st.data())
@settings(derandomize=True)
def test_every_candidate_makes_one_ring(members: int, data: st.DataObject) -> None:
    """A ring visits every member once, and each of its steps is the candidate's."""
    step = data.draw(st.sampled_from(totient_perms(members)))
    order = ring(range(members), step)
    assert sorted(order) == list(range(members))
    assert set((np.roll(order, -1) - order) % members) == {step % members}


@pytest.mark.parametrize(
    ("members", "degree", "steps"),
    [(12, 4, (1, 5)), (16, 4, (1, 5)), (16, 8, (1, 3, 5, 9)), (128, 4, (1, 13))],
)
def test_steps_with_mirrors(members: int, degree: int, steps: tuple[int, ...]) -> None:
    """Known choices; that of 128 by hand: the ratio is √127, the next candidate 13."""
    assert select_permutations(members, degree, totient_perms(members)).both_ways == steps


def test_steps_one_way() -> None:
    """The nearest to 1, 2, 6 (twice 3), 10 (twice 5), with equal distances to the smaller."""
    chosen = select_permutations(16, 4, totient_perms(16), both_ways=False)
    assert chosen.one_way == (1, 3, 5, 9)
    assert chosen.directed(16) == (1, 3, 5, 9)


@given(st.integers(3, 300), st.integers(1, 12))
@settings(derandomize=True)
def test_no_link_twice_while_there_are_others(members: int, degree: int) -> None:
    """As many rings as interfaces, each over links of its own while candidates last."""
    candidates = totient_perms(members)
    for both_ways in (True, False):
        chosen = select_permutations(members, degree, candidates, both_ways=both_ways)
        steps = chosen.directed(members)
        assert len(steps) == degree
        assert all(gcd(step, members) == 1 for step in steps)
        if degree <= len(candidates) - (both_ways and degree % 2):
            assert len(set(steps)) == degree


def test_one_link_makes_a_one_way_ring() -> None:
    """An odd interface has no partner for the mirror."""
    chosen = select_permutations(8, 3, totient_perms(8))
    assert (chosen.both_ways, chosen.one_way) == ((1,), (3,))
    assert chosen.directed(8) == (1, 7, 3)


@pytest.mark.parametrize("members", [0, 5, 13])
def test_members_must_be_equally_far_apart(members: int) -> None:
    """A group whose size does not divide the cluster has no n / g."""
    with pytest.raises(PlanError, match="divisors of 12"):
        totient_perms(12, members)


def test_steps_that_miss_members_are_refused() -> None:
    """4 and 6 have a common divisor: such a ring would leave members out."""
    with pytest.raises(PlanError, match="coprime to 6"):
        ring(range(6), 4)


@pytest.mark.parametrize(("members", "degree"), [(1, 1), (4, 0), (4, 65)])
def test_sizes_out_of_range(members: int, degree: int) -> None:
    """No ring of one, no interfaces at all, too many of them."""
    with pytest.raises(PlanError):
        select_permutations(members, degree, totient_perms(members))
