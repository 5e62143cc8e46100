"""`KVWorker` of a job: hot keys travel through the switch, and the program does not change."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from host_stack.connect import connected
from host_stack.errors import BadInput, LibraError, Rewound
from host_stack.fixedpoint import FloatArray
from host_stack.kv.config import KVConfig
from host_stack.kv.errors import KVUsageError
from host_stack.kv.message import Array, KeyArray, KVPairs, LenArray, flat, require_array
from host_stack.kv.node import Node
from host_stack.kv.ranges import check_keys
from host_stack.kv.requests import Callback
from host_stack.kv.worker import KVWorker
from host_stack.placement import Keys
from host_stack.sharded import JobWorker
from host_stack.shards import Shards
from host_stack.stepping import Stepping
from host_stack.worker import NOTHING


@dataclass(frozen=True)
class _Request:
    """A push (with values), a pull, or both in this order."""

    timestamp: int
    keys: KeyArray
    vals: FloatArray | None
    pulls: bool
    vals_out: Array | None
    callback: Callback | None


class HotKVWorker:
    """The calls of `KVWorker`, for a worker of a job under BSP.

    What was pushed since the last round makes one step when it is first waited for, or pulled
    behind; `wait` returns when the server has committed that round. Every worker of the job has
    to make as many steps, or to have ended; workers that speak ps-lite alone need not.
    A key has one float32 value. Arrays must stay unchanged until their request is complete.
    """

    def __init__(self, worker: JobWorker) -> None:
        """Of a worker that is not started."""
        self._stepping = Stepping(worker)
        self._queue: deque[_Request] = deque()
        self._results: dict[int, KVPairs] = {}
        self._next = 0
        self._here: Keys = NOTHING
        self._failure: LibraError | None = None
        self._has_ended = False

    @property
    def node(self) -> Node:
        """The ps-lite node, as that of `KVWorker`: for `barrier`, `rank` and the like.

        Of a job with several servers it is that of the first range of keys; all workers of the
        job meet at its barriers. It receives in the calling thread.
        """
        return self._stepping.worker.shards[0].node

    def start(self) -> int:
        """Join the job; return the step to begin with.

        Raises:
            PushFailed: the server does not answer.
        """
        return self._stepping.start()

    def push(
        self,
        keys: KeyArray,
        vals: Array,
        lens: LenArray | None = None,
        cmd: int = 0,
        callback: Callback | None = None,
        priority: int = 0,
    ) -> int:
        """Push float32[n] gradients at uint64[n] keys, sorted and unique; see `KVWorker.push`."""
        del cmd, priority  # a job has its own use for them
        return self._enter(keys, _values(keys, vals, lens), False, None, callback)

    def pull(
        self,
        keys: KeyArray,
        vals_out: Array | None = None,
        cmd: int = 0,
        callback: Callback | None = None,
        priority: int = 0,
    ) -> int:
        """Pull the values of uint64[n] keys after all pushes before it; see `KVWorker.pull`."""
        del cmd, priority
        return self._enter(keys, None, True, vals_out, callback)

    def push_pull(
        self,
        keys: KeyArray,
        vals: Array,
        vals_out: Array | None = None,
        lens: LenArray | None = None,
        cmd: int = 0,
        callback: Callback | None = None,
        priority: int = 0,
    ) -> int:
        """Push, and pull the result; see `push` and `pull`."""
        del cmd, priority
        return self._enter(keys, _values(keys, vals, lens), True, vals_out, callback)

    def wait(self, timestamp: int) -> KVPairs | None:
        """Carry out all requests up to this one; return a pull's values, once.

        Raises:
            Rewound: the server was restarted behind the last step.
            PushFailed: nothing moves any more, and nobody says why. The requests stay open, and
                the worker is of no more use: whatever is asked of it raises the same.
        """
        self._check_request(timestamp)
        while self._queue and self._queue[0].timestamp <= timestamp:
            self._advance()
        return self._results.pop(timestamp, None)

    def done(self, timestamp: int) -> bool:
        """Whether a request is complete; nothing is done before somebody waits."""
        self._check_request(timestamp)
        return not self._queue or timestamp < self._queue[0].timestamp

    def end(self) -> None:
        """Carry out what is left, and wait until no worker of the job has a step left.

        A worker that has pushed nothing makes an empty step, so that the others go on without it.
        Nothing can be asked for afterwards; a second call does nothing.

        Raises:
            Rewound, PushFailed: as `wait`.
        """
        if self._has_ended:
            return
        while self._queue:
            self._advance()
        if not self._stepping.step:
            self._stepping.push(NOTHING, np.zeros(0, np.float32), NOTHING)
        self._stepping.end()
        self._has_ended = True

    def _enter(
        self,
        keys: KeyArray,
        vals: FloatArray | None,
        pulls: bool,
        vals_out: Array | None,
        callback: Callback | None,
    ) -> int:
        if self._failure is not None:
            raise self._failure
        if self._has_ended:
            raise KVUsageError("this worker has ended: push and pull before end()")
        check_keys(keys)
        num_keys = len(self._stepping.worker.parameters)
        if keys.size and keys[-1] >= num_keys:
            raise KVUsageError(f"key {keys[-1]}: the keys of the job are 0 to {num_keys - 1}")
        if pulls and vals_out is not None:
            _check_out(keys, vals_out)
        self._queue.append(_Request(self._next, keys, vals, pulls, vals_out, callback))
        self._next += 1
        return self._next - 1

    def _check_request(self, timestamp: int) -> None:
        if not 0 <= timestamp < self._next:
            raise KVUsageError(f"no request has timestamp {timestamp}; {self._next} were made")

    def _advance(self) -> None:
        """Carry out the requests at the head of the queue that go together."""
        if self._failure is not None:
            raise self._failure
        requests = self._together()
        pushes = [request for request in requests if request.vals is not None]
        pull = requests[-1] if requests[-1].pulls else None
        try:
            self._carry_out(pushes, pull)
        except Rewound:
            self._forget(requests)
            raise
        except LibraError as error:
            self._failure = error
            raise
        self._forget(requests)
        for request in requests:
            if request.callback is not None:
                request.callback()

    def _together(self) -> list[_Request]:
        """The pushes at the head of the queue, up to the first that pulls, or the pull behind."""
        requests = []
        for request in self._queue:
            requests.append(request)
            if request.pulls:
                break
        return requests

    def _forget(self, requests: list[_Request]) -> None:
        for _ in requests:
            self._queue.popleft()

    def _carry_out(self, pushes: list[_Request], pull: _Request | None) -> None:
        if pushes:
            wanted = NOTHING if pull is None else pull.keys
            self._stepping.push(*_sum(pushes), wanted)
            self._here = wanted if self._stepping.worker.is_current else NOTHING
        if pull is not None:
            self._pull(pull)

    def _pull(self, pull: _Request) -> None:
        worker = self._stepping.worker
        if not (worker.is_current and self._here is pull.keys):
            self._stepping.fetch(pull.keys)
        values = worker.parameters[pull.keys.astype(np.int64)]
        if pull.vals_out is not None:
            pull.vals_out.reshape(-1)[:] = values
            values = pull.vals_out
        self._results[pull.timestamp] = KVPairs(pull.keys, values)
        self._here = NOTHING


@contextmanager
def kv_worker(environ: Mapping[str, str] | None = None) -> Iterator[KVWorker | HotKVWorker]:
    """The started worker that the environment describes; in the end it waits for all others.

    With LIBRA_JOB, the path of a job.json, it is the worker of that job with the address
    DMLC_NODE_HOST; without it, a plain one that the `DMLC_*` variables describe. LIBRA_MULTICAST=0
    is for several workers of a job on one host that has an address for each (see `connected`).

    Raises:
        BadInput: a variable is missing or has no such value, the job has no such worker, or
            another one has the UDP port.
        PushFailed: the job's server does not answer.
    """
    env = os.environ if environ is None else environ
    if env.get("DMLC_ROLE", "worker").lower() != "worker":
        raise BadInput(f"DMLC_ROLE = {env['DMLC_ROLE']!r:.40}: this program is a worker")
    if not env.get("LIBRA_JOB"):
        node = Node(KVConfig.from_env(env))
        try:
            node.start()
            yield KVWorker(node)
            node.finalize()
        finally:
            node.close()
        return
    multicast = _switched("LIBRA_MULTICAST", env)
    job = Shards.load(Path(env["LIBRA_JOB"]))
    rank = job.rank_of(_address(env))
    with connected(job, rank, multicast=multicast) as connection:
        worker = HotKVWorker(connection.worker)
        worker.start()
        yield worker
        worker.end()


def _address(environ: Mapping[str, str]) -> str:
    """The own address, by which a job knows its workers."""
    if not (address := environ.get("DMLC_NODE_HOST")):
        raise BadInput(
            "DMLC_NODE_HOST is not set: with LIBRA_JOB it says which worker of the job this is, by "
            "its address"
        )
    return address


def _switched(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a variable is 1, as it is where it is not set."""
    text = environ.get(name) or "1"
    if text not in ("0", "1"):
        raise BadInput(f"{name} = {text!r:.40}: allowed are 0 and 1")
    return text == "1"


