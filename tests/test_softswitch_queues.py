"""Queues of interfaces, as the kernel tells them."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from softswitch import queues
from tests.in_namespace import observe
from tests.softswitch_queue_session import FRAMES, SIZE


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces and queues")
@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("tc"), reason="no iproute2")
def test_a_shaped_link_fills() -> None:
    """What waits is there in packets and bytes, and what found no room is counted."""
    seen, _ = observe("softswitch_queue_session")
    assert seen["before"] == seen["plain"] == {"packets": 0, "bytes": 0, "drops": 0}
    filled = seen["filled"]
    assert 0 < filled["packets"] <= 20
    assert filled["bytes"] == filled["packets"] * SIZE
    assert FRAMES - 25 <= filled["packets"] + filled["drops"] <= FRAMES


def test_a_kernel_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no queues then, and no error."""

    def refuse(*_: object) -> socket.socket:
        raise PermissionError

    monkeypatch.setattr(queues.socket, "socket", refuse)
    assert queues.read_queues() == {}
