"""The scheduler's books."""

from dataclasses import replace

import pytest

from host_stack.kv.errors import KVProtocolError
from host_stack.kv.ids import Role
from host_stack.kv.roster import Barriers, Registration, check_roster
from host_stack.kv.wire import NodeInfo


def test_ranks_follow_hostname_descending_then_port_ascending() -> None:
    """The order is ps-lite's: strings of hostnames, so 10.0.0.9 is before 10.0.0.10."""
    registration = Registration(num_workers=3, num_servers=2)
    for role, host, port in (
        (Role.WORKER, "10.0.0.10", 5),
        (Role.SERVER, "10.0.0.1", 7),
        (Role.WORKER, "10.0.0.9", 6),
        (Role.SERVER, "10.0.0.1", 6),
        (Role.WORKER, "10.0.0.9", 5),
    ):
        assert not registration.complete
        registration.add(NodeInfo(role, host, port))
    assert registration.complete
    assert [(n.hostname, n.port, n.id) for n in registration.ranked()] == [
        ("10.0.0.9", 5, 9),
        ("10.0.0.9", 6, 11),
        ("10.0.0.10", 5, 13),
        ("10.0.0.1", 6, 8),
        ("10.0.0.1", 7, 10),
    ]


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (NodeInfo(Role.SCHEDULER, "h", 1), "only one"),
        (NodeInfo(Role.WORKER, "h", 1, id=9), "ids are given"),
        (NodeInfo(Role.WORKER, "first", 1), "already"),
        (NodeInfo(Role.WORKER, "h", 1), "one too many"),
        (NodeInfo(Role.SERVER, "h", 0), "port 0"),
        (NodeInfo(Role.SERVER, "h", 65536), "port 65536"),
        (NodeInfo(Role.SERVER, "", 1), "hostname"),
        (NodeInfo(Role.SERVER, "a b", 1), "hostname"),
        (NodeInfo(Role.SERVER, "a/../b", 1), "hostname"),
        (NodeInfo(Role.SERVER, "*", 1), "hostname"),
        (NodeInfo(Role.SERVER, "x" * 300, 1), "hostname"),
    ],
)
def test_registrations_without_a_place_are_refused(node: NodeInfo, words: str) -> None:
    """A refused node changes nothing."""
    registration = Registration(num_workers=1, num_servers=1)
    registration.add(NodeInfo(Role.WORKER, "first", 1))
    with pytest.raises(KVProtocolError, match=words):
        registration.add(node)
    assert registration.missing(Role.WORKER) == 0
    assert registration.missing(Role.SERVER) == 1


def test_barrier_opens_with_the_last_member_and_can_be_used_again() -> None:
    """Arrivals are counted by member."""
    barriers = Barriers(num_workers=2, num_servers=1)
    for _ in range(2):
        assert barriers.arrive(4, 9) == ()
        assert barriers.missing(4) == (11,)
        assert barriers.arrive(4, 11) == (9, 11)


@pytest.mark.parametrize(("group", "node"), [(4, 8), (4, 13), (0, 9), (8, 9), (-3, 9), (4, 9)])
def test_arrivals_that_do_not_count(group: int, node: int) -> None:
    """Strangers, unknown groups and second arrivals are refused."""
    barriers = Barriers(num_workers=2, num_servers=1)
    barriers.arrive(4, 9)
    with pytest.raises(KVProtocolError):
        barriers.arrive(group, node)
    assert barriers.missing(4) == (11,)


def test_roster_must_name_every_node_once() -> None:
    """A scheduler of another size is refused with both sizes named."""
    nodes = (
        NodeInfo(Role.WORKER, "h", 1, 9),
        NodeInfo(Role.SERVER, "h", 2, 8),
        NodeInfo(Role.SCHEDULER, "h", 3, 1),
    )
    check_roster(nodes, 1, 1)
    for bad in (nodes[:2], (*nodes, nodes[0])):
        with pytest.raises(KVProtocolError, match="1 workers and 1 servers"):
            check_roster(bad, 1, 1)


def test_customers_of_one_process_share_an_id() -> None:
    """Each counts as a worker; the ranks of the others stay unused, as in ps-lite."""
    registration = Registration(num_workers=3, num_servers=1)
    for node in (
        NodeInfo(Role.WORKER, "h", 2, customer_id=1),
        NodeInfo(Role.WORKER, "h", 2, customer_id=0),
        NodeInfo(Role.WORKER, "h", 3),
        NodeInfo(Role.SERVER, "h", 4),
    ):
        registration.add(node)
    ranked = registration.ranked()
    assert [(n.port, n.customer_id, n.id) for n in ranked] == [
        (2, 0, 9),
        (2, 1, 9),
        (3, 0, 13),
        (4, 0, 8),
    ]
    roster = (*ranked, NodeInfo(Role.SCHEDULER, "h", 1, 1))
    check_roster(roster, 3, 1)
    with pytest.raises(KVProtocolError):
        check_roster((replace(roster[0], port=9), *roster[1:]), 3, 1)
    barriers = Barriers(num_workers=3, num_servers=1)
    barriers.share(roster)
    assert barriers.arrive(4, 9) == ()
    assert barriers.arrive(4, 13) == ()
    assert barriers.missing(4) == (9,)
    assert barriers.arrive(4, 9) == (9, 13)
    with pytest.raises(KVProtocolError, match="node 11 is not a member"):
        barriers.arrive(4, 11)


def test_a_lost_node_is_replaced_from_any_host() -> None:
    """Where the host does not tell who comes back, the first of its role that is lost does."""
    roster = (
        NodeInfo(Role.WORKER, "h", 1, 9),
        NodeInfo(Role.WORKER, "h", 2, 11),
        NodeInfo(Role.SERVER, "s", 2, 8),
    )
    back = NodeInfo(Role.WORKER, "other", 5)
    registration = Registration(2, 1)
    for lost in ((), (8,)):
        with pytest.raises(KVProtocolError, match="could come back"):
            registration.replace(back, roster, lost)
    assert registration.replace(back, roster, (8, 11)).id == 11
    again = NodeInfo(Role.WORKER, "h", 5)
    assert registration.replace(again, roster, (11,)).id == 11
