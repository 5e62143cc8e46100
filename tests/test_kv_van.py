"""The sockets of a node."""

import zmq

from host_stack.kv.config import KVConfig
from host_stack.kv.ids import Role
from host_stack.kv.stats import NodeStats
from host_stack.kv.van import Van


def test_what_stays_within_a_machine_is_sent_through_a_small_buffer() -> None:
    """So it is with the loopback interface and the node's own address, and with no other."""
    config = KVConfig(Role.WORKER, "127.0.0.1", 9, 1, 1, node_host="127.0.0.1")
    van = Van(config, NodeStats())
    try:
        van.bind("localhost", 0)
        sizes = {}
        for host in ("localhost", "127.0.0.9", "192.0.2.1"):  # the last one is nobody's
            van.connect(8, host, 9, 9)
            sizes[host] = van._dealers[8].socket.get(zmq.SNDBUF)
        assert sizes == {"localhost": 256 << 10, "127.0.0.9": 256 << 10, "192.0.2.1": -1}
        van._own_host = "192.0.2.1"
        van.connect(8, "192.0.2.1", 9, 9)
        assert van._dealers[8].socket.get(zmq.SNDBUF) == 256 << 10
    finally:
        van.close_receiver()
        van.close_senders(0)
