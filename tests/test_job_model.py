"""Worker, switch and server as they are, in any order of events, against a plain specification.

Workers and server are the real ones, in threads; the switch is the embedded one with the real
program. Hypothesis chooses what arrives next, what is lost, who dies. Processes go on by
themselves, so a rule never depends on how far they are: the same rules are open at any time.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from host_stack import appeals, inquiry
from host_stack import server as server_module
from host_stack.commit import Commit
from host_stack.placement import heat_based
from host_stack.wire import Op
from softswitch.p4runtime.server import P4RuntimeServer
from tests.air import Air
from tests.job_in_memory import SERVER, MemoryJob, Outcome, Push, addresses, make_job, two_cells
from tests.plain_round import plain_sums
from tests.test_switch_job import WORKERS, provision, switch_server

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]

F = 30
NUM_KEYS = 120
HOT = 80
PER_PUSH = 50
ROUNDS = 4
EXAMPLES = 8
LIMIT_S = 240.0
"""For a job; a busy machine is slow and not wrong."""

PATIENCE = dict.fromkeys(("push", "drain", "commit"), LIMIT_S)

VALUES = (1.0, -3.5, 2.0**-20, -1e-30, 0.0, 65536.0, 1.5e-7, 3.0e4)
LATER = st.integers(0, 60)
"""So many datagrams arrive behind an event."""

ESCAPES = (1e30, -2e30, float("inf"), 1e6)


def pushes_of(seed: int, *, wild: bool) -> list[list[Push]]:
    """[round][worker] of (keys, gradients), some of which escape."""
    rng = np.random.default_rng(seed)

    def push() -> Push:
        keys = np.sort(rng.choice(NUM_KEYS, PER_PUSH, replace=False)).astype(np.uint64)
        values = rng.choice(VALUES, PER_PUSH) * rng.choice((1, 0.7, 0.01))
        if wild:
            escapes = rng.random(PER_PUSH) < 0.03
            values[escapes] = rng.choice(ESCAPES, escapes.sum())
        return keys, values.astype(np.float32)

    return [[push() for _ in range(WORKERS)] for _ in range(ROUNDS)]


class JobMachine(RuleBasedStateMachine):
    """Rules are what may happen next to a job; each commit is compared with the specification."""

    server: ClassVar[P4RuntimeServer]
    epochs: ClassVar[Iterator[int]]
    seen: ClassVar[dict[str, int]]

    @initialize(seed=st.integers(0, 999), wild=st.booleans())
    def begin(self, seed: int, wild: bool) -> None:
        """A job starts to train."""
        pushes = pushes_of(seed, wild=wild)
        self.expected = [plain_sums(round_, F) for round_ in pushes]
        self.air = Air(self.server, WORKERS)
        self.job = MemoryJob(
            pushes,
            NUM_KEYS,
            HOT,
            self.air.network_of,
            F,
            install=self.air.install,
            place=two_cells,
            at=lambda job: replace(job, epoch=next(self.epochs), timeouts_s=PATIENCE),
        )
        self.job.after_commit(self._spare_the_last_round)
        self.may_die = True
        self.checked = 0
        self.pool = ThreadPoolExecutor(1)
        self.running: Future[Outcome] = self.pool.submit(self.job.run, LIMIT_S)
        self.air.wait()

    def _spare_the_last_round(self, commit: Commit) -> None:
        """Who dies behind the last commit would find a job that has ended."""
        if commit.round == ROUNDS - 2:
            self.may_die = False
            for address in (SERVER, *addresses(WORKERS)):
                self.air.transport(address).crashes_after = None

    @rule(count=st.integers(10, 80))
    def arrive_in_order(self, count: int) -> None:
        """The network is well for a while."""
        self.air.let([0] * count)

    @rule(picks=st.lists(st.integers(0, 7), min_size=5, max_size=30))
    def arrive_in_any_order(self, picks: list[int]) -> None:
        """Datagrams overtake others."""
        self.air.let(picks)

    @rule(op=st.sampled_from([Op.GRAD, Op.ACK, Op.UPDATE]), count=st.integers(1, 3), later=LATER)
    def lose(self, op: Op, count: int, later: int) -> None:
        """The next packets of one kind are lost."""
        self.air.lose(op, count)
        self.arrive_in_order(later)

    @rule(op=st.sampled_from([Op.DRAIN, Op.DRAINED]), count=st.integers(1, 3), later=LATER)
    def lose_a_drain(self, op: Op, count: int, later: int) -> None:
        """The next requests for rows, or answers, are lost."""
        self.air.lose(op, count)
        self.arrive_in_order(later)

    @rule(pick=st.integers(0, 7), later=LATER)
    def keep_a_copy(self, pick: int, later: int) -> None:
        """The network keeps a copy of a datagram."""
        self.air.keep_copy(pick)
        self.arrive_in_order(later)

    @rule(pick=st.integers(0, 7))
    def a_copy_arrives(self, pick: int) -> None:
        """Perhaps rounds and epochs later; it may arrive again."""
        self.air.let_copy(pick)

    @rule(later=LATER)
    def lose_the_switch(self, later: int) -> None:
        """It comes back empty, when the server or a worker has missed it."""
        self.air.lose_switch()
        self.arrive_in_order(later)

    @rule(rank=st.integers(0, WORKERS - 1), calls=st.integers(1, 6), later=LATER)
    def kill_a_worker(self, rank: int, calls: int, later: int) -> None:
        """Its next process joins again."""
        self._kill(addresses(WORKERS)[rank], calls)
        self.arrive_in_order(later)

    @rule(calls=st.integers(1, 6), later=LATER)
    def kill_the_server(self, calls: int, later: int) -> None:
        """Its next process goes on at the checkpoint."""
        self._kill(SERVER, calls)
        self.arrive_in_order(later)

    @rule(first=st.integers(0, 40))
    def change_the_hot_set(self, first: int) -> None:
        """Other keys are to be hot from the next round on."""
        keys = np.arange(first, first + HOT, dtype=np.uint64)
        self.job.controller.plan(placement=heat_based(keys, self.job.job.layout), version=first + 2)

    def _kill(self, address: str, calls: int) -> None:
        """At a call of its transport, if it is not to die at one already."""
        if self.may_die and self.air.transport(address).crashes_after is None:
            self.job.crash(address, calls)

    @invariant()
    def commits_are_what_was_pushed(self) -> None:
        """Each commit so far has the keys and sums of its round, bit for bit."""
        done = len(self.job.applied)
        commits = zip(self.job.commits[:done], self.job.applied[:done], strict=True)
        for commit, applied in list(commits)[self.checked :]:
            expected = self.expected[commit.round]
            assert applied.keys.tolist() == list(expected)
            assert applied.sums.tobytes() == np.array(list(expected.values())).tobytes()
        self.checked = done

    def teardown(self) -> None:
        """Nothing is held back any more: the job ends, with the model that it must have."""
        if not hasattr(self, "running"):
            return
        self.air.calm()
        outcome = self.running.result()
        self.pool.shutdown()
        self.commits_are_what_was_pushed()
        model = np.zeros(NUM_KEYS, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for expected in self.expected:
                model[list(expected)] += np.array(list(expected.values()))
        assert outcome.parameters.tobytes() == model.tobytes()
        assert {commit.round for commit in self.job.commits} == set(range(ROUNDS))
        self._count(outcome)

    def _count(self, outcome: Outcome) -> None:
        """What has happened in all examples."""
        happened = {
            "restarts": self.air.restarts,
            "lost drains": self.air.lost[Op.DRAIN] + self.air.lost[Op.DRAINED],
            "deaths": sum(outcome.crashes.values()),
            "by the switch": outcome.counters["drained_rows"],
            "by the server": outcome.counters.get("fallback_added", 0),
        }
        for name, count in happened.items():
            self.seen[name] = self.seen.get(name, 0) + count


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker and server ask soon when nothing moves: what they wait for here is never far."""
    for name, seconds in {
        "AFTER_S": 0.05,
        "EVERY_S": 0.1,
        "MAX_EVERY_S": 0.4,
        "RECONNECT_S": 0.3,
        "MAX_RECONNECT_S": 2.0,
    }.items():
        monkeypatch.setattr(inquiry, name, seconds)
    monkeypatch.setattr(server_module, "SUSPECT_S", 0.1)
    monkeypatch.setattr(appeals, "REPEAT_S", 0.1)


@pytest.mark.timeout(600)
def test_any_order_of_events_keeps_the_bits(impatient: None) -> None:
    """Hypothesis looks for an order after which a commit is not the sum of what was pushed.

    The examples are the same in every run; threads make of each what the machine's time gives.
    """
    with switch_server() as server:
        asyncio.run(provision(server.address, make_job(WORKERS, NUM_KEYS, F, 1)))
        JobMachine.server = server
        JobMachine.epochs = iter(range(2, 4096, 64))
        JobMachine.seen = {}
        machine = JobMachine.TestCase
        machine.settings = settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
            phases=[Phase.generate],  # threads do not fail twice in the same way
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        machine("runTest").runTest()
    assert all(JobMachine.seen.values()), JobMachine.seen
