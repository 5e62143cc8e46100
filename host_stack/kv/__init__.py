"""The cold path: ps-lite's key-value model over ZeroMQ, in ps-lite's own frames.

A worker:

    node = Node(KVConfig.from_env())
    node.start()
    worker = KVWorker(node)
    worker.wait(worker.push(keys, gradients))
    worker.wait(worker.pull(keys, weights))
    node.finalize()

A server sets `KVServer(node).set_request_handle(handle)` and calls `node.finalize`, which
returns when all nodes have called it. The scheduler is `python -m host_stack.kv.scheduler`.
"""

from host_stack.kv.app import SimpleApp, SimpleRequest, SimpleResponse
from host_stack.kv.config import KVConfig
from host_stack.kv.errors import (
    KVConfigError,
    KVConnectError,
    KVError,
    KVHandlerError,
    KVNodeLost,
    KVProtocolError,
    KVRefused,
    KVTimeout,
    KVUsageError,
    WireError,
)
from host_stack.kv.ids import ALL_GROUP, SCHEDULER_GROUP, SERVER_GROUP, WORKER_GROUP, Role
from host_stack.kv.message import KVPairs
from host_stack.kv.node import Node
from host_stack.kv.server import KVMeta, KVServer
from host_stack.kv.stats import NodeStats
from host_stack.kv.worker import KVWorker

__all__ = [
    "ALL_GROUP",
    "SCHEDULER_GROUP",
    "SERVER_GROUP",
    "WORKER_GROUP",
    "KVConfig",
    "KVConfigError",
    "KVConnectError",
    "KVError",
    "KVHandlerError",
    "KVMeta",
    "KVNodeLost",
    "KVPairs",
    "KVProtocolError",
    "KVRefused",
    "KVServer",
    "KVTimeout",
    "KVUsageError",
    "KVWorker",
    "Node",
    "NodeStats",
    "Role",
    "SimpleApp",
    "SimpleRequest",
    "SimpleResponse",
    "WireError",
]
