"""The fixtures `libra`, which runs commands, and `running`, a controller that they find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controller_process import (
    ControllerProcess,
    controller_process,
    embedded_switch,
    socket_path,
    write_star,
)
from tests.operator_commands import WORKERS, Libra, run_libra


@pytest.fixture
def libra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Libra:
    """Runs `libra …` in this process."""

    def run(*arguments: str) -> tuple[int, str, str]:
        return run_libra(monkeypatch, capsys, *arguments)

    return run


@pytest.fixture
def running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ControllerProcess, Any]]:
    """A controller and its switch; commands find it by a variable."""
    with embedded_switch() as switch, socket_path() as socket:
        write_star(tmp_path, switch.address, WORKERS)
        with controller_process(tmp_path, socket) as process:
            process.event("switch-ready")
            monkeypatch.setenv("LIBRA_CONTROLLER", f"unix:{socket}")
            yield process, switch
