"""Fixtures of the P4Runtime tests: a serving switch, with and without pipeline and controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from softswitch.p4runtime.server import P4RuntimeServer
from tests.p4rt_support import CPU_PORT, JSON_PATH, P4INFO, Client


@pytest.fixture(scope="session")
def p4rt_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for compiled programs, so that each is compiled once."""
    return tmp_path_factory.mktemp("softswitch-cache")


@pytest.fixture
def empty_switch(p4rt_cache: Path) -> Iterator[P4RuntimeServer]:
    """Yield a serving switch without a pipeline."""
    with P4RuntimeServer("127.0.0.1:0", cache_dir=p4rt_cache, cpu_port=CPU_PORT) as server:
        yield server


@pytest.fixture
def switch(empty_switch: P4RuntimeServer) -> P4RuntimeServer:
    """Return a serving switch that runs the program."""
    empty_switch.commit(P4INFO, JSON_PATH.read_bytes())
    return empty_switch


@pytest.fixture
def primary(switch: P4RuntimeServer) -> Iterator[Client]:
    """Yield the primary controller of `switch`."""
    with Client(switch.address) as client:
        assert client.arbitrate().status.code == 0
        yield client
