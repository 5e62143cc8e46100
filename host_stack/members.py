"""The workers of a job as its server knows them: the rank of a node, the process of a rank."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from host_stack.kv.app import SimpleRequest
from host_stack.kv.node import Node

NO_RANK = -1
"""Of a node that is no worker of the job."""


class Members:
    """Which process has each rank; one that takes another one's place waits for another epoch.

    A second process of a rank counts its packets from 1 again, which the switch would take for
    duplicates.
    """

    def __init__(self, addresses: Sequence[str], node: Node, resumed: Sequence[int] | None) -> None:
        """Of workers at `addresses`, by rank; `resumed`, by rank, are steps that are committed.

        A resumed job takes all processes for new ones.
        """
        self._addresses = addresses
        self._node = node
        self._processes = {} if resumed is None else dict.fromkeys(range(len(addresses)), 0)
        self._trained = {rank for rank, steps in enumerate(resumed or ()) if steps}
        self.rejoining: dict[int, SimpleRequest] = {}
        """JOINs that wait for another epoch, by rank."""

    @cached_property
    def _ranks(self) -> dict[int, int]:
        """ps-lite's node id of each worker, and its rank in the job (by address).

        Made when the first worker is heard, which may be before the server runs; the roster is
        there then.
        """
        by_address = {address: rank for rank, address in enumerate(self._addresses)}
        return {
            info.id: by_address[info.hostname]
            for info in self._node.roster
            if info.hostname in by_address
        }

    def rank_of(self, node_id: int) -> int:
        """The rank of a node, `NO_RANK` if it is no worker of the job."""
        return self._ranks.get(node_id, NO_RANK)

    def has_joined(self, rank: int) -> bool:
        """Whether a process of a rank has joined this process of the server, or one before it."""
        return bool(self._processes.get(rank)) or rank in self._trained

    def is_settled(self, rank: int, process: int) -> bool:
        """Whether a process has its rank: it is the first one, or needs no other epoch now."""
        is_known = self._processes.setdefault(rank, process) == process
        return is_known and rank not in self.rejoining

    def hold(self, rank: int, process: int, request: SimpleRequest) -> bool:
        """Let a process that is not settled wait; returns whether it is new here."""
        is_new = self._processes[rank] != process
        self._processes[rank] = process
        self.rejoining[rank] = request
        return is_new
