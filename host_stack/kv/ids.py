"""Roles, node ids and groups of nodes, numbered as ps-lite numbers them."""

from enum import IntEnum

from host_stack.kv.errors import KVUsageError

SCHEDULER_ID = 1
SCHEDULER_GROUP = 1
SERVER_GROUP = 2
WORKER_GROUP = 4
ALL_GROUP = SCHEDULER_GROUP + SERVER_GROUP + WORKER_GROUP
"""Groups are sums of those of roles: of barriers, and of receivers of simple requests."""
FIRST_SERVER_ID = 8
FIRST_WORKER_ID = 9


class Role(IntEnum):
    """The role of a node, with its number on the wire."""

    SERVER = 0
    WORKER = 1
    SCHEDULER = 2


GROUP_OF_ROLE = {
    Role.SCHEDULER: SCHEDULER_GROUP,
    Role.SERVER: SERVER_GROUP,
    Role.WORKER: WORKER_GROUP,
}


def server_id(rank: int) -> int:
    """Node id of the server with this rank."""
    return FIRST_SERVER_ID + 2 * rank


def worker_id(rank: int) -> int:
    """Node id of the worker with this rank."""
    return FIRST_WORKER_ID + 2 * rank


def node_id(role: Role, rank: int) -> int:
    """Node id of the `rank`-th node of a role."""
    if role is Role.SCHEDULER:
        return SCHEDULER_ID
    return server_id(rank) if role is Role.SERVER else worker_id(rank)


def rank_of(identifier: int) -> int:
    """Rank of a node within its role (0 for the scheduler)."""
    return max(identifier - FIRST_SERVER_ID, 0) // 2


def role_of(identifier: int) -> Role:
    """Role of the node with this id."""
    if identifier == SCHEDULER_ID:
        return Role.SCHEDULER
    if identifier < FIRST_SERVER_ID:
        raise KVUsageError(
            f"{identifier} is not a node id: the scheduler is {SCHEDULER_ID}, servers are "
            f"{FIRST_SERVER_ID} + 2·rank, workers {FIRST_WORKER_ID} + 2·rank"
        )
    return Role.SERVER if identifier % 2 == 0 else Role.WORKER


def describe(identifier: int) -> str:
    """Name of a node for messages to people, such as `server 0 (id 8)`."""
    role = role_of(identifier)
    if role is Role.SCHEDULER:
        return f"scheduler (id {identifier})"
    return f"{role.name.lower()} {rank_of(identifier)} (id {identifier})"


def members(target: int, num_workers: int, num_servers: int) -> tuple[int, ...]:
    """Node ids behind a target, which is a group (1 to 7) or the id of one node.

    Workers come first, then servers, then the scheduler. Raises KVUsageError for a target
    that no node of this job answers to.
    """
    workers = tuple(map(worker_id, range(num_workers)))
    servers = tuple(map(server_id, range(num_servers)))
    if SCHEDULER_GROUP <= target <= ALL_GROUP:
        return (
            (workers if target & WORKER_GROUP else ())
            + (servers if target & SERVER_GROUP else ())
            + ((SCHEDULER_ID,) if target & SCHEDULER_GROUP else ())
        )
    if target in workers or target in servers:
        return (target,)
    raise KVUsageError(
        f"{target} is neither a group (1 to 7) nor the id of one of the job's {num_servers} "
        f"servers and {num_workers} workers"
    )
