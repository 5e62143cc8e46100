"""Searches for strategies, and the alternation with topologies."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from planner.errors import PlanError
from planner.topology.alternate import Alternation, PlanOptions, Timings, judge_of
from planner.topology.fabrics import Switched
from planner.topology.finder import FinderOptions
from planner.topology.operators import Operator, Workload
from planner.topology.search import Search, SearchOptions
from planner.topology.strategy import Strategy, data_parallel, embeddings_apart
from tests.planner_workloads import workload

RATE_BPS = 1e9
TINY = Workload(
    "tiny",
    2,
    (
        Operator("table", True, (), 0.0, 0.0, 1e4, 1e7),
        Operator("dense", False, (0,), 1.0, 2.0, 1e4, 1e3),
        Operator("top", False, (1,), 0.5, 1.0, 0.0, 1e6),
    ),
)


def test_the_best_of_all_is_found() -> None:
    """Two servers and three operators: 27 strategies, tried one by one."""
    cost = judge_of(None, Timings(TINY), Switched(2, RATE_BPS))
    every = [Strategy(each) for each in product([(0,), (1,), (0, 1)], repeat=3)]
    best = min(cost(strategy) for strategy in every)
    search = Search(TINY, SearchOptions(budget=150), data_parallel(TINY))
    assert cost(search.run(cost)) == best < cost(data_parallel(TINY))


def test_a_seed_gives_one_search() -> None:
    """The same seed the same way, another seed another one."""
    made = workload("dlrm")
    cost = judge_of("estimate", Timings(made), Switched(8, RATE_BPS))
    ways = []
    for seed in (1, 1, 2):
        search = Search(made, SearchOptions(budget=60, seed=seed), embeddings_apart(made))
        search.run(cost)
        ways.append(search.as_fields())
    assert ways[0] == ways[1] != ways[2]


def test_a_search_never_ends_worse_than_it_began() -> None:
    """Even when it accepts everything."""
    made = workload("ncf")
    cost = judge_of("estimate", Timings(made), Switched(8, RATE_BPS))
    begun = embeddings_apart(made)
    search = Search(made, SearchOptions(budget=50, alpha_per_ms=0.0), begun)
    assert cost(search.run(cost)) <= cost(begun)
    assert search.accepted > 0


def test_memory_is_a_limit() -> None:
    """Nothing is proposed whose parameters do not fit; a start that does not is refused."""
    seen = []

    def cost(strategy: Strategy) -> float:
        seen.append(strategy.memory_bytes(TINY).max())
        return 1.0

    limit = 1.2e7
    Search(TINY, SearchOptions(80, memory_bytes=limit), data_parallel(TINY)).run(cost)
    assert max(seen) <= limit
    tight = PlanOptions(FinderOptions(2), SearchOptions(memory_bytes=1e3))
    with pytest.raises(PlanError, match="do the parameters fit"):
        Alternation(TINY, RATE_BPS, tight).run()


def options(budget: int = 40) -> PlanOptions:
    """Of a short search."""
    return PlanOptions(FinderOptions(4), SearchOptions(budget), rounds=2, judge="estimate")


def test_alternation_only_gains() -> None:
    """Each round is as fast as the one before or faster, and the plan is what it says."""
    begun = PlanOptions(FinderOptions(2), SearchOptions(60), starts=("data-parallel",))
    plan = Alternation(TINY, RATE_BPS, begun).run()
    assert list(plan.history_ms) == sorted(plan.history_ms, reverse=True)
    assert plan.iteration_ms == plan.history_ms[-1] < plan.history_ms[0]
    plan.strategy.check(TINY)
    assert plan.topology.distances().diameter >= 1


class Stopped(Exception):
    """The user's patience has ended."""


def test_a_stopped_search_goes_on(tmp_path: Path) -> None:
    """Stopped and resumed, it finds what it finds undisturbed, and does not start anew."""
    made, state = workload("dlrm"), tmp_path / "state.json"
    undisturbed = Alternation(made, RATE_BPS, options()).run()

    def impatient(what: str, steps: int, best_ms: float) -> None:
        if (what, steps) == ("round 1", 25):
            raise Stopped

    with pytest.raises(Stopped):
        Alternation(made, RATE_BPS, options(), state=state, show=impatient).run()
    steps = []
    resumed = Alternation(
        made, RATE_BPS, options(), state=state, show=lambda what, step, ms: steps.append(step)
    ).run()
    assert resumed == undisturbed
    assert steps[0] > 20


def test_a_state_of_something_else(tmp_path: Path) -> None:
    """Other options, or another file altogether."""
    made, state = workload("dlrm"), tmp_path / "state.json"
    Alternation(made, RATE_BPS, options(), state=state).run()
    with pytest.raises(PlanError, match="other options"):
        Alternation(made, RATE_BPS, options(budget=41), state=state).run()
    document = json.loads(state.read_text())
    del document["search"]["random"]
    state.write_text(json.dumps(document))
    with pytest.raises(PlanError, match=r"state.search.random is missing"):
        Alternation(made, RATE_BPS, options(), state=state).run()


@pytest.mark.parametrize(
    "wrong",
    [
        {"judge": "guess"},
        {"starts": ("guess",)},
        {"starts": ()},
        {"rounds": -1},
        {"paths": 0},
    ],
)
def test_options_out_of_range(wrong: dict[str, object]) -> None:
    """Each is refused."""
    with pytest.raises(PlanError):
        PlanOptions(FinderOptions(4), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"budget": -1}, {"alpha_per_ms": -1}, {"memory_bytes": 0}])
def test_search_options_out_of_range(wrong: dict[str, float]) -> None:
    """Each is refused."""
    with pytest.raises(PlanError):
        SearchOptions(**wrong)  # type: ignore[arg-type]
