"""The processes of a job that take the place of others, in a network that starts none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mininet_topos.job_processes import CONTROLLER, JobProcesses


class Started:
    """What is started in the network, and how often each process was told to go on."""

    topology = SimpleNamespace(
        server_hosts=[SimpleNamespace(rank=0, name="ps0", ip="10.0.0.1")],
        worker_hosts=[SimpleNamespace(rank=0, name="w0", ip="10.0.0.2")],
        switches=[],
    )

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self.processes = SimpleNamespace(start=lambda name, argv, on_event: self._process(name))

    def start(self, host: str, argv: list[str], *, name: str, on_event: Any) -> Any:
        """A process on a host."""
        return self._process(name)

    def _process(self, name: str) -> Any:
        return SimpleNamespace(go=lambda: self.told.update([name]))


@pytest.mark.parametrize(("name", "told"), [("worker1", 1), ("server", 0), (CONTROLLER, 0)])
def test_a_worker_alone_waits_for_the_beginning(tmp_path: Path, name: str, told: int) -> None:
    """What a server or a controller is told when it is restarted would let its first wait pass."""
    network = Started()
    with JobProcesses(cast(Any, network), tmp_path, lambda event: None, {}) as job:
        job.start(name)
        assert not network.told
        job.restart(name)
    assert network.told[name] == told
