"""The scheduler's books: who has registered under which id, and who has reached a barrier."""

import re
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
        self._nodes: dict[tuple[str, int], NodeInfo] = {}

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
        if (node.hostname, node.port) in self._nodes:
            raise KVProtocolError(f"{where} has registered already")
        if not self.missing(node.role):
            raise KVProtocolError(
                f"{where} is one too many: the job has {self._expected[node.role]} of its role"
            )
        self._nodes[node.hostname, node.port] = node

    def replace(self, node: NodeInfo, roster: tuple[NodeInfo, ...]) -> NodeInfo:
        """Who of a complete roster comes back as `node`, with the new address.

        A process that was restarted is known by its role and host. Raises KVProtocolError unless
        that names one node.
        """
        check_address(node)
        same = [n for n in roster if (n.role, n.hostname) == (node.role, node.hostname)]
        if node.role not in self._expected or node.id != EMPTY or len(same) != 1:
            raise KVProtocolError(
                f"{node.role.name.lower()} {node.hostname}:{node.port} is not one of the job's "
                "nodes that could come back: the job is complete"
            )
        return replace(node, id=same[0].id, is_recovery=True)

    def ranked(self) -> tuple[NodeInfo, ...]:
        """All nodes with their ids: by hostname descending, then port ascending, as ps-lite."""
        by_port = sorted(self._nodes.values(), key=lambda node: node.port)
        ordered = sorted(by_port, key=lambda node: node.hostname.encode(), reverse=True)
        next_rank = dict.fromkeys(self._expected, 0)
        ranked = []
        for node in ordered:
            ranked.append(replace(node, id=node_id(node.role, next_rank[node.role])))
            next_rank[node.role] += 1
        return tuple(ranked)


def check_roster(nodes: tuple[NodeInfo, ...], num_workers: int, num_servers: int) -> None:
    """Refuse a roster that does not name every node of the job exactly once."""
    expected = sorted(members(7, num_workers, num_servers))
    if sorted(node.id for node in nodes) != expected:
        raise KVProtocolError(
            f"the scheduler's roster has ids {sorted(node.id for node in nodes)}, this node "
            f"expects {expected}: do all nodes agree on {num_workers} workers and {num_servers} "
            "servers?"
        )
    for node in nodes:
        check_address(node)


class Barriers:
    """Counts the members of each group that have arrived."""

    def __init__(self, num_workers: int, num_servers: int) -> None:
        """Know the members of all seven groups."""
        self._members = {group: members(group, num_workers, num_servers) for group in range(1, 8)}
        self._arrived: dict[int, set[int]] = {group: set() for group in self._members}

    def arrive(self, group: int, node: int) -> tuple[int, ...]:
        """Note an arrival; return all members if it was the last one, else nothing.

        Raises KVProtocolError for an unknown group, a stranger, or a second arrival.
        """
        if node not in self._members.get(group, ()):
            raise KVProtocolError(f"node {node} is not a member of barrier group {group}")
        if node in self._arrived[group]:
            raise KVProtocolError(f"node {node} has already arrived at barrier group {group}")
        self._arrived[group].add(node)
        if len(self._arrived[group]) < len(self._members[group]):
            return ()
        self._arrived[group].clear()
        return self._members[group]

    def missing(self, group: int) -> tuple[int, ...]:
        """Members of a group that have not arrived."""
        return tuple(node for node in self._members[group] if node not in self._arrived[group])
