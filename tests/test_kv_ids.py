"""Node ids and groups."""

import pytest

from host_stack.kv.errors import KVUsageError
from host_stack.kv.ids import Role, describe, members, node_id, rank_of, role_of


@pytest.mark.parametrize("role", Role)
def test_ids_and_ranks_are_inverse(role: Role) -> None:
    """An id gives back its role and rank."""
    for rank in range(1 if role is Role.SCHEDULER else 200):
        identifier = node_id(role, rank)
        assert role_of(identifier) is role
        assert rank_of(identifier) == rank


def test_groups_are_sums_of_roles() -> None:
    """Each of the seven groups has the members of its bits."""
    assert members(1, 2, 1) == (1,)
    assert members(2, 2, 1) == (8,)
    assert members(4, 2, 1) == (9, 11)
    assert members(7, 2, 1) == (9, 11, 8, 1)
    assert members(11, 2, 1) == (11,)


@pytest.mark.parametrize("target", [0, -1, 10, 13])
def test_targets_outside_of_the_job_are_refused(target: int) -> None:
    """Neither a group nor a node of the job."""
    with pytest.raises(KVUsageError, match="1 servers and 2 workers"):
        members(target, 2, 1)


def test_nodes_are_described_for_people() -> None:
    """Errors name role and rank."""
    assert [describe(i) for i in (1, 8, 13)] == [
        "scheduler (id 1)",
        "server 0 (id 8)",
        "worker 2 (id 13)",
    ]
    with pytest.raises(KVUsageError):
        describe(5)
