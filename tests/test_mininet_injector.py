"""When faults happen, and what is told of them."""

from __future__ import annotations

from mininet_topos.faults import FaultPlan
from mininet_topos.injector import Injector
from mininet_topos.processes import Event


class Recorded:
    """Notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def kill(self, name: str) -> None:
        """Note it."""
        self.done.append(f"kill {name}")

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


def test_faults_happen_when_their_round_begins() -> None:
    """Two at once, each ended after its time; recovered at the next commit."""
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
    assert [each.record() for each in injector.injected][1] == {
        "action": "kill",
        "target": "switch",
        "round": 2,
        "phase": None,
        "at_s": 1.0,
        "ended_s": 2.5,
        "recovery_s": 1.5,
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
