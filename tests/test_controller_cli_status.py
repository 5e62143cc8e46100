"""What `libra status` tells."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from controller.cli_status import escaped_share, newest_socket, status_lines
from controller.jobapi.ask import JobStatus, read_status
from controller.jobapi.client import NoController
from host_stack.errors import BadInput


def told(**reasons: int) -> str:
    """The text for a job with some packets by reason."""
    changes = [(1, "the job begins"), (2, "the switch was empty")]
    found = JobStatus(2, 7, 60, 1, 12000, "ready", reasons, changes)
    return "\n".join(status_lines(found))


def test_a_status_is_told() -> None:
    """Epoch, switch, why epochs were made, packets that were seen."""
    text = told(aggregated=1234, duplicate=0)
    assert "epoch 2, F = 60, placement 1" in text
    assert "switch ready, 12,000 hot keys" in text
    assert "epoch 2: the switch was empty" in text
    assert "1,234" in text
    assert "duplicate" not in text
    assert "0.00% of the packets" in text
    assert "smaller F" not in text


def test_a_scale_that_does_not_fit_is_told() -> None:
    """Where more than a hundredth of the packets escapes."""
    assert "smaller F" in told(aggregated=90, escaped=10)
    assert escaped_share({"aggregated": 90, "escaped": 10}) == 0.1
    assert escaped_share({"no_job": 5}) is None


def test_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says so, and what to do; a socket that nobody serves is another one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(BadInput, match="--socket"):
        newest_socket()
    folder = tmp_path / "libra-x"
    folder.mkdir()
    (folder / "job.sock").touch()
    assert newest_socket() == folder / "job.sock"
    with pytest.raises(NoController, match="does not answer"):
        read_status(folder / "job.sock", 1, 0.3)
