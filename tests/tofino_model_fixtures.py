"""The fixture `tofino`: libra_tna.p4 as logic, for both chips, its job in one pipe and in three."""

from __future__ import annotations

import pytest

from controller.targets.ports import TOFINO, TOFINO2, Chip
from tests.switch_under_test import F
from tests.tofino_model import TofinoUnderTest

ONE_PIPE = {1: 9, 2: 10, 3: 11, 4: 12, 5: 13}
THREE_PIPES = {1: 137, 2: 9, 3: 138, 4: 265, 5: 10}
"""Device ports that exist on both chips: of the server, then of the workers."""


@pytest.fixture(params=[TOFINO, TOFINO2], ids=lambda chip: chip.name)
def tofino_chip(request: pytest.FixtureRequest) -> Chip:
    """Each chip has a program of its own out of the same sources."""
    assert isinstance(request.param, Chip)
    return request.param


@pytest.fixture(params=[ONE_PIPE, THREE_PIPES], ids=["one-pipe", "three-pipes"])
def tofino(tofino_chip: Chip, request: pytest.FixtureRequest) -> TofinoUnderTest:
    """A switch with its job."""
    return TofinoUnderTest.make(tofino_chip, request.param, F)
