"""The fixture `switch`: libra.p4 on every target that is here."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.artifacts import Artifact
from tests.bmv2_switch import bmv2
from tests.switch_under_test import F, SwitchUnderTest, embedded


def soft() -> Iterator[SwitchUnderTest]:
    """The embedded switch, in memory."""
    with embedded(Artifact.load(), F) as switch:
        yield switch


def on_bmv2(log: Path) -> Iterator[SwitchUnderTest]:
    """simple_switch_grpc, over its packet stream."""
    with bmv2(log) as (ports, address):
        switch = SwitchUnderTest(ports, Artifact.load(), address, "bmv2", F, workers=4)
        asyncio.run(switch.provision())
        yield switch


needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
needs_bmv2 = pytest.mark.skipif(
    shutil.which("simple_switch_grpc") is None, reason="simple_switch_grpc is not on PATH"
)

TARGETS = [
    pytest.param("soft", marks=[pytest.mark.compiler, needs_compiler]),
    pytest.param("bmv2", marks=[pytest.mark.bmv2, needs_bmv2]),
]
"""The targets that run v1model programs, as parameters of fixtures."""


@pytest.fixture(params=TARGETS)
def switch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SwitchUnderTest]:
    """A freshly provisioned switch of each target."""
    yield from soft() if request.param == "soft" else on_bmv2(tmp_path / "bmv2.log")
