"""What a test run leaves out unless it is asked for."""

from __future__ import annotations

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, not whether it is right.
settings.register_profile("libra", deadline=None)
settings.load_profile("libra")


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
