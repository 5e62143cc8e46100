"""Profiles, additions and jobs for tests of the planner."""

import numpy as np
from hypothesis import strategies as st

from planner.adding import AddTable
from planner.profile import Iteration, Profile

ADDS = AddTable(np.array([0.0, 1e9]), np.array([1e-5, 4e-3]), "a line")
"""A start and a rate: the time of N − 1 additions of an Nth grows with N."""


def profile_of(waits_ms: list[float], sizes: list[int], iteration_s: float = 0.1) -> Profile:
    """A profile of these events."""
    waits = np.array(waits_ms, np.float64) / 1e3
    return Profile("made", waits, np.array(sizes, np.int64), Iteration(iteration_s, "given"))


EVENTS = st.lists(st.tuples(st.floats(0, 20), st.integers(0, 100_000_000)), min_size=1, max_size=20)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Any profile."""
    waits, sizes = zip(*draw(EVENTS), strict=True)
    return profile_of(list(waits), list(sizes), draw(st.floats(0.001, 2)))
