"""A node of `host_stack.kv` for `bench/kv.py`: the role that the environment names.

A server keeps what was pushed last and answers pulls with it. A worker reads lines "push N KIND"
and "pull N KIND" and writes the seconds of each; an empty line ends it. Of KIND "again" the keys
are an array that stays read-only and is used each time, of "new" one that was not seen before.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from host_stack.kv import KVConfig, KVMeta, KVPairs, KVServer, KVWorker, Node, Role
from host_stack.kv.message import Array
from host_stack.kv.scheduler import run_scheduler

LIFETIME_S = 3600.0


def serve(node: Node) -> None:
    """Answer until all nodes have finished."""
    last: list[Array] = [np.zeros(0, np.float32)]

    def handle(meta: KVMeta, pairs: KVPairs, server: KVServer) -> None:
        if meta.push:
            last[0] = pairs.vals
            server.response(meta)
        else:
            server.response(meta, KVPairs(pairs.keys, last[0][: len(pairs.keys)]))

    KVServer(node).set_request_handle(handle)
    node.start()


def work(node: Node) -> None:
    """Push and pull as told."""
    node.start()
    worker = KVWorker(node)
    keys, values = np.zeros(0, np.uint64), np.zeros(0, np.float32)
    print("ready", flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        direction, number, kind = line.split()
        if len(keys) != int(number):
            step = np.uint64((2**64 - 1) // int(number))
            keys = np.arange(int(number), dtype=np.uint64) * step
            keys.flags.writeable = False  # so that they are known
            values = (np.arange(int(number)) % 1000).astype(np.float32)
        given = keys if kind == "again" else keys.copy()
        started = time.perf_counter()
        if direction == "push":
            worker.wait(worker.push(given, values))
        else:
            worker.wait(worker.pull(given, values))
        print(time.perf_counter() - started, flush=True)


def main() -> None:
    """Be the node that the `DMLC_*` variables describe."""
    config = KVConfig.from_env()
    if config.role is Role.SCHEDULER:
        run_scheduler(config, LIFETIME_S)
        return
    node = Node(config, threaded=False)
    try:
        (serve if config.role is Role.SERVER else work)(node)
        node.finalize(LIFETIME_S)
    finally:
        node.close()


if __name__ == "__main__":
    main()
