"""A node that nobody closes."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from host_stack.kv.config import KVConfig
from host_stack.kv.errors import KVTimeout
from host_stack.kv.ids import Role
from host_stack.kv.node import Node

def try_to_start():
    config = KVConfig(Role.WORKER, "127.0.0.1", 9, 1, 1, start_timeout_s=0.1, linger_s=0.1)
    node = Node(config, threaded=False)
    try:
        node.start()
    except KVTimeout:
        print("no scheduler")

try_to_start()
gc.collect()
print("collected")
"""


def test_a_node_that_is_dropped_holds_nobody_up() -> None:
    """Nobody is there to take its registration, and nobody waits for that when it is collected."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split("\n") == ["no scheduler", "collected", ""], done.stderr
