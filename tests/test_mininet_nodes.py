"""Command lines of the switches, and what a host's network looks like."""

import sys

from mininet_topos.nodes import bmv2_argv, softswitch_argv

PORTS = {2: "s1-eth2", 1: "s1-eth1"}


def test_embedded_switch_runs_under_the_same_python():
    """Ports in order, each `-i PORT@INTERFACE`."""
    argv = softswitch_argv("127.0.0.1:9559", 7, PORTS)
    assert argv[0] == sys.executable
    assert argv[argv.index("run") :] == [
        "run",
        *("--grpc", "127.0.0.1:9559", "--device-id", "7"),
        *("-i", "1@s1-eth1", "-i", "2@s1-eth2"),
    ]


def test_bmv2_gets_its_target_options_behind_the_dashes():
    """The gRPC address is an option of the target, not of bmv2's core."""
    argv = bmv2_argv("127.0.0.1:9559", 1, PORTS)
    assert argv[:6] == ["simple_switch_grpc", "--no-p4", "--device-id", "1", "-i", "1@s1-eth1"]
    assert argv[argv.index("--") :] == ["--", "--grpc-server-addr", "127.0.0.1:9559"]
