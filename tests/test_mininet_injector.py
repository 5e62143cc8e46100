"""When faults happen, and what is told of them."""

from __future__ import annotations

from mininet_topos.faults import FaultPlan
from mininet_topos.injector import Injector
from mininet_topos.processes import Event


class Recorded:
    """Notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.ended: set[str] = set()

    def kill(self, name: str) -> bool:
        """Note it."""
        if name in self.ended:
            return False
        self.done.append(f"kill {name}")
        return True

    def restart(self, name: str) -> None:
        """Note it."""
        self.done.append(f"restart {name}")

    def set_link(self, name: str, *, up: bool) -> None:
        """Note it."""
        self.done.append(f"{'mend' if up else 'cut'} {name}")

    def release(self, name: str) -> None:
        """Note it."""
        self.done.append(f"release {name}")

    def take(self) -> list[str]:
        """What was noted since the last call."""
        done, self.done = self.done, []
        return done


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def commit(round_: int) -> Event:
    """The server has committed a round."""
    return Event("server", "commit", {"round": round_})


def said(process: str, kind: str, round_: int = 0) -> Event:
    """Another event."""
    return Event(process, kind, {"round": round_})


class Training:
    """An injector under way, whose `recoveries` are those of its faults so far."""

    def __init__(self, text: str, *, open_rounds: int = 1) -> None:
        self.clock, self.emulated = Clock(), Recorded()
        faults = FaultPlan.parse(text).faults
        self.injector = Injector(faults, self.emulated, self.clock, open_rounds=open_rounds)
        self.injector.begin()

    def pass_(self, seconds: float, *events: Event) -> list[float | None]:
        """Let time pass, then events come."""
        self.clock.now += seconds
        self.injector.tick()
        for event in events:
            self.injector.take(event)
        return self.recoveries

    @property
    def recoveries(self) -> list[float | None]:
        """In the order of faults."""
        return [each.record()["recovery_s"] for each in self.injector.injected]


def test_faults_happen_when_their_round_begins() -> None:
    """Two at once, each ended after its time; recovered with the round that began after them."""
    clock, emulated = Clock(), Recorded()
    plan = FaultPlan.parse("kill=switch@r2+1s,cut=worker1@r2+3s,kill=server@r0+1s")
    injector = Injector(plan.faults, emulated, clock)
    injector.begin()
    assert emulated.take() == ["kill server"]
    clock.now += 1.0
    injector.tick()
    assert emulated.take() == ["restart server"]
    injector.take(commit(0))
    assert emulated.take() == []
    injector.take(commit(1))
    assert emulated.take() == ["kill switch", "cut worker1"]
    assert not injector.is_quiet
    clock.now += 1.5
    injector.tick()
    assert emulated.take() == ["restart switch"]
    injector.take(commit(2))
    clock.now += 1.5
    injector.tick()
    assert emulated.take() == ["mend worker1"]
    assert injector.is_quiet
    clock.now += 0.5
    injector.take(commit(3))
    assert [each.record() for each in injector.injected][1] == {
        "action": "kill",
        "target": "switch",
        "round": 2,
        "phase": None,
        "at_s": 1.0,
        "ended_s": 2.5,
        "next_commit_s": 1.5,
        "recovery_s": 3.5,
    }


def test_a_fault_in_a_phase_happens_while_its_process_waits() -> None:
    """The process is let go afterwards, and at every further time that it waits there."""
    emulated = Recorded()
    injector = Injector(FaultPlan.parse("kill=switch@r1:drain").faults, emulated, Clock())
    injector.begin()
    injector.take(commit(0))
    assert emulated.take() == []
    hold = Event("server", "hold", {"round": 1, "phase": "drain"})
    injector.take(hold)
    assert emulated.take() == ["kill switch", "release server"]
    injector.take(hold)
    assert emulated.take() == ["release server"]


def test_what_is_dead_stays_dead() -> None:
    """Nothing is started again."""
    clock, emulated = Clock(), Recorded()
    injector = Injector(FaultPlan.parse("dead=switch@r0").faults, emulated, clock)
    injector.begin()
    clock.now += 1000.0
    injector.tick()
    assert emulated.take() == ["kill switch"]
    assert injector.is_quiet


def test_what_two_faults_take_comes_back_with_the_last() -> None:
    """A second kill of what is down takes longer; what is dead for good is never started."""
    clock, emulated = Clock(), Recorded()
    text = "kill=server@r0+3s,kill=server@r0+1s,cut=server@r0+2s,dead=switch@r0,kill=switch@r0+1s"
    injector = Injector(FaultPlan.parse(text).faults, emulated, clock)
    injector.begin()
    assert emulated.take() == ["kill server", "cut server", "kill switch"]
    told = []
    for _ in range(3):
        clock.now += 1.0
        injector.tick()
        told.append(emulated.take())
    assert told == [[], ["mend server"], ["restart server"]]
    assert [each.ended_s for each in injector.injected] == [3.0, 1.0, 2.0, None, 1.0]


def test_rounds_that_are_computed_again_belong_to_the_recovery() -> None:
    """A server that goes back to its checkpoint has recovered when it is ahead of where it was."""
    training = Training("kill=server@r5:update")
    training.pass_(0, *map(commit, range(5)))
    training.injector.take(Event("server", "hold", {"round": 5, "phase": "update"}))
    training.pass_(2.0, said("server", "ready", 3))
    assert training.pass_(1.0, commit(3), commit(4), commit(5)) == [None]
    assert training.pass_(1.0, commit(6)) == [4.0]


def test_a_commit_that_a_worker_heard_of_first_is_no_recovery() -> None:
    """The worker waits in its round before the runner has read of the commit before it."""
    training = Training("kill=switch@r1:compute")
    training.injector.take(Event("worker1", "hold", {"round": 1, "phase": "compute"}))
    assert training.pass_(1.0, commit(0), commit(1)) == [None]
    assert training.pass_(1.0, commit(2)) == [2.0]


def test_a_controller_has_to_serve_again() -> None:
    """Rounds go on without it; the run waits until it is there."""
    training = Training("kill=controller@r0")
    assert training.pass_(0.5, commit(0), commit(1)) == [None]
    training.pass_(0.5)
    assert not training.injector.is_quiet
    assert training.pass_(1.0, said("controller", "ready")) == [2.0]
    assert training.injector.is_quiet


def test_a_worker_has_to_make_a_step_out_of_step() -> None:
    """Others close rounds without it, and two rounds are open at a time."""
    training = Training("kill=worker2@r0", open_rounds=2)
    training.pass_(1.0, commit(0), commit(1), commit(2), said("worker1", "round"))
    assert training.recoveries == [None]
    assert training.pass_(1.0, said("worker2", "ready"), commit(3)) == [None]
    assert training.pass_(1.0, said("worker2", "round", 1)) == [3.0]
    cut = Training("cut=worker1@r0", open_rounds=2)
    assert cut.pass_(1.0, said("worker1", "round"), commit(0), commit(1)) == [None]
    assert cut.pass_(1.0, commit(2)) == [2.0]


def test_the_end_of_the_training_ends_the_last_recoveries() -> None:
    """Behind the last round none begins; a switch that is dead for good is recovered from too."""
    training = Training("kill=switch@r0,dead=switch@r1,kill=worker1@r1")
    training.pass_(1.0, commit(0))
    training.pass_(1.0, commit(1), said("worker1", "done"))
    assert training.recoveries == [2.0, None, None]
    training.injector.end()
    assert training.recoveries == [2.0, 1.0, 1.0]


def test_a_fault_whose_point_never_comes_is_missed() -> None:
    """It is told apart from those that happened."""
    training = Training("kill=switch@r1,kill=worker1@r1:push,cut=server@r9")
    training.pass_(0, commit(0), commit(1))
    assert [str(fault) for fault in training.injector.missed] == [
        "kill=worker1@r1:push",
        "cut=server@r9",
    ]


def test_who_has_done_all_of_its_work_cannot_die() -> None:
    """A fast training may be over before its last rounds are heard of."""
    training = Training("kill=worker1@r1,kill=worker2@r1")
    training.emulated.ended.add("worker1")
    training.pass_(0.0, commit(0))
    assert training.emulated.take() == ["kill worker2"]
    assert [str(fault) for fault in training.injector.missed] == ["kill=worker1@r1"]
    training.pass_(2.0)
    assert training.emulated.take() == ["restart worker2"]


def test_a_server_that_dies_as_it_tells_of_a_commit_opens_the_round_when_it_is_back() -> None:
    """Its checkpoint has the round, and nobody hears of the commit."""
    training = Training("kill=server@r1:compute,kill=switch@r1")
    training.injector.take(Event("worker1", "hold", {"round": 1, "phase": "compute"}))
    training.pass_(1.0, said("server", "ready", 1))
    assert training.emulated.take() == [
        "kill server",
        "release worker1",
        "restart server",
        "kill switch",
    ]
    assert training.injector.missed == ()


def test_starting_is_no_part_of_being_away() -> None:
    """A switch is waited for until it is up: `ended_s` is when it was started."""
    clock = Clock()

    class Slow(Recorded):
        def restart(self, name: str) -> None:
            """Take a while."""
            super().restart(name)
            clock.now += 5.0

    injector = Injector(FaultPlan.parse("kill=switch@r0").faults, Slow(), clock)
    injector.begin()
    clock.now += 1.0
    injector.tick()
    injector.take(commit(0))
    injector.take(commit(1))
    record = injector.injected[0].record()
    assert (record["ended_s"], record["recovery_s"]) == (1.0, 6.0)
