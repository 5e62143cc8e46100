"""What `--fault` takes."""

from __future__ import annotations

import pytest

from mininet_topos.faults import Action, BadFault, Fault, FaultPlan
from mininet_topos.options import RunOptions
from softswitch.faults import LinkFaults


def test_all_kinds_of_faults_are_read() -> None:
    """Faults of links, and what happens at a point of a round, in the order of the text."""
    plan = FaultPlan.parse(
        "loss=0.05, seed=7,kill=switch@r10,kill=worker1@r5:push+2.5s,cut=w0@r4+2s,dead=switch@r9"
    )
    assert plan.links == LinkFaults(loss=0.05 / (1 + 0.95**0.5), seed=7)
    assert plan.faults == (
        Fault(Action.KILL, "switch", 10, None, 1.0),
        Fault(Action.KILL, "worker1", 5, "push", 2.5),
        Fault(Action.CUT, "worker1", 4, None, 2.0),
        Fault(Action.DEAD, "switch", 9, None, 1.0),
    )
    assert plan.holds() == {"worker1": ["5:push"]}


@pytest.mark.parametrize("chance", [0.0, 1e-12, 0.002, 0.05, 0.3, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("word", ["loss", "dup", "reorder", "spike"])
def test_probabilities_are_from_host_to_host(word: str, chance: float) -> None:
    """A packet passes two links: what is asked for happens on one of them or both."""
    links = FaultPlan.parse(f"{word}={chance!r},spike_delay=30ms,depth=7").links
    assert links is not None
    each = float(links.words().get(word, 0.0))
    assert 2 * each - each * each == pytest.approx(chance, rel=1e-12)
    assert (links.spike_delay_s, links.reorder_depth) == (0.03, 7)


def test_the_first_switch_has_one_name() -> None:
    """Whatever it is called in the text: two faults of one process are known as such."""
    star = RunOptions(
        backup_path=True, faults=FaultPlan.parse("kill=s1@r1,kill=switch@r1,dead=s1@r2")
    ).faults_of("libra")
    assert [fault.target for fault in star.faults] == ["switch"] * 3
    assert star.faults[0].as_given == "kill=s1@r1 (switch)"
    fabric = RunOptions(
        topology="leaf-spine", faults=FaultPlan.parse("kill=leaf1@r1,kill=leaf2@r1")
    ).faults_of("libra")
    assert [fault.target for fault in fabric.faults] == ["switch", "leaf2"]
    with pytest.raises(BadFault, match="allowed are switch, s1"):
        RunOptions(faults=FaultPlan.parse("kill=leaf1@r1"))


def test_nothing_is_no_fault() -> None:
    """An empty text is a run without faults."""
    assert not FaultPlan.parse("")
    assert FaultPlan.parse("loss=0.1")
    assert FaultPlan.parse("kill=server@r0")


def test_a_point_is_waited_at_by_whom_it_concerns() -> None:
    """Workers wait in their phases, the server in its own, whoever is to die."""
    plan = FaultPlan.parse(
        "kill=switch@r1:compute,kill=worker2@r1:push,kill=worker2@r2:drain,kill=server@r3:push"
    )
    assert plan.holds() == {
        "worker1": ["1:compute", "3:push"],
        "worker2": ["1:push"],
        "server": ["2:drain"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss", "WORD=VALUE"),
        (",", "nothing between two commas"),
        ("loss=0.1,,kill=switch@r1", "nothing between two commas"),
        ("kill=switch@r1,", "nothing between two commas"),
        ("kills=switch@r1", "known are loss"),
        ("loss=0.1,loss=0.2", "twice"),
        ("loss=2", "allowed is 0 to 1"),
        ("loss=x", "probability"),
        ("kill=switch", "@rROUND"),
        ("kill=switch@r1:sleep", "phases of a round are compute"),
        ("kill=switch@r1+2", "SECONDS"),
        ("kill=switch@r1+9999s", "600"),
        ("kill=switch@r1;reboot", "@rROUND"),
        ("dead=switch@r1+5s", "stays so"),
        ("kill=switch@r1_0", "@rROUND"),
        ("kill=switch@r٣", "@rROUND"),
        ("kill=worker٣@r1", "@rROUND"),
        ("kill=switch@r1+٢s", "@rROUND"),
        ("loss=0.0_5", "probability"),
        ("loss=0.٣", "probability"),
        ("seed=1_0", "whole number"),
        ("depth=٤", "whole number"),
        ("hold=1_0ms", "time with its unit"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, message: str) -> None:
    """The error names the item and what is allowed."""
    with pytest.raises(BadFault, match=message):
        FaultPlan.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kill=worker5@r1", "fault kill=worker5@r1: allowed are switch, s1, controller, server"),
        ("kill=w4@r1:push", r"fault kill=w4@r1:push \(worker5\): allowed are switch, s1"),
        ("cut=switch@r1", "allowed are server, worker1"),
        ("kill=switch@r60", "rounds are 0 to 59"),
        ("dead=switch@r1", "backup-path"),
        ("dead=server@r1", "only the switch"),
    ],
)
def test_what_a_run_cannot_have_is_refused(text: str, message: str) -> None:
    """Options are checked before anything starts."""
    with pytest.raises(BadFault, match=message):
        RunOptions(faults=FaultPlan.parse(text))


def test_bmv2_has_no_faults_of_links() -> None:
    """It cannot make them; its processes can die."""
    with pytest.raises(BadFault, match="--target soft"):
        RunOptions(target="bmv2", faults=FaultPlan.parse("loss=0.1"))
    RunOptions(target="bmv2", faults=FaultPlan.parse("kill=switch@r3"))


def test_the_baseline_has_no_faults() -> None:
    """Mode server-only is what the others are compared with, unless it is alone."""
    plan = FaultPlan.parse("loss=0.1")
    options = RunOptions(faults=plan)
    assert options.faults_of("libra") == plan
    assert not options.faults_of("server-only")
    assert RunOptions(faults=plan, modes=("server-only",)).faults_of("server-only") == plan


def test_points_that_may_never_come_are_known() -> None:
    """Out of step, rounds may be fewer than steps; phases of workers count steps."""
    plan = FaultPlan.parse("kill=switch@r9,kill=server@r9:drain,kill=worker1@r9:push")
    assert RunOptions(faults=plan).uncertain_faults == ()
    out_of_step = RunOptions(faults=plan, consistency="async:steps=3")
    assert out_of_step.uncertain_faults == plan.faults[:2]


def test_workers_with_pytorch_stop_in_no_phase() -> None:
    """A fault in one would never happen: it is refused, with what can be had."""
    with pytest.raises(BadFault, match="kill=switch@r1:push: workers with PyTorch stop in no"):
        RunOptions(framework="torch", faults=FaultPlan.parse("kill=switch@r1:push"))
