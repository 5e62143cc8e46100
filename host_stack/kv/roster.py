"""The scheduler's books: who has registered under which id, and who has reached a barrier."""

import re
from collections import Counter
from collections.abc import Container
from dataclasses import replace

from host_stack.kv.errors import KVProtocolError
from host_stack.kv.ids import Role, members, node_id
from host_stack.kv.wire import EMPTY, NodeInfo

_HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})")


def check_address(node: NodeInfo) -> None:
    """Refuse a node whose hostname or port cannot be an address."""
    if not _HOSTNAME.fullmatch(node.hostname):
        raise KVProtocolError(f"hostname {node.hostname!r} is not a name or an IPv4 address")
    if not 1 <= node.port <= 65535:
        raise KVProtocolError(f"port {node.port} of {node.hostname} is outside of 1 to 65535")


class Registration:
    """Collects nodes until all have come, then ranks them."""

    def __init__(self, num_workers: int, num_servers: int) -> None:
        """Expect this many nodes of each role."""
        self._expected = {Role.WORKER: num_workers, Role.SERVER: num_servers}
        self._nodes: dict[tuple[str, int, int], NodeInfo] = {}

    def missing(self, role: Role) -> int:
        """How many nodes of a role have not come yet."""
        return self._expected[role] - sum(node.role is role for node in self._nodes.values())

    @property
    def complete(self) -> bool:
        """Whether all nodes have come."""
        return not any(map(self.missing, self._expected))

    def add(self, node: NodeInfo) -> None:
        """Enter a node; raises KVProtocolError for one that has no place in this job."""
        check_address(node)
        where = f"{node.role.name.lower()} {node.hostname}:{node.port}"
        if node.role not in self._expected:
            raise KVProtocolError(f"{where} registers at the scheduler; only one is allowed")
        if node.id != EMPTY:
            raise KVProtocolError(f"{where} registers with id {node.id}; ids are given here")
        same = [n for n in self._nodes.values() if _address(n) == _address(node)]
        if any((n.role, n.customer_id) != (node.role, n.customer_id) for n in same) or (
            node.customer_id in {n.customer_id for n in same}
        ):
            raise KVProtocolError(f"{where} has registered already, as customer {node.customer_id}")
        if not self.missing(node.role):
            raise KVProtocolError(
                f"{where} is one too many: the job has {self._expected[node.role]} of its role"
            )
        self._nodes[*_address(node), node.customer_id] = node

    def replace(
        self, node: NodeInfo, roster: tuple[NodeInfo, ...], lost: Container[int] = ()
    ) -> NodeInfo:
        """Who of a complete roster comes back as `node`, with the new address.

        A process that was restarted is known by its role and host or, where that names none, takes
        the place of the first of its role that is `lost`. Raises KVProtocolError unless that names
        one node.
        """
        check_address(node)
        same = [n for n in roster if (n.role, n.hostname) == (node.role, node.hostname)]
        if len(same) != 1:
            same = [n for n in same or roster if n.role is node.role and n.id in lost][:1]
        if node.role not in self._expected or node.id != EMPTY or len(same) != 1:
            raise KVProtocolError(
                f"{node.role.name.lower()} {node.hostname}:{node.port} is not one of the job's "
                "nodes that could come back: the job is complete"
            )
        return replace(node, id=same[0].id, is_recovery=True)

    def ranked(self) -> tuple[NodeInfo, ...]:
        """All nodes with their ids: by hostname descending, then port ascending, as ps-lite.

        Customers of one process share the id of the first of them; the others' ranks stay unused.
        """
        by_port = sorted(self._nodes.values(), key=lambda node: (node.port, node.customer_id))
        ordered = sorted(by_port, key=lambda node: node.hostname.encode(), reverse=True)
        next_rank = dict.fromkeys(self._expected, 0)
        ranked = []
        id_at: dict[tuple[str, int], int] = {}
        for node in ordered:
            own = node_id(node.role, next_rank[node.role])
            ranked.append(replace(node, id=id_at.setdefault(_address(node), own)))
            next_rank[node.role] += 1
        return tuple(ranked)


def _address(node: NodeInfo) -> tuple[str, int]:
    return node.hostname, node.port


def check_roster(nodes: tuple[NodeInfo, ...], num_workers: int, num_servers: int) -> None:
    """Refuse a roster that does not name every node of the job exactly once.

    Customers of one process are named once each, with one id and address.
    """
    expected = sorted(members(7, num_workers, num_servers))
    addresses = {(node.id, _address(node)) for node in nodes}
    by_role = Counter(node.role for node in nodes)
    if (
        (by_role[Role.WORKER], by_role[Role.SERVER]) != (num_workers, num_servers)
        or by_role[Role.SCHEDULER] != 1
        or not {node.id for node in nodes} <= set(expected)
        or len(addresses) != len({identifier for identifier, _ in addresses})
        or len(addresses) != len({address for _, address in addresses})
    ):
        raise KVProtocolError(
            f"the scheduler's roster has ids {sorted(node.id for node in nodes)}, this node "
            f"expects {expected}: do all nodes agree on {num_workers} workers and {num_servers} "
            "servers?"
        )
    for node in nodes:
        check_address(node)


class Barriers:
    """Counts the members of each group that have arrived.

    A node of several customers arrives as often, and is told once.
    """

    def __init__(self, num_workers: int, num_servers: int) -> None:
        """Know the members of all seven groups."""
        groups = {group: members(group, num_workers, num_servers) for group in range(1, 8)}
        self._members = {group: Counter(nodes) for group, nodes in groups.items()}
        self._arrived: dict[int, Counter[int]] = {group: Counter() for group in self._members}

    def share(self, nodes: tuple[NodeInfo, ...]) -> None:
        """Learn from the roster which processes have several customers."""
        present = Counter(node.id for node in nodes)
        for group, known in self._members.items():
            self._members[group] = Counter({n: present[n] for n in known if present[n]})

    def arrive(self, group: int, node: int) -> tuple[int, ...]:
        """Note an arrival; return all members if it was the last one, else nothing.

        Raises KVProtocolError for an unknown group, a stranger, or a second arrival.
        """
        if node not in self._members.get(group, ()):
            raise KVProtocolError(f"node {node} is not a member of barrier group {group}")
        if self._arrived[group][node] == self._members[group][node]:
            raise KVProtocolError(f"node {node} has already arrived at barrier group {group}")
        self._arrived[group][node] += 1
        if self._arrived[group] != self._members[group]:
            return ()
        self._arrived[group].clear()
        return tuple(self._members[group])

    def missing(self, group: int) -> tuple[int, ...]:
        """Members of a group that have not arrived."""
        return tuple(self._members[group] - self._arrived[group])
