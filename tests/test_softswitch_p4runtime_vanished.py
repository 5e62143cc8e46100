"""A controller that stops answering without closing its connection loses its place."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from finsy.proto import U128, rpc_code

from softswitch.p4runtime import limits, server
from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import TIMEOUT_S, Client

CONTROLLER = """
import sys, time
from tests.p4rt_support import Client
client = Client(sys.argv[1], 10)
assert client.arbitrate().status.code == 0
print("primary", flush=True)
time.sleep(600)
"""


def test_pings_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped primary is taken for dead, and a backup takes over."""
    short = dict.fromkeys(
        ("grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms"), 1000
    )
    options = tuple((name, short.get(name, value)) for name, value in limits.SERVER_OPTIONS)
    assert options != limits.SERVER_OPTIONS
    monkeypatch.setattr(server, "SERVER_OPTIONS", options)
    with P4RuntimeServer("127.0.0.1:0") as switch:
        primary = subprocess.Popen(
            [sys.executable, "-c", CONTROLLER, switch.address],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        try:
            assert primary.stdout is not None
            assert primary.stdout.readline() == "primary\n"
            with Client(switch.address, 1) as backup:
                assert backup.arbitrate().status.code == rpc_code.ALREADY_EXISTS
                primary.send_signal(signal.SIGSTOP)
                notice = backup.receive().arbitration
                assert notice.status.code == rpc_code.NOT_FOUND
                backup.election_id = U128.decode(notice.election_id)
                assert backup.arbitrate().status.code == rpc_code.OK
        finally:
            primary.kill()
            primary.wait(TIMEOUT_S)
