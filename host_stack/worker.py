"""A worker's side of a round: hot gradients through the switch, cold ones to the server."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import zmq

from host_stack.codec import Codec, Records, fill_header, overlay, version_op
from host_stack.control import HEAD_DONE, RoundRows
from host_stack.errors import PushFailed
from host_stack.fixedpoint import FloatArray, IntArray
from host_stack.job import Job
from host_stack.kv.ids import server_id
from host_stack.kv.node import Node
from host_stack.kv.worker import KVWorker
from host_stack.layout import make_tag
from host_stack.packing import Packing
from host_stack.placement import Keys, Placement
from host_stack.push import HotPush
from host_stack.transport import Received, Transport, ipv4
from host_stack.wire import Op

POLL_MS = 200
UPDATE_GRACE_S = 0.05
"""How long an UPDATE may be overtaken by the server's answer before its row is fetched."""


@dataclass(frozen=True)
class RoundTimes:
    """Seconds of a round's phases at one worker, and how its keys travelled.

    Attributes:
        push_s: until every gradient is acknowledged.
        commit_s: until the server has committed the round.
        update_s: until the parameters of the next round are here.
        hot_keys, cold_keys, packets: of this push.
        fetched_rows: rows whose UPDATE was missed.
    """

    push_s: float
    commit_s: float
    update_s: float
    hot_keys: int
    cold_keys: int
    packets: int
    fetched_rows: int


