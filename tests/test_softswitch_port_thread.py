"""The thread that serves the ports."""

from __future__ import annotations

import errno
from typing import Any, cast

import pytest

from softswitch.errors import PortError
from softswitch.ports import Ports


class Failing:
    """A library whose data plane ends with an error."""

    def ss_cpu_event(self, _ctx: int) -> int:
        """A descriptor."""
        return 0

    def ss_stop(self, _ctx: int, _stop: int) -> None:
        """Nothing to stop."""

    def ss_run(self, _ctx: int) -> int:
        """At once."""
        return errno.EBADF


def test_a_data_plane_that_ends_by_itself_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """When it happens, and again to whoever stops it."""
    ports = Ports(cast(Any, Failing()), 0)
    ports.start()
    with pytest.raises(PortError, match="the data plane had stopped: Bad file descriptor"):
        ports.stop()
    assert caplog.messages == ["the data plane has stopped: Bad file descriptor"]
