"""Targets."""

from __future__ import annotations

import pytest

from controller.artifacts import Artifact
from controller.targets import TARGETS, find_target
from host_stack.errors import BadInput
from tests.host_support import LAYOUT

ARTIFACT = Artifact("libra", b'{"program":""}', "", LAYOUT, "p4c", "00")


@pytest.mark.parametrize("name", list(TARGETS))
def test_v1model_targets_take_the_same_program(name: str) -> None:
    """Both switches run the bmv2 JSON as it is."""
    target = find_target(name)
    assert target.name == name
    assert target.device_config(ARTIFACT) == ARTIFACT.device_config


@pytest.mark.parametrize("name", ["", "x", "SOFT", "soft "])
def test_an_unknown_target(name: str) -> None:
    """The error shows what was given and lists those that exist."""
    with pytest.raises(BadInput) as caught:
        find_target(name)
    assert str(caught.value) == f"unknown target {name!r}; known are soft, bmv2"