def _values(keys: KeyArray, vals: Array, lens: LenArray | None) -> FloatArray:
    require_array("keys", keys)
    require_array("vals", vals)
    if lens is not None:
        require_array("lens", lens)
    values = flat(vals)
    if (
        values.dtype != np.float32
        or values.size != keys.size
        or (lens is not None and (lens != 1).any())
    ):
        raise KVUsageError(
            f"{values.size} values of {values.dtype} for {keys.size} keys: in a job every key has "
            "one float32; give a row of d values d keys"
        )
    return values


def _check_out(keys: KeyArray, vals_out: Array) -> None:
    require_array("vals_out", vals_out)
    fits = vals_out.dtype == np.float32 and vals_out.size == keys.size
    if not fits or not vals_out.flags.c_contiguous:
        raise KVUsageError(
            f"vals_out is {vals_out.dtype}{vals_out.shape}; contiguous float32, one for each of "
            f"{keys.size} keys, is needed"
        )


def _sum(pushes: list[_Request]) -> tuple[Keys, FloatArray]:
    """The pushes as one: each key once, its gradients added in their order."""
    values = [push.vals for push in pushes if push.vals is not None]
    if len(pushes) == 1:
        return pushes[0].keys, values[0]
    keys, at = np.unique(np.concatenate([push.keys for push in pushes]), return_inverse=True)
    sums = np.zeros(len(keys), np.float32)
    np.add.at(sums, at, np.concatenate(values))
    return keys, sums
