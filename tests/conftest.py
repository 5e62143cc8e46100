"""What a test run leaves out unless it is asked for, and what is as before behind each test."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

from host_stack import logs

# How long an example takes says how busy the machine is, not whether it is right.
settings.register_profile("libra", deadline=None)
settings.load_profile("libra")


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """A test that lets a process's main function set up its log leaves nothing of that behind."""
    known = [logging.getLogger(), *map(logging.getLogger, logs.OURS)]
    before = [(logger, logger.handlers[:], logger.level) for logger in known]
    yield
    for logger, handlers, level in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cells of the fault matrix but those for every run, unless -m names them."""
    if "faults" in config.option.markexpr:
        return
    kept, left_out = [], []
    for item in items:
        mark = item.get_closest_marker("faults")
        (kept if mark is None or mark.kwargs.get("every_run") else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
