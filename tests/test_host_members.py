"""Which process has which rank of a job, as its server knows it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from host_stack.kv.app import SimpleRequest
from host_stack.kv.node import Node
from host_stack.members import NO_RANK, Members

REQUEST = cast(SimpleRequest, object())


def members(resumed: Sequence[int] | None = None) -> Members:
    """Of two workers, in a roster with the server and a stranger."""
    roster: list[Any] = [
        SimpleNamespace(id=8, hostname="10.0.0.1"),
        SimpleNamespace(id=9, hostname="10.0.0.3"),
        SimpleNamespace(id=11, hostname="10.0.0.2"),
        SimpleNamespace(id=13, hostname="10.0.0.9"),
    ]
    node = cast(Node, SimpleNamespace(roster=roster))
    return Members(["10.0.0.2", "10.0.0.3"], node, resumed)


@pytest.mark.parametrize(("node", "rank"), [(11, 0), (9, 1), (8, NO_RANK), (13, NO_RANK)])
def test_a_rank_is_that_of_an_address(node: int, rank: int) -> None:
    """Whatever number the scheduler has given to the node."""
    assert members().rank_of(node) == rank


def test_a_first_process_has_its_rank_at_once() -> None:
    """And keeps it, however often it asks."""
    found = members()
    assert not found.has_joined(0)
    assert found.is_settled(0, 77)
    assert found.is_settled(0, 77)
    assert found.has_joined(0)
    assert not found.has_joined(1)
    assert not found.has_joined(NO_RANK)


def test_another_process_waits_for_another_epoch() -> None:
    """New only once; settled when those that wait were told of the epoch."""
    found = members()
    assert found.is_settled(0, 77)
    assert not found.is_settled(0, 78)
    assert found.hold(0, 78, REQUEST)
    assert not found.is_settled(0, 78)
    assert not found.hold(0, 78, REQUEST)
    assert found.rejoining == {0: REQUEST}
    found.rejoining.clear()
    assert found.is_settled(0, 78)


def test_a_resumed_job_takes_every_process_for_a_new_one() -> None:
    """The server before this one knew others, perhaps."""
    found = members(resumed=[3, 0])
    assert found.has_joined(0)  # a process of its
    assert not found.has_joined(1)
    assert not found.is_settled(1, 77)
    assert found.hold(1, 77, REQUEST)
    assert found.has_joined(1)