class Worker:
    """Pushes gradients and keeps the parameters that the next batch needs.

    `parameters` is float32[num_keys]; the hot keys are always current in it, of the cold ones
    those that were asked for with the last `finish_round`.
    """

    def __init__(
        self, job: Job, rank: int, placement: Placement, transport: Transport, node: Node
    ) -> None:
        """Attach to a ps-lite node; `rank` is the position of this host in `job.workers`."""
        job.worker_address(rank)  # refuses a rank that the job does not have
        self.parameters = np.zeros(job.num_keys, np.float32)
        self._job = job
        self._rank = rank
        self._placement = placement
        self._transport = transport
        self._node = node
        self._codec = Codec(job.layout)
        self._kv = KVWorker(node)
        self.hot = HotPush(transport, ipv4(job.server), job.layout.window)
        self._hot_keys = placement.keys.astype(np.int64)
        self._received_rows = np.zeros(placement.used_rows, np.bool_)
        self._update_tag = 0

    def start(self, first_keys: Keys) -> None:
        """Fetch all hot keys and the cold keys among uint64[n] `first_keys`; node is started."""
        hot, _ = self._placement.find(first_keys)
        wanted = np.union1d(self._placement.keys, first_keys[~hot])
        self._pull(wanted, 0)

    def push_round(
        self, round_: int, keys: Keys, gradients: FloatArray, next_keys: Keys
    ) -> RoundTimes:
        """Push one round and wait for its commit.

        Args:
            round_: number of the round, from 0.
            keys: uint64[n], sorted and unique.
            gradients: float32[n], any values.
            next_keys: uint64[m], sorted and unique: what the next batch needs.

        Raises:
            PushFailed: hot packets stay without an acknowledgement.
            KVTimeout: the server does not answer.
        """
        started = time.monotonic()
        tag = make_tag(self._job.epoch, round_)
        self._update_tag = tag
        self._received_rows[:] = False
        hot, index = self._placement.find(keys)
        cold = self._kv.push(keys[~hot], gradients[~hot], cmd=round_)
        packing = self._placement.pack(index)
        rows = self._push_hot(packing, gradients[hot], tag)
        self._kv.wait(cold, self._job.timeouts_s["push"])
        pushed = time.monotonic()
        changed, pull = self._finish(round_, rows, next_keys)
        committed = time.monotonic()
        fetched = self._complete_rows(changed, round_)
        if pull is not None:
            self._store(self._kv.wait(pull, self._job.timeouts_s["commit"]))
        return RoundTimes(
            pushed - started,
            committed - pushed,
            time.monotonic() - committed,
            len(index),
            len(keys) - len(index),
            packing.count,
            fetched,
        )

    def _push_hot(self, packing: Packing, gradients: FloatArray, tag: int) -> IntArray:
        """Push packed gradients; return the rows in which the switch now holds something."""
        if not packing.count:
            return np.zeros(0, np.int64)
        grads = self._codec.encode_grads(
            packing.packets, packing.lanes, packing.rows, gradients, packing.count
        )
        fill_header(grads["header"], Op.GRAD, job=self._job.job, worker=self._rank, tag=tag)
        by_server = self.hot.run(grads, self._job.timeouts_s["push"])
        return np.unique(packing.rows[~by_server[packing.packets]])

    def _finish(self, round_: int, rows: IntArray, next_keys: Keys) -> tuple[IntArray, int | None]:
        """Say DONE, ask for the next cold keys; return the changed rows and the pull to await."""
        body = RoundRows(round_, rows).encode(self._placement.used_rows)
        done = self._kv.request(HEAD_DONE, body, server_id(0))
        hot, _ = self._placement.find(next_keys)
        cold = next_keys[~hot]
        pull = self._kv.pull(cold, cmd=round_ + 1) if len(cold) else None
        self._await(done)
        answer = self._kv.wait(done, 0.0)[server_id(0)]
        return RoundRows.decode(answer.body, self._placement.used_rows).rows, pull

    def _await(self, timestamp: int) -> None:
        """Take UPDATEs until a request is answered."""
        poller = zmq.Poller()
        poller.register(self._node.socket, zmq.POLLIN)
        poller.register(self._transport.fileno(), zmq.POLLIN)
        deadline = time.monotonic() + self._job.timeouts_s["commit"]
        while not self._kv.done(timestamp):
            if time.monotonic() > deadline:
                raise PushFailed(
                    f"the server did not commit the round within "
                    f"{self._job.timeouts_s['commit']:g} s; another worker or the server is gone"
                )
            poller.poll(POLL_MS)
            self._node.process()
            self._receive_updates()
        self._receive_updates()

    def _receive_updates(self) -> None:
        received = self._transport.receive()
        while len(received):
            self._apply_updates(received)
            received = self._transport.receive()

    def _apply_updates(self, received: Received) -> None:
        records = overlay(received.data, self._codec.update)
        good = self._is_update(received, records)
        rows, lanes, values = self._codec.decode_updates(records[good])
        index = self._placement.index_of(lanes, rows)
        known = index >= 0
        self.parameters[self._hot_keys[index[known]]] = values[known]
        self._received_rows[rows[known]] = True

    def _is_update(self, received: Received, records: Records) -> np.ndarray:
        header = records["header"]
        good: np.ndarray = (
            (received.lengths >= self._codec.update_prefix)
            & (header["version_op"] == version_op(Op.UPDATE))
            & (header["job"] == self._job.job)
            & (header["tag"] == self._update_tag)
            & (received.sources == ipv4(self._job.server))
            & (received.lengths == self._codec.update_lengths(records))
        )
        return good

    def _complete_rows(self, changed: IntArray, round_: int) -> int:
        """Wait shortly for UPDATEs that are still on their way, then fetch what is missing."""
        deadline = time.monotonic() + UPDATE_GRACE_S
        poller = zmq.Poller()
        poller.register(self._transport.fileno(), zmq.POLLIN)
        missing = changed[~self._received_rows[changed]]
        while len(missing) and (left := deadline - time.monotonic()) > 0:
            poller.poll(int(left * 1000) + 1)
            self._receive_updates()
            missing = changed[~self._received_rows[changed]]
        if len(missing):
            in_missing = np.isin(self._placement.rows, missing)
            self._pull(np.sort(self._placement.keys[in_missing]), round_ + 1)
        return len(missing)

    def _pull(self, keys: Keys, committed_rounds: int) -> None:
        if len(keys):
            pull = self._kv.pull(keys, cmd=committed_rounds)
            self._store(self._kv.wait(pull, self._job.timeouts_s["commit"]))

    def _store(self, pairs: object) -> None:
        keys, values = pairs.keys, pairs.vals  # type: ignore[attr-defined]
        self.parameters[keys.astype(np.int64)] = values
