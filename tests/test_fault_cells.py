"""What the fault matrix covers."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from mininet_topos.faults import FaultPlan
from tests.fault_cells import (
    BMV2,
    CUT,
    EMBEDDED,
    LINKS,
    MIXED,
    NO_SWITCH,
    PAIRS,
    POINTS,
    RULES,
    VICTIMS,
    WORKERS,
    Cell,
    all_cells,
    at_once,
    lost_for_good,
    one_after_the_other,
    out_of_step,
)

EVERYTHING = [*all_cells(), *lost_for_good()]


def happens(cell: Cell) -> list[tuple[str, str, str]]:
    """(action, target, phase) of what a cell does to the job in its round."""
    faults = FaultPlan.parse(cell.fault).faults
    return [(each.action, each.target, each.phase or "") for each in faults if each.round == 2]


def test_each_cell_has_a_name_and_can_run() -> None:
    """No two have the same, and `libra run` takes the faults."""
    assert len({cell.id for cell in EVERYTHING}) == len(EVERYTHING)
    for cell in EVERYTHING:
        plan = FaultPlan.parse(cell.fault)
        target = "bmv2" if cell.way == BMV2 else "soft"
        plan.check(workers=cell.workers, rounds=4, target=target, backup=True)


@pytest.mark.parametrize("way", [EMBEDDED, BMV2, NO_SWITCH])
def test_each_victim_dies_in_each_phase_with_each_number_of_workers(way: str) -> None:
    """Through every target."""
    alone = [(cell.workers, *happens(cell)) for cell in all_cells() if cell.way == way]
    for workers, who, at in product(WORKERS, VICTIMS, POINTS):
        assert (workers, ("kill", who, at)) in alone


@pytest.mark.parametrize("way", [EMBEDDED, NO_SWITCH])
def test_links_have_each_fault_with_each_number_of_workers(way: str) -> None:
    """Bmv2 makes none of them."""
    for workers, (name, fault) in product(WORKERS, LINKS.items()):
        assert Cell(way, workers, name, fault) in all_cells()


def test_each_pair_dies_at_once_in_each_phase() -> None:
    """And every pair, and every phase, meets every target and every number of workers."""
    cells = [(cell, happens(cell)) for cell in at_once()]
    embedded = [did for cell, did in cells if cell.way == EMBEDDED]
    for (one, other), at in product(PAIRS, POINTS):
        assert [("kill", one, at), ("kill", other, at)] in embedded
    for way, workers, pair in product((EMBEDDED, BMV2, NO_SWITCH), WORKERS, PAIRS):
        of_pair = [c for c, did in cells if (did[0][1], did[1][1]) == pair]
        assert any(cell.way == way for cell in of_pair)
        assert any(cell.workers == workers for cell in of_pair)
    for way, workers, at in product((EMBEDDED, BMV2, NO_SWITCH), WORKERS, POINTS):
        in_phase = [c for c, did in cells if did[0][2] == at]
        assert any(cell.way == way for cell in in_phase)
        assert any(cell.workers == workers for cell in in_phase)


def test_two_die_in_each_two_phases_of_a_round() -> None:
    """All orders of two phases, all pairs, all numbers of workers."""
    cells = [(cell, happens(cell)) for cell in one_after_the_other()]
    assert {(did[0][2], did[1][2]) for _, did in cells} == set(permutations(POINTS, 2))
    assert {frozenset((did[0][1], did[1][1])) for _, did in cells} == set(map(frozenset, PAIRS))
    assert {cell.workers for cell, _ in cells} == set(WORKERS)


def test_cuts_and_a_lost_switch_come_in_each_phase() -> None:
    """Each link that can be cut; a switch that stays dead."""
    did = [fault for cell in EVERYTHING for fault in happens(cell)]
    for who, at in product(CUT, POINTS):
        assert ("cut", who, at) in did
    for at in POINTS:
        assert ("dead", "switch", at) in did


def test_each_rule_of_consistency_meets_each_kind_of_links() -> None:
    """Through the embedded switch; every rule meets every target and number of workers."""
    cells = out_of_step()
    for rule in RULES:
        of_rule = [cell for of, cell in cells if of == rule]
        assert {cell.workers for cell in of_rule} == set(WORKERS)
        assert {cell.way for cell in of_rule} == {EMBEDDED, BMV2, NO_SWITCH}
        embedded = [cell.fault for cell in of_rule if cell.way == EMBEDDED]
        for links in (LINKS["loss5"], LINKS["reordering"], LINKS["spikes"], MIXED):
            assert any(fault.startswith(links) for fault in embedded)


@pytest.mark.parametrize("cell", [cell for _, cell in out_of_step()], ids=lambda cell: cell.id)
def test_all_four_die_once_out_of_step(cell: Cell) -> None:
    """And `libra run` takes the faults."""
    plan = FaultPlan.parse(cell.fault)
    plan.check(
        workers=cell.workers, rounds=12, target="bmv2" if cell.way == BMV2 else "soft", backup=False
    )
    assert {fault.target for fault in plan.faults} == set(VICTIMS)
